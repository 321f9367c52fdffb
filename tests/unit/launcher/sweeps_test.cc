#include "launcher/core/fleet/sweeps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class SweepsTest : public testing::Test {
 protected:
  // "ask 0", "ask 0 kill", "again 0 kill"; "seen 2", "seen 0 killed".
  std::vector<std::string> told(const Sweeps::Actions& actions) {
    std::vector<std::string> all;
    for (const Sweeps::Action& each : actions) {
      if (const auto* ask = std::get_if<Sweeps::Ask>(&each)) {
        asked_[ask->node] = *ask;
        all.push_back(
            fmt::format("{} {}{}", ask->again ? "again" : "ask", ask->node, ask->kill ? " kill" : ""));
      } else if (const auto* seen = std::get_if<Sweeps::Seen>(&each)) {
        all.push_back(fmt::format("seen {}{}", seen->left.size(), seen->killed ? " killed" : ""));
      }
    }
    return all;
  }
  auto look(bool kill = false) { return told(sweeps_.look(kill, now_)); }
  // The host answers the last question.
  auto answer(NodeId node, int left_count) {
    return told(
        sweeps_.answered(asked_.at(node), std::vector<Leftover>(left_count, Leftover{.node = node}), now_));
  }
  auto silent(NodeId node) { return told(sweeps_.answered(asked_.at(node), std::nullopt, now_)); }
  auto pass(Duration time) {
    now_ += time;
    return told(sweeps_.on_time(now_));
  }

  TimePoint now_{1000s};
  Sweeps sweeps_;
  std::map<NodeId, Sweeps::Ask> asked_;
};

constexpr NodeId kFirstNode{0};
constexpr NodeId kSecondNode{1};

TEST_F(SweepsTest, AsksNoHostIfNoAgentHasEnded) {
  EXPECT_THAT(look(true), ElementsAre("seen 0 killed"));
  EXPECT_EQ(sweeps_.next_deadline(), std::nullopt);
}

TEST_F(SweepsTest, EachHostIsAskedUntilNothingIsLeftThere) {
  sweeps_.expect(kFirstNode);
  sweeps_.expect(kSecondNode);
  EXPECT_THAT(look(), ElementsAre("ask 0", "ask 1"));
  EXPECT_THAT(answer(kFirstNode, 0), IsEmpty()) << "the other has not answered";
  EXPECT_THAT(answer(kSecondNode, 2), ElementsAre("seen 2"));
  now_ += Sweeps::kPeriod;
  EXPECT_THAT(look(true), ElementsAre("ask 1 kill"));
  EXPECT_THAT(answer(kSecondNode, 0), ElementsAre("seen 0 killed"));
  EXPECT_THAT(look(), ElementsAre("seen 0"));
}

TEST_F(SweepsTest, TheNextLookBeginsAfterAPeriodAndKillsIfRequested) {
  sweeps_.expect(kFirstNode);
  look();
  EXPECT_THAT(look(true), IsEmpty()) << "only one look at a time";
  EXPECT_THAT(answer(kFirstNode, 1), ElementsAre("seen 1"));
  EXPECT_THAT(look(), IsEmpty());
  EXPECT_EQ(sweeps_.next_deadline(), now_ + Sweeps::kPeriod);
  EXPECT_THAT(pass(Sweeps::kPeriod), ElementsAre("ask 0 kill"));
}

// The host may have been asked before its newest agent ended, and only the earlier agent left nothing.
TEST_F(SweepsTest, IgnoresAnAnswerFromBeforeAnAgentsEnd) {
  sweeps_.expect(kFirstNode);
  look();
  sweeps_.expect(kFirstNode);
  EXPECT_THAT(answer(kFirstNode, 0), ElementsAre("ask 0")) << "at once";
  EXPECT_THAT(answer(kFirstNode, 1), ElementsAre("seen 1"));
}

TEST_F(SweepsTest, ForgetsOlderAnswersWhenAHostIsAskedAgain) {
  sweeps_.expect(kFirstNode);
  look();
  sweeps_.expect(kFirstNode);
  EXPECT_THAT(answer(kFirstNode, 3), ElementsAre("ask 0"));
  EXPECT_THAT(answer(kFirstNode, 1), ElementsAre("seen 1"));
}

TEST_F(SweepsTest, ASilentHostDelaysNoLookAndIsAskedAgain) {
  sweeps_.expect(kFirstNode);
  look();
  EXPECT_FALSE(sweeps_.is_silent(kFirstNode));
  EXPECT_THAT(silent(kFirstNode), ElementsAre("seen 0"));
  EXPECT_TRUE(sweeps_.is_silent(kFirstNode));
  EXPECT_EQ(sweeps_.next_deadline(), now_ + Sweeps::kPause);
  EXPECT_THAT(pass(Sweeps::kPause), ElementsAre("again 0 kill"));
  EXPECT_EQ(sweeps_.next_deadline(), std::nullopt) << "while it is being asked";
  EXPECT_THAT(silent(kFirstNode), IsEmpty());
  EXPECT_THAT(pass(Sweeps::kPause), ElementsAre("again 0 kill"));
  EXPECT_THAT(answer(kFirstNode, 1), IsEmpty());
  EXPECT_THAT(pass(Sweeps::kPause), ElementsAre("again 0 kill"));
  EXPECT_THAT(answer(kFirstNode, 0), IsEmpty()) << "nobody waits for it";
  EXPECT_EQ(sweeps_.next_deadline(), std::nullopt);
  EXPECT_FALSE(sweeps_.is_silent(kFirstNode));
}

TEST_F(SweepsTest, ALookAsksASilentHostTooAndWaitsForItsOwnAnswer) {
  sweeps_.expect(kFirstNode);
  look();
  silent(kFirstNode);
  EXPECT_THAT(pass(Sweeps::kPause), ElementsAre("again 0 kill"));
  const Sweeps::Ask by_itself = asked_.at(kFirstNode);
  EXPECT_THAT(look(), ElementsAre("ask 0"));
  EXPECT_THAT(told(sweeps_.answered(by_itself, std::vector<Leftover>(1), now_)), IsEmpty());
  EXPECT_THAT(answer(kFirstNode, 0), ElementsAre("seen 0"));
  EXPECT_THAT(pass(Sweeps::kPause), IsEmpty()) << "nothing is left";
}

}  // namespace
}  // namespace muster::launcher
