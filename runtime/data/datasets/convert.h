// Converts runs of numbers to another type: the inner loops of datasets that keep their files' numbers in
// memory.
//
// Plain functions, safe to call from any thread. With AVX2 they use wider instructions; the results are the
// same to the bit.
#pragma once

#include <cstdint>

namespace muster {

// out[i] = (pixels[i] / 255 - mean) / stddev, each operation rounded to float.
struct PixelScale {
  float mean;
  float stddev;
};
void normalize_pixels(const std::uint8_t* pixels, std::int64_t count, PixelScale scale, float* out);

// Sets the three channels of `count` pixels apart: planes[c * count + i] = pixels[3 * i + c].
void split_pixels(const std::uint8_t* pixels, std::int64_t count, std::uint8_t* planes);

// out[i] = tokens[i]. For the types uint8, uint16, uint32, int32 and int64.
template <class Token>
void widen_tokens(const Token* tokens, std::int64_t count, std::int64_t* out);

// Returns the first `i` for which `tokens[i]` is not in `0 .. limit - 1`, or -1.
template <class Token>
std::int64_t first_outside(const Token* tokens, std::int64_t count, std::int64_t limit);

}  // namespace muster
