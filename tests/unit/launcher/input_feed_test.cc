#include "launcher/core/job/input_feed.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

constexpr std::size_t kWindow = wire::kInputWindowBytes;
constexpr std::size_t kPiece = InputFeed::kPieceBytes;

// The text of all messages that can be sent now, with '$' for the end.
std::string sent(InputFeed& feed) {
  std::string text;
  while (const auto piece = feed.next()) {
    text += piece->text.view();
    EXPECT_LE(piece->text.view().size(), kPiece);
    if (piece->end) text += '$';
  }
  return text;
}
// Reads and sends until the feed wants no more; returns how much.
std::size_t fill(InputFeed& feed) {
  std::size_t size = 0;
  while (const std::size_t wanted = feed.wanted()) {
    feed.add(std::string(wanted, 'x'));
    size += sent(feed).size();
  }
  return size;
}

TEST(InputFeed, WantsNothingBeforeTheRankRunsAndAfterItHasEnded) {
  InputFeed feed;
  EXPECT_EQ(feed.wanted(), 0U);
  feed.begin(Attempt(1));
  EXPECT_EQ(feed.wanted(), kPiece);
  feed.stop();
  EXPECT_EQ(feed.wanted(), 0U);
  feed.add("that was on its way");
  EXPECT_EQ(sent(feed), "");
  feed.begin(Attempt(2));
  EXPECT_EQ(sent(feed), "that was on its way");
}

TEST(InputFeed, KnowsWhatEarlierRanksHaveReadAndWhatNobodyHas) {
  InputFeed feed;
  feed.begin(Attempt(1));
  feed.add("one two");
  sent(feed);
  feed.on({.written_bytes = 7, .read_bytes = 4});
  EXPECT_EQ(feed.gone(), 0);
  feed.begin(Attempt(2));
  EXPECT_EQ(feed.gone(), 4);
  EXPECT_EQ(feed.unread(), 3U);
}

TEST(InputFeed, SendsOnlyWhatTheWindowAllows) {
  InputFeed feed;
  feed.begin(Attempt(1));
  EXPECT_EQ(fill(feed), kWindow);
  feed.on({.written_bytes = 100, .read_bytes = 0});
  EXPECT_EQ(fill(feed), 100U);
  feed.on({.written_bytes = kWindow, .read_bytes = 0});
  EXPECT_EQ(fill(feed), kWindow - 100) << "the pipe is full, and the agent holds as much";
  EXPECT_EQ(feed.wanted(), 0U);
  feed.on({.written_bytes = kWindow + 50, .read_bytes = 50});
  EXPECT_EQ(fill(feed), 50U);
}

TEST(InputFeed, KeepsNoMoreThanItMayForAnyReportedNumbers) {
  InputFeed feed;
  feed.begin(Attempt(1));
  std::size_t size = 0;
  for (int i = 0; i < 10; ++i) {
    size += fill(feed);
    feed.on({.written_bytes = static_cast<std::int64_t>(size), .read_bytes = 0});
  }
  EXPECT_EQ(size, InputFeed::kMostKeptBytes);
}

TEST(InputFeed, SendsTheEndOnceAndLast) {
  InputFeed feed;
  feed.begin(Attempt(1));
  feed.add("last words");
  EXPECT_EQ(sent(feed), "last words");
  feed.add("");
  EXPECT_EQ(sent(feed), "$");
  EXPECT_EQ(sent(feed), "");
  EXPECT_EQ(feed.wanted(), 0U);
}

TEST(InputFeed, TheNextAttemptContinuesAfterWhatTheRankHasRead) {
  InputFeed feed;
  feed.begin(Attempt(1));
  feed.add("0123456789");
  EXPECT_EQ(sent(feed), "0123456789");
  feed.on({.written_bytes = 8, .read_bytes = 3});
  feed.stop();
  feed.begin(Attempt(2));
  EXPECT_EQ(feed.wanted(), 0U) << "what is kept comes first";
  EXPECT_EQ(sent(feed), "3456789");
  feed.on({.written_bytes = 7, .read_bytes = 7});
  feed.add("");
  EXPECT_EQ(sent(feed), "$");
  feed.begin(Attempt(3));
  EXPECT_EQ(sent(feed), "$");
}

TEST(InputFeed, ToleratesAnyNumbersOfAnAgent) {
  InputFeed feed;
  feed.begin(Attempt(1));
  feed.add("0123456789");
  EXPECT_EQ(sent(feed), "0123456789");
  feed.on({.written_bytes = -5, .read_bytes = INT64_MIN});
  feed.on({.written_bytes = 5, .read_bytes = 9});
  feed.on({.written_bytes = 2, .read_bytes = 1});
  feed.begin(Attempt(2));
  EXPECT_EQ(sent(feed), "56789");
  feed.on({.written_bytes = INT64_MAX, .read_bytes = INT64_MAX});
  feed.begin(Attempt(3));
  EXPECT_EQ(sent(feed), "");
}

}  // namespace
}  // namespace muster::launcher
