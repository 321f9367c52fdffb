// The command line of the program `simulate`.
#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/wait.h>

#include "tests/simulation/script.h"

namespace muster::simulation {
namespace {

struct Ran {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

Ran simulate(const std::string& flags, const std::string& streams = "2>&1") {
  Ran ran;
  FILE* pipe = popen((std::string(SIMULATE) + " " + flags + " " + streams).c_str(), "r");
  if (pipe == nullptr) return ran;
  char bytes[4096];
  for (std::size_t got = 0; (got = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;)
    ran.output.append(bytes, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit_code = WEXITSTATUS(status);
  return ran;
}

TEST(Simulate, RefusesBadInputInOneLine) {
  for (const char* flags : {"", "--seeds 0", "--seeds many", "--seed -1", "--seed 1 --seeds 2",
                            "--nodes 0 --seed 1", "--trace --seeds 2", "--first 3 --seed 1",
                            "--seed 1 --what", "--seed 1 more", "--sweeps", "--sweeps --seed 1 --nodes 3"}) {
    const Ran ran = simulate(flags);
    EXPECT_EQ(ran.exit_code, 2) << flags;
    EXPECT_TRUE(ran.output.starts_with("simulate: ")) << flags << ": " << ran.output;
    EXPECT_EQ(std::ranges::count(ran.output, '\n'), 1) << flags << ": " << ran.output;
  }
}

TEST(Simulate, EndsWithASummary) {
  const Ran ran = simulate("--seeds 3 --first 5", "2>/dev/null");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  const std::string last = ran.output.substr(ran.output.rfind('\n', ran.output.size() - 2) + 1);
  unsigned seeds = 0, failed = 0, kinds = 0;
  unsigned long long events = 0;
  double seconds = -1;
  ASSERT_EQ(std::sscanf(last.c_str(), "%u seeds, %u failed, %llu events, %u kinds of fault, %lf s", &seeds,
                        &failed, &events, &kinds, &seconds),
            5)
      << last;
  EXPECT_EQ(seeds, 3U);
  EXPECT_EQ(failed, 0U);
  EXPECT_GT(events, 10'000U);
  EXPECT_GT(kinds, 10U);
}

TEST(Simulate, PrintsOneDocumentOnRequest) {
  const Ran ran = simulate("--seeds 2 --json", "2>/dev/null");
  EXPECT_EQ(ran.exit_code, 0);
  const auto document = nlohmann::json::parse(ran.output);
  EXPECT_EQ(document.at("seeds"), 2);
  EXPECT_EQ(document.at("failed"), 0);
  EXPECT_TRUE(document.at("failures").empty());
  EXPECT_GE(document.at("shortest_virtual_seconds").get<double>(), 600);
  EXPECT_GE(document.at("fewest_faults").get<int>(), 10);
  EXPECT_EQ(document.at("faults").size(), kFaultKindCount);
}

TEST(Simulate, PrintsTheSameTraceForTheSameSeed) {
  const Ran one = simulate("--seed 3 --nodes 2 --ranks 2 --trace", "2>/dev/null");
  const Ran other = simulate("--seed 3 --nodes 2 --ranks 2 --trace", "2>/dev/null");
  const auto without_time = [](const Ran& ran) { return ran.output.substr(0, ran.output.rfind(',')); };
  EXPECT_GT(one.output.size(), 1000U);
  EXPECT_EQ(without_time(one), without_time(other));
}

TEST(Simulate, ShrinksASeedAndRunsWhatIsLeft) {
  const Ran ran = simulate("--seed 3 --nodes 2 --ranks 2 --shrink", "2>/dev/null");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.output.find(" faults are left:\n2 nodes "), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("\n1 seeds, 0 failed, "), std::string::npos) << ran.output;
}

TEST(Simulate, RunsSweepsAndPrintsTheSameEventsForTheSameSeed) {
  const Ran ran = simulate("--sweeps --seeds 200 --json", "2>/dev/null");
  const auto document = nlohmann::json::parse(ran.output);
  EXPECT_EQ(ran.exit_code, 0) << document.at("failures").dump(2);
  EXPECT_EQ(document.at("seeds"), 200);
  EXPECT_GT(document.at("events").get<int>(), 10'000);
  EXPECT_EQ(document.at("kinds"), document.at("faults").size()) << document.at("faults");
  const auto events_of = [](const std::string& output) { return output.substr(0, output.rfind(',')); };
  const Ran one = simulate("--sweeps --seed 3 --trace");
  EXPECT_GT(one.output.size(), 1000U);
  EXPECT_EQ(events_of(one.output), events_of(simulate("--sweeps --seed 3 --trace").output));
}

TEST(Simulate, GivesTheSameResultsHoweverManySeedsAreRun) {
  const auto events_of = [](const std::string& flags) {
    return nlohmann::json::parse(simulate(flags + " --json", "2>/dev/null").output).at("events").get<long>();
  };
  EXPECT_EQ(events_of("--seeds 2 --first 7"), events_of("--seed 7") + events_of("--seed 8"));
}

}  // namespace
}  // namespace muster::simulation
