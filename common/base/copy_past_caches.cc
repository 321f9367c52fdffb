#include "common/base/copy_past_caches.h"

#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace muster {

#ifdef __x86_64__

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPagesAtOnce = 4;  // so that several banks of the memory are at work
constexpr std::size_t kAhead = 2 * kLine;

void copy_line(std::byte* to, const std::byte* from) {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  const __m128i first = _mm_loadu_si128(source);
  const __m128i second = _mm_loadu_si128(source + 1);
  const __m128i third = _mm_loadu_si128(source + 2);
  const __m128i fourth = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, first);
  _mm_stream_si128(target + 1, second);
  _mm_stream_si128(target + 2, third);
  _mm_stream_si128(target + 3, fourth);
}

void copy_pages(std::byte* to, const std::byte* from, const std::byte* ahead) {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    for (std::size_t page = 0; page < kPagesAtOnce * kPage; page += kPage) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead + page + line), _MM_HINT_T0);
      copy_line(to + page + line, from + page + line);
    }
  }
}

}  // namespace

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes, const std::byte* next) {
  if (size_bytes < kPage) {
    std::memcpy(to, from, size_bytes);
    return;
  }
  // What a stream of stores writes begins at a line.
  const std::size_t before = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from, before);
  const std::byte* const ahead = next == nullptr ? from + kAhead : next;
  std::size_t at = before;
  for (; at + kPagesAtOnce * kPage <= size_bytes; at += kPagesAtOnce * kPage)
    copy_pages(to + at, from + at, ahead + at);
  for (; at + kLine <= size_bytes; at += kLine) copy_line(to + at, from + at);
  std::memcpy(to + at, from + at, size_bytes - at);
  _mm_sfence();
}

#else

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::byte* /*next*/) {
  std::memcpy(to, from, size_bytes);
}

#endif

}  // namespace muster
