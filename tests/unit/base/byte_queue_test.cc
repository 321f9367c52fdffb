#include "common/base/byte_queue.h"

#include <gtest/gtest.h>
#include <random>

namespace muster {
namespace {

std::string take_all(ByteQueue& queue, std::size_t at_once) {
  std::string all;
  while (!queue.empty()) {
    const std::string_view some = queue.front().substr(0, at_once);
    all += some;
    queue.consume(some.size());
  }
  return all;
}

TEST(ByteQueue, ReturnsBytesInTheirOrder) {
  std::mt19937 random(1);
  for (const std::size_t at_once : {1000UL, 100'000UL, 1'000'000UL}) {
    ByteQueue queue;
    std::string expected, all;
    for (int i = 0; i < 200; ++i) {
      std::string bytes(random() % 20'000, static_cast<char>('a' + i % 26));
      if (i % 50 == 0) bytes.resize(3 * ByteQueue::kBlockBytes + 1, 'x');
      queue.append(bytes);
      expected += bytes;
      if (i % 70 == 69) all += take_all(queue, at_once);
      EXPECT_EQ(queue.size(), expected.size() - all.size());
    }
    all += take_all(queue, at_once);
    EXPECT_EQ(all, expected);
    EXPECT_EQ(queue.front(), "");
  }
}

TEST(ByteQueue, PutsThePrefixBeforeEachLineWhereverABlockEnds) {
  ByteQueue queue;
  std::string lines, expected;
  for (std::size_t i = 0; lines.size() < 5 * ByteQueue::kBlockBytes; ++i) {
    const std::string line = std::string(i * 7919 % 3000, 'x') + "\n";
    lines += line;
    expected += "node0:1: " + line;
  }
  queue.append("before\n");
  queue.append_lines("node0:1: ", lines);
  EXPECT_EQ(queue.size(), expected.size() + 7);
  EXPECT_EQ(take_all(queue, 1 << 20), "before\n" + expected);
}

TEST(ByteQueue, ALineMayBeLongerThanABlockOrLackItsNewline) {
  const std::string line = std::string(2 * ByteQueue::kBlockBytes, 'x') + "\n";
  ByteQueue queue;
  queue.append_lines("> ", "first\n" + line + "last");
  EXPECT_EQ(take_all(queue, 1 << 20), "> first\n> " + line + "> last");
}

}  // namespace
}  // namespace muster
