// A copy past the caches copies exactly the bytes, for every length and every offset in a cache line.
#include "common/base/copy_past_caches.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <vector>

namespace muster {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096;

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

// Copies `size` bytes to that offset in a line, with both functions.
void try_copy(const std::vector<std::byte>& from, std::size_t size, std::size_t place) {
  const std::byte* const source = from.data() + (7 * place + size) % kLine;
  std::vector<std::byte> to(from.size()), expected(from.size()), seen;
  std::memcpy(expected.data() + place, source, size);
  copy_past_caches(to.data() + place, source, size);
  ASSERT_TRUE(to == expected) << size << " bytes to " << place;
  std::ranges::fill(to, std::byte{0});
  copy_past_caches(to.data() + place, source, size, [&](std::span<const std::byte> bytes) {
    seen.insert(seen.end(), bytes.begin(), bytes.end());
  });
  ASSERT_TRUE(to == expected) << size << " bytes, passed to `look`, to " << place;
  ASSERT_TRUE(std::ranges::equal(seen, std::span(source, size))) << size << " bytes to " << place;
}

TEST(CopyPastCaches, CopiesTheseBytesAndNoOthers) {
  constexpr std::size_t kMostBytes = kPage + 5 * kLine;
  const auto from = random_bytes(kMostBytes + 2 * kLine);
  for (std::size_t size = 0; size <= kMostBytes; size += size == 2 * kLine ? kPage - 3 * kLine
                                                         : size < kPage    ? 1
                                                                           : 7)
    for (std::size_t place = 0; place < kLine; ++place) try_copy(from, size, place);
}

TEST(CopyPastCaches, CopiesSeveralPagesAtOnce) {
  const auto from = random_bytes(20 * kPage);
  for (std::size_t pages : {4, 5, 8, 17})
    for (std::size_t more : {0, 1, 63, 64, 65, 1000})
      for (std::size_t place : {0, 1, 16, 63}) try_copy(from, pages * kPage + more, place);
}

}  // namespace
}  // namespace muster
