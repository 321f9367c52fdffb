// The line that shows how far a training is, on a terminal and in a pipe.
#include "runtime/train/progress_line.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using namespace std::chrono_literals;
constexpr ProgressLine::Time kStart{};

TEST(ProgressLine, IsDrawnInPlaceOnATerminal) {
  ProgressLine line({.first = 100, .total = 400}, true, kStart);
  EXPECT_EQ(line.end(), "");
  EXPECT_FALSE(line.is_due(101, kStart + 50ms));
  EXPECT_TRUE(line.is_due(101, kStart + 100ms));
  EXPECT_EQ(line.text(200, 0.25, 3200, kStart + 10s),
            "\r\033[K[##########..........] step 200/400  loss 0.2500  320 samples/s  0:20 left");
  EXPECT_EQ(line.end(), "\n");
  EXPECT_FALSE(line.is_due(201, kStart + 10050ms));
  EXPECT_TRUE(line.is_due(400, kStart + 10050ms)) << "the last step";
}

TEST(ProgressLine, PrintsALineEveryFewSecondsInAPipe) {
  ProgressLine line({.first = 0, .total = 100000}, false, kStart);
  EXPECT_FALSE(line.is_due(10, kStart + 4s));
  EXPECT_TRUE(line.is_due(10, kStart + 5s));
  EXPECT_EQ(line.text(10, std::nullopt, 0, kStart + 5s), "step 10/100000  2 steps/s  13:53:15 left\n");
  EXPECT_EQ(line.end(), "");
}

TEST(ProgressLine, WorksWithoutATotal) {
  ProgressLine line({}, false, kStart);
  EXPECT_EQ(line.text(0, 1.0, 0, kStart), "step 0  loss 1.0000\n");
  EXPECT_EQ(line.text(64, 1.0, 128, kStart + 2s), "step 64  loss 1.0000  64 samples/s\n");
}

}  // namespace
}  // namespace muster
