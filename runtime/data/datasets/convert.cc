#include "runtime/data/datasets/convert.h"

#include <algorithm>

#include "common/base/processor.h"

namespace muster {

namespace {

// The functions below are compiled for different processors. Each of them gets its own copy of these loops,
// because the loops are inlined. So the compiler vectorizes each copy for the processor of the function
// around it.
[[gnu::always_inline]] inline void normalize_loop(const std::uint8_t* pixels, std::int64_t count,
                                                  PixelScale scale, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = (static_cast<float>(pixels[i]) / 255 - scale.mean) / scale.stddev;
}

// __restrict promises that the arrays do not overlap. Without it, the compiler loads and stores byte by byte.
[[gnu::always_inline]] inline void split_loop(const std::uint8_t* __restrict pixels, std::int64_t count,
                                              std::uint8_t* __restrict first, std::uint8_t* __restrict second,
                                              std::uint8_t* __restrict third) {
  for (std::int64_t i = 0; i < count; ++i) {
    first[i] = pixels[3 * i];
    second[i] = pixels[3 * i + 1];
    third[i] = pixels[3 * i + 2];
  }
}

template <class Token>
[[gnu::always_inline]] inline void widen_loop(const Token* tokens, std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = tokens[i];
}

template <class Token>
[[gnu::always_inline]] inline bool any_outside_loop(const Token* tokens, std::int64_t count,
                                                    std::int64_t limit) {
  bool outside = false;
  for (std::int64_t i = 0; i < count; ++i)
    outside |= static_cast<std::uint64_t>(tokens[i]) >= static_cast<std::uint64_t>(limit);
  return outside;
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void normalize_avx2(const std::uint8_t* pixels, std::int64_t count, PixelScale scale,
                                            float* out) {
  normalize_loop(pixels, count, scale, out);
}

[[gnu::target("avx2")]] void split_avx2(const std::uint8_t* pixels, std::int64_t count,
                                        std::uint8_t* planes) {
  split_loop(pixels, count, planes, planes + count, planes + 2 * count);
}

template <class Token>
[[gnu::target("avx2")]] void widen_avx2(const Token* tokens, std::int64_t count, std::int64_t* out) {
  widen_loop(tokens, count, out);
}

template <class Token>
[[gnu::target("avx2")]] bool any_outside_avx2(const Token* tokens, std::int64_t count, std::int64_t limit) {
  return any_outside_loop(tokens, count, limit);
}
#endif

template <class Token>
bool any_outside(const Token* tokens, std::int64_t count, std::int64_t limit) {
#ifdef __x86_64__
  if (has_avx2()) return any_outside_avx2(tokens, count, limit);
#endif
  return any_outside_loop(tokens, count, limit);
}

}  // namespace

void normalize_pixels(const std::uint8_t* pixels, std::int64_t count, PixelScale scale, float* out) {
#ifdef __x86_64__
  if (has_avx2()) return normalize_avx2(pixels, count, scale, out);
#endif
  normalize_loop(pixels, count, scale, out);
}

void split_pixels(const std::uint8_t* pixels, std::int64_t count, std::uint8_t* planes) {
#ifdef __x86_64__
  if (has_avx2()) return split_avx2(pixels, count, planes);
#endif
  split_loop(pixels, count, planes, planes + count, planes + 2 * count);
}

template <class Token>
void widen_tokens(const Token* tokens, std::int64_t count, std::int64_t* out) {
#ifdef __x86_64__
  if (has_avx2()) return widen_avx2(tokens, count, out);
#endif
  widen_loop(tokens, count, out);
}

template <class Token>
std::int64_t first_outside(const Token* tokens, std::int64_t count, std::int64_t limit) {
  if (!any_outside(tokens, count, limit)) return -1;
  return std::find_if(tokens, tokens + count,
                      [limit](Token token) { return any_outside_loop(&token, 1, limit); }) -
         tokens;
}

template void widen_tokens(const std::uint8_t*, std::int64_t, std::int64_t*);
template void widen_tokens(const std::uint16_t*, std::int64_t, std::int64_t*);
template void widen_tokens(const std::uint32_t*, std::int64_t, std::int64_t*);
template void widen_tokens(const std::int32_t*, std::int64_t, std::int64_t*);
template void widen_tokens(const std::int64_t*, std::int64_t, std::int64_t*);
template std::int64_t first_outside(const std::uint8_t*, std::int64_t, std::int64_t);
template std::int64_t first_outside(const std::uint16_t*, std::int64_t, std::int64_t);
template std::int64_t first_outside(const std::uint32_t*, std::int64_t, std::int64_t);
template std::int64_t first_outside(const std::int32_t*, std::int64_t, std::int64_t);
template std::int64_t first_outside(const std::int64_t*, std::int64_t, std::int64_t);

}  // namespace muster
