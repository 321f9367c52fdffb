// Converts arrays of numbers to another type. Datasets that keep their numbers in memory use these loops.
//
// Any thread can call the functions. With AVX2 they use wider instructions. The results are the same
// to the bit.
#pragma once

#include <cstdint>

namespace muster {

// normalize_pixels() sets `out[i] = (pixels[i] / 255 - mean) / stddev`, each operation rounded to float.
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

// Returns the first `i` for which `tokens[i]` is not in `0 .. limit - 1`, or -1.
template <class Token>
std::int64_t first_outside(const Token* tokens, std::int64_t count, std::int64_t limit);

}  // namespace muster
