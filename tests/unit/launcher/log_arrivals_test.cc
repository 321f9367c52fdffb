#include "launcher/core/view/log_arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr NodeId kSender{1};
constexpr Attempt kAttempt{3};

class LogArrivalsTest : public testing::Test {
 protected:
  LogArrivalsTest() {
    arrivals_.belong(NodeId(0), kAttempt, Rank(0), 2);
    arrivals_.belong(kSender, kAttempt, Rank(2), 2);
    arrivals_.kept_elsewhere(kSender, "h1", "/logs/job");
  }
  static wire::LogPiece piece(int rank, std::uint64_t offset, const std::string& text,
                              std::uint64_t left = 0) {
    return {.rank = Rank(rank), .offset = offset, .text = wire::Bytes(text), .left_bytes = left};
  }
  // The number of new bytes, and of missing bytes before them.
  std::string taken(std::uint64_t offset, const std::string& text) {
    const auto arrival = arrivals_.on(kSender, kAttempt, piece(2, offset, text));
    if (!arrival) return "none";
    return std::to_string(arrival->left_out_bytes) + ":" + text.substr(arrival->known_bytes);
  }

  LogArrivals arrivals_;
};

TEST_F(LogArrivalsTest, AcceptsEveryByteOnceAndInOrder) {
  EXPECT_EQ(taken(0, "abc"), "0:abc");
  EXPECT_EQ(taken(3, "def"), "0:def");
  EXPECT_EQ(taken(3, "def"), "0:") << "it arrived twice";
  EXPECT_EQ(taken(0, "abcdefgh"), "0:gh");
  EXPECT_EQ(taken(1, "bc"), "0:");
  EXPECT_EQ(taken(8, ""), "0:");
  EXPECT_EQ(arrivals_.arrived_bytes({kAttempt, Rank(2), wire::LogFile::kStdout}), 8U);
  EXPECT_EQ(arrivals_.arrived_bytes({kAttempt, Rank(2), wire::LogFile::kStderr}), 0U);
}

TEST_F(LogArrivalsTest, BytesThatWereRemovedBeforeTheyWereSentAreCounted) {
  EXPECT_EQ(taken(0, "abc"), "0:abc");
  EXPECT_EQ(taken(10, "k"), "7:k");
  EXPECT_EQ(taken(5, "f"), "0:") << "too late";
  EXPECT_EQ(taken(11, "l"), "0:l");
}

TEST_F(LogArrivalsTest, AcceptsOnlyLogsOfTheNodesOwnRanks) {
  EXPECT_TRUE(arrivals_.on(kSender, kAttempt, piece(3, 0, "x")));
  EXPECT_FALSE(arrivals_.on(kSender, kAttempt, piece(1, 0, "x")));
  EXPECT_FALSE(arrivals_.on(kSender, kAttempt, piece(4, 0, "x")));
  EXPECT_FALSE(arrivals_.on(kSender, kAttempt, piece(-1, 0, "x")));
  EXPECT_FALSE(arrivals_.on(kSender, Attempt(2), piece(2, 0, "x")));
  EXPECT_FALSE(arrivals_.on(kSender, Attempt(4), piece(2, 0, "x")));
  EXPECT_FALSE(arrivals_.on(NodeId(7), kAttempt, piece(2, 0, "x")));
}

TEST_F(LogArrivalsTest, ReportsPendingAndMissingBytes) {
  EXPECT_EQ(arrivals_.to_come(), "");
  arrivals_.on(kSender, kAttempt, piece(2, 0, "x", 3 << 20));
  EXPECT_EQ(arrivals_.to_come(), "3 MiB of the logs of node1 are still to come");
  arrivals_.on(kSender, kAttempt, piece(2, 1, "x", 1000));
  EXPECT_EQ(arrivals_.to_come(), "1000 bytes of the logs of node1 are still to come");
  arrivals_.told_to_leave(kSender);
  arrivals_.agent_closed(kSender);
  EXPECT_EQ(arrivals_.to_come(), "");
  arrivals_.lost(kSender, 24);
  EXPECT_THAT(arrivals_.missing(), ElementsAre("node1: 1024 bytes of its ranks' logs are missing here; "
                                               "the complete logs are in /logs/job on h1"));
}

TEST_F(LogArrivalsTest, DoesNotNameANodeWithCompleteLogsUnlessItWasLost) {
  LogArrivals complete = arrivals_;
  complete.told_to_leave(kSender);
  complete.agent_closed(kSender);
  EXPECT_THAT(complete.missing(), IsEmpty());
  arrivals_.agent_closed(NodeId(0));
  EXPECT_THAT(arrivals_.missing(), IsEmpty()) << "the node shares the directory";
  arrivals_.on(kSender, kAttempt, piece(2, 0, "x", 5));
  arrivals_.agent_closed(kSender);
  EXPECT_THAT(arrivals_.missing(),
              ElementsAre(testing::AllOf(HasSubstr("node1: it was lost"), HasSubstr("(at least 5 bytes)"))));
}

TEST_F(LogArrivalsTest, LogsFromTheNextAgentOfALostNodeAreNotMissing) {
  arrivals_.on(kSender, kAttempt, piece(2, 0, "x", 5));
  arrivals_.agent_closed(kSender);
  LogArrivals later = arrivals_;
  later.belong(kSender, Attempt(4), Rank(2), 2);
  later.on(kSender, Attempt(4), piece(2, 0, "y"));
  later.told_to_leave(kSender);
  later.agent_closed(kSender);
  EXPECT_THAT(later.missing(), ElementsAre(HasSubstr("(at least 5 bytes)")))
      << "the next agent sends only its own logs";
  arrivals_.on(kSender, kAttempt, piece(2, 0, "x", 5));
  arrivals_.on(kSender, kAttempt, piece(2, 1, "12345"));
  arrivals_.told_to_leave(kSender);
  arrivals_.agent_closed(kSender);
  EXPECT_THAT(arrivals_.missing(), IsEmpty());
}

}  // namespace
}  // namespace muster::launcher
