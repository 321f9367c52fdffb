#include "agent/core/output/log_sending.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = LogSending::kPieceBytes;

class LogSendingTest : public testing::Test {
 protected:
  // Sends as much of it as is allowed now, and returns how much that was.
  std::size_t send_all(std::uint64_t written) {
    std::size_t sent = 0;
    while (const auto next = sending_.next()) {
      const std::size_t bytes = std::min<std::uint64_t>(next->limit_bytes, written - next->offset);
      sending_.sent(next->file, next->offset, bytes, now_);
      sent += bytes;
      sent_to_ = next->offset + bytes;
      if (bytes == 0) break;
    }
    return sent;
  }

  LogSending sending_;
  TimePoint now_{1000s};
  std::uint64_t sent_to_ = 0;
};

TEST_F(LogSendingTest, SendsTheBytesInOrderAndTheEndOnce) {
  const auto file = sending_.add();
  EXPECT_FALSE(sending_.next());
  EXPECT_TRUE(sending_.done());
  sending_.written(file, kPiece + 10, false);
  EXPECT_EQ(sending_.left_bytes(), kPiece + 10);
  auto next = sending_.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, 0U);
  EXPECT_FALSE(sending_.sent(file, 0, kPiece, now_));
  next = sending_.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, kPiece);
  EXPECT_FALSE(sending_.sent(file, kPiece, 10, now_));
  EXPECT_FALSE(sending_.next());
  EXPECT_FALSE(sending_.done());
  sending_.taken(file, kPiece + 10, now_);
  EXPECT_TRUE(sending_.done());
  EXPECT_FALSE(sending_.forget(file)) << "it may grow";
  sending_.written(file, kPiece + 10, true);
  EXPECT_FALSE(sending_.done());
  ASSERT_TRUE(sending_.next());
  EXPECT_TRUE(sending_.sent(file, kPiece + 10, 0, now_));
  EXPECT_TRUE(sending_.done());
  EXPECT_TRUE(sending_.forget(file));
}

TEST_F(LogSendingTest, AnEmptyFileIsSentOnce) {
  const auto file = sending_.add();
  sending_.written(file, 0, true);
  ASSERT_TRUE(sending_.next());
  EXPECT_TRUE(sending_.sent(file, 0, 0, now_));
  EXPECT_FALSE(sending_.next());
  EXPECT_TRUE(sending_.forget(file));
}

TEST_F(LogSendingTest, SendsNoMoreThanTheWindowAndTheWindowFollowsTheSpeed) {
  constexpr std::uint64_t kMuch = 1 << 30;
  const auto file = sending_.add();
  sending_.written(file, kMuch, false);
  for (int i = 0; i < 50; ++i) {
    EXPECT_LE(send_all(kMuch), LogSending::kMostBytes);
    now_ += 20ms;
    sending_.taken(file, sent_to_, now_);
  }
  EXPECT_EQ(send_all(kMuch), LogSending::kMostBytes);
  EXPECT_EQ(send_all(kMuch), 0U) << "until something has been taken";
  std::size_t sent = 0;
  for (int i = 0; i < 50; ++i) {
    now_ += 300ms;
    sending_.taken(file, sent_to_, now_);
    sent = send_all(kMuch);
    EXPECT_GT(sent, 0U);
  }
  EXPECT_EQ(sent, LogSending::kLeastBytes);
}

TEST_F(LogSendingTest, NoFileWaitsUntilAnotherIsComplete) {
  const auto one = sending_.add();
  const auto other = sending_.add();
  sending_.written(one, 10 * kPiece, false);
  sending_.written(other, 10 * kPiece, false);
  std::vector<LogSending::File> order;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const auto next = sending_.next();
    ASSERT_TRUE(next);
    order.push_back(next->file);
    sending_.sent(next->file, next->offset, kPiece, now_);
    sending_.taken(next->file, next->offset + kPiece, now_);
  }
  EXPECT_EQ(order, (std::vector{one, other, one, other}));
}

TEST_F(LogSendingTest, BytesThatTheLauncherHasAreNotSentAgain) {
  const auto file = sending_.add();
  sending_.written(file, 100, true);
  sending_.taken(file, 60, now_);
  ASSERT_TRUE(sending_.next());
  EXPECT_EQ(sending_.next()->offset, 60U);
  EXPECT_EQ(sending_.left_bytes(), 40U);
}

TEST_F(LogSendingTest, AFileThatIsNoLongerWantedCountsAsLeftAndIsNotWaitedFor) {
  const auto file = sending_.add();
  sending_.written(file, 100, true);
  EXPECT_FALSE(sending_.stop(file));
  EXPECT_FALSE(sending_.next());
  EXPECT_TRUE(sending_.done());
  EXPECT_EQ(sending_.left_bytes(), 100U);
  EXPECT_FALSE(sending_.forget(file));
}

TEST_F(LogSendingTest, AFileThatMayBeUnwantedCountsAsLeftOnlyOnceItIsWanted) {
  const auto wanted = sending_.add(LogSending::Wanted::kAsked);
  const auto unwanted = sending_.add(LogSending::Wanted::kAsked);
  for (const auto file : {wanted, unwanted}) sending_.written(file, kPiece + 10, true);
  EXPECT_EQ(sending_.left_bytes(), 0U);
  for (const auto file : {wanted, unwanted}) {
    const auto next = sending_.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->file, file);
    sending_.sent(file, 0, kPiece, now_);
  }
  EXPECT_TRUE(sending_.stop(unwanted)) << "and forgotten";
  sending_.taken(wanted, kPiece + 4, now_);
  EXPECT_EQ(sending_.left_bytes(), 6U);
  const auto next = sending_.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->offset, kPiece + 4);
  EXPECT_TRUE(sending_.sent(wanted, next->offset, 6, now_));
  sending_.taken(wanted, kPiece + 10, now_);
  EXPECT_TRUE(sending_.done());
  EXPECT_EQ(sending_.left_bytes(), 0U);
}

TEST_F(LogSendingTest, BytesOfAForgottenFileAreNotWaitedFor) {
  const auto file = sending_.add(LogSending::Wanted::kAsked);
  sending_.written(file, kPiece + 10, true);
  sending_.sent(file, 0, kPiece, now_);
  EXPECT_FALSE(sending_.done());
  EXPECT_TRUE(sending_.stop(file));
  EXPECT_TRUE(sending_.done());
  const auto next = sending_.add();
  sending_.written(next, 2 * kPiece, false);
  EXPECT_EQ(send_all(2 * kPiece), 2 * kPiece) << "it has the whole window";
}

}  // namespace
}  // namespace muster::agent
