#include "common/base/copy_past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace muster {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPagesAtOnce = 4;  // several, so that several memory banks are used
constexpr std::size_t kBlock = kPagesAtOnce * kPage;
constexpr std::size_t kLine = 64;

#ifdef __x86_64__

// The number of bytes that `look` gets at once. It is so small that the processor can hold back its stores of
// these bytes while `look` runs.
constexpr std::size_t kLook = 1024;

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

// Copies a block. At the same time it prefetches the memory that lies `ahead` bytes after the block. That
// memory need not exist.
template <class Look>
void copy_block(std::byte* to, const std::byte* from, Look look, std::size_t ahead) {
  std::size_t line = 0;
  for (std::size_t seen = 0; seen < kBlock; seen += kLook) {
    look(from + seen, kLook);
    for (; line < (seen + kLook) / kPagesAtOnce; line += kLine) {
      for (std::size_t page = 0; page < kBlock; page += kPage) {
        _mm_prefetch(reinterpret_cast<const char*>(from + page + line + ahead), _MM_HINT_T0);
        copy_line(to + page + line, from + page + line);
      }
    }
  }
}

template <class Look>
void copy(std::byte* to, const std::byte* from, std::size_t size_bytes, Look look, std::size_t ahead) {
  if (size_bytes < kPage) {
    look(from, size_bytes);
    std::memcpy(to, from, size_bytes);
    return;
  }
  // Streaming stores start at a cache line.
  std::size_t at = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  look(from, at);
  std::memcpy(to, from, at);
  for (; at + kBlock <= size_bytes; at += kBlock) copy_block(to + at, from + at, look, ahead);
  look(from + at, size_bytes - at);
  for (; at + kLine <= size_bytes; at += kLine) copy_line(to + at, from + at);
  std::memcpy(to + at, from + at, size_bytes - at);
  _mm_sfence();
}

#else

template <class Look>
void copy(std::byte* to, const std::byte* from, std::size_t size_bytes, Look look, std::size_t /*ahead*/) {
  for (std::size_t at = 0; at < size_bytes; at += kBlock) {
    const std::size_t count = std::min(kBlock, size_bytes - at);
    look(from + at, count);
    std::memcpy(to + at, from + at, count);
  }
}

#endif

}  // namespace

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  copy(to, from, size_bytes, [](const std::byte*, std::size_t) {}, 2 * kLine);
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::function<void(std::span<const std::byte>)>& look) {
  copy(
      to, from, size_bytes, [&](const std::byte* bytes, std::size_t count) { look({bytes, count}); }, kBlock);
}

}  // namespace muster
