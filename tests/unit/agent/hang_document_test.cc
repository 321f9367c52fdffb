// The limits on hangs in docs/operations.md are the ones that HangWatch applies.
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <regex>
#include <sstream>

#include "agent/core/health/hang_watch.h"

namespace muster::agent {
namespace {

using namespace std::chrono_literals;

// The numbers in the document at the (\d+) of `pattern`; empty if the document has no such text.
std::vector<int> stated(const std::string& pattern) {
  std::ostringstream text;
  text << std::ifstream(OPERATIONS_DOCUMENT).rdbuf();
  const std::string document = text.str();
  std::smatch match;
  std::vector<int> numbers;
  if (std::regex_search(document, match, std::regex(pattern))) {
    for (std::size_t i = 1; i < match.size(); ++i) numbers.push_back(std::stoi(match[i]));
  }
  return numbers;
}

UsualTime usual(Duration longest, int count = 3) {
  UsualTime time;
  for (int i = 0; i < count; ++i) time.seen(longest);
  return time;
}

TEST(HangLimits, ThatAreLearnedEqualTheDocument) {
  const auto numbers = stated(
      R"(\| the same, afterwards \| (\d+) times the longest seen, at least (\d+) s \| (\d+) times the longest seen, at least (\d+) s )");
  const auto most = stated(R"(the larger of `--hang-limit` and (\d+) times the longest time seen)");
  ASSERT_EQ(numbers.size(), 4U);
  ASSERT_EQ(most.size(), 1U);
  const auto seconds = [&](std::size_t i) { return std::chrono::seconds(numbers[i]); };
  EXPECT_EQ(usual(20s).soft(10'000s), numbers[0] * Duration(20s));
  EXPECT_EQ(usual(1ms).soft(10'000s), seconds(1));
  EXPECT_EQ(usual(20s).hard(10'000s), numbers[2] * Duration(20s));
  EXPECT_EQ(usual(1ms).hard(10'000s), seconds(3));
  EXPECT_EQ(usual(20s).hard(100s), 100s) << "the hang limit";
  EXPECT_EQ(usual(50s).hard(100s), most[0] * Duration(50s));
}

TEST(HangLimits, UntilTheUsualTimeIsKnownEqualTheDocument) {
  EXPECT_TRUE(
      !stated(R"(before three have been seen \| half of `--hang-limit` \| `--hang-limit` \((\d+) s\) \|)")
           .empty());
  EXPECT_EQ(usual(1s, 2).soft(600s), 300s);
  EXPECT_EQ(usual(1s, 2).hard(600s), 600s);
  EXPECT_NE(usual(1s, 3).hard(600s), 600s);
}

// How many seconds after its first look HangWatch reports rank 0: as a soft stall, and as a hard one.
std::pair<int, int> told(ProcessState state, bool heartbeat, Duration heartbeat_limit) {
  TimePoint now{1000s};
  HangWatch watch({.heartbeat = heartbeat_limit, .hang = 0s});
  watch.add(Rank(0), now);
  if (heartbeat) watch.on(*parse_report(R"({"v":1,"attempt":1,"rank":0,"type":"heartbeat"})"), now);
  std::pair<int, int> seconds{0, 0};
  for (int second = 1; second < 200; ++second) {
    now += 1s;
    for (const auto& stalled : watch.look({{Rank(0), state}}, now))
      (stalled.hard ? seconds.second : seconds.first) = second;
  }
  return seconds;
}

TEST(HangLimits, OfStoppedAndSilentWorkersEqualTheDocument) {
  const auto stop =
      stated(R"(\| stopped \(SIGSTOP; not by a debugger\), or frozen with its cgroup \| \| (\d+) s \|)");
  ASSERT_EQ(stop.size(), 1U);
  EXPECT_EQ(told(ProcessState::kStopped, false, 0s), std::pair(0, stop[0] + 1))
      << "counted from the look that notices it";
  EXPECT_EQ(told(ProcessState::kFrozen, false, 0s), std::pair(0, stop[0]))
      << "that look notices the freezer late";
  const auto silence = stated(R"(a third of `--heartbeat-limit` \| `--heartbeat-limit` \((\d+) s\) \|)");
  ASSERT_EQ(silence.size(), 1U);
  EXPECT_EQ(told(ProcessState::kLive, true, std::chrono::seconds(silence[0])),
            std::pair(silence[0] / 3, silence[0]));
}

}  // namespace
}  // namespace muster::agent
