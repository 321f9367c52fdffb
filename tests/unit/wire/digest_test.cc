// The digest of checkpoints: equal for equal bytes, whatever instructions the processor has.
#include "common/wire/digest.h"

#include <gtest/gtest.h>
#include <random>
#include <xxhash.h>

namespace muster {
namespace {

// Computed without the processor's widest registers.
std::string plain_digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return text_of(Digest128{.high = hash.high64, .low = hash.low64});
}

TEST(Digest, IsTheSameAtOnceAndInPiecesForEveryLengthAndOffset) {
  std::mt19937 random(1);
  std::string bytes((1 << 20) + 64, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  std::vector<std::size_t> sizes{4096, 65536 + 3, 1 << 20};
  for (std::size_t size = 0; size <= 1300; ++size) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    const std::string_view some = std::string_view(bytes).substr(size % 61, size);
    Digest pieces;
    pieces.add(some.substr(0, size / 3));
    pieces.add(some.substr(size / 3));
    ASSERT_EQ(text_of(digest_of(some)), plain_digest(some)) << size << " bytes";
    ASSERT_EQ(pieces.text(), plain_digest(some)) << size << " bytes";
  }
}

TEST(Digest, IsTheOneThatOtherToolsPrint) {
  EXPECT_EQ(xxh3_digest(""), "99aa06d3014798d86001c324468d497f");  // xxhsum -H2
}

}  // namespace
}  // namespace muster
