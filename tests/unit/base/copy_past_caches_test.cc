// That a copy past the caches is one, of every length, from and to every place of a cache line.
#include "common/base/copy_past_caches.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace muster {
namespace {

TEST(CopyPastCaches, CopiesTheseBytesAndNothingBesideThem) {
  constexpr std::size_t kLine = 64, kPage = 4096, kMostBytes = kPage + 5 * kLine;
  std::mt19937 random(1);
  std::vector<std::byte> from(kMostBytes + 2 * kLine);
  for (std::byte& each : from) each = static_cast<std::byte>(random());
  for (std::size_t size = 0; size <= kMostBytes; size += size == 2 * kLine ? kPage - 3 * kLine
                                                         : size < kPage    ? 1
                                                                           : 7) {
    for (std::size_t place = 0; place < kLine; ++place) {
      const std::byte* const source = from.data() + (7 * place + size) % kLine;
      std::vector<std::byte> to(from.size()), expected(from.size());
      std::memcpy(expected.data() + place, source, size);
      copy_past_caches(to.data() + place, source, size);
      ASSERT_TRUE(to == expected) << size << " bytes to " << place;
    }
  }
}

}  // namespace
}  // namespace muster
