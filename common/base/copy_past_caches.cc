#include "common/base/copy_past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace muster {

#ifdef __x86_64__

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  constexpr std::size_t kLeast = 4096;
  constexpr std::size_t kLine = 64;
  if (size_bytes < kLeast) {
    std::memcpy(to, from, size_bytes);
    return;
  }
  // What a stream of stores writes begins at a line.
  const std::size_t before = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = std::min(before, size_bytes);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= size_bytes; at += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  std::memcpy(to + at, from + at, size_bytes - at);
  _mm_sfence();
}

#else

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  std::memcpy(to, from, size_bytes);
}

#endif

}  // namespace muster
