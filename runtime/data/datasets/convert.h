// Converts arrays of numbers to another type. The datasets that keep their numbers in memory use these loops.
//
// Any thread can call the functions. If the processor has AVX2, they use its wider instructions. The bits of
// the results are the same.
#pragma once

#include <cstdint>

namespace muster {

// normalize_pixels() sets `out[i] = (pixels[i] / 255 - mean) / stddev`. The result of each operation is
// rounded to float.
struct PixelScale {
  float mean;
  float stddev;
};
void normalize_pixels(const std::uint8_t* pixels, std::int64_t count, PixelScale scale, float* out);

// Separates the three channels of `count` pixels: `planes[c * count + i] = pixels[3 * i + c]`.
void split_pixels(const std::uint8_t* pixels, std::int64_t count, std::uint8_t* planes);

// Sets `out[i] = tokens[i]`. Works for uint8, uint16, uint32, int32 and int64.
template <class Token>
void widen_tokens(const Token* tokens, std::int64_t count, std::int64_t* out);

// Returns the index of the first token that is less than 0 or not less than `limit`. Returns -1 if there is
// no such token.
template <class Token>
std::int64_t first_outside(const Token* tokens, std::int64_t count, std::int64_t limit);

}  // namespace muster
