// `launch nodes` adds hosts to a running job of the real launcher.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/commits_script.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class LaunchGrowth : public testing::Test {
 protected:
  // Runs a job over hosts that are all this machine, with these flags and program.
  std::vector<std::string> job(const std::string& hosts, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"--log-dir", logs_, "--hosts", hosts, "--exec", "env HOST={host}"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns "EXIT_CODE: OUTPUT".
  std::string command(std::vector<std::string> words) const {
    LaunchRun run(words, {{"MUSTER_LOG_DIR", logs_}});
    const int exit_code = run.exit_code();
    return fmt::format("{}: {}{}", exit_code, run.out(), run.err());
  }

  ScratchDirectory scratch_;
  const std::string logs_ = scratch_ / "logs";
};

TEST_F(LaunchGrowth, AnAddedHostTakesPartFromTheNextAttempt) {
  const std::string go = scratch_ / "go";
  LaunchRun run(job("h0,h1", {"--nodes", "1:4", "sh", "-c",
                              "echo attempt $MUSTER_ATTEMPT rank $RANK of $WORLD_SIZE on $HOST; "
                              "[ $WORLD_SIZE = 4 ] && exit 0; while [ ! -e " +
                                  go + " ]; do sleep 0.05; done; exit 3"}));
  ASSERT_TRUE(run.printed("attempt 1 rank 1 of 2 on h1")) << run.err();
  EXPECT_THAT(command({"nodes", "add", "h2:2"}),
              HasSubstr("0: node2 (h2) takes part from the next attempt\n"));
  ASSERT_TRUE(eventually([&] { return command({"nodes"}).find("waits") != std::string::npos; })) << run.err();
  const std::string list = command({"nodes", "--json"});
  EXPECT_EQ(nlohmann::json::parse(list.substr(3)).at("nodes").at(2),
            (nlohmann::json{{"node", 2}, {"host", "h2"}, {"workers", 2}, {"state", "waits"}}));
  std::ofstream(go) << "";
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("attempt 2 rank 3 of 4 on h2"));
  EXPECT_THAT(command({"replay"}), HasSubstr("decisions: the same"));
  expect_nothing_left(run);
}

TEST_F(LaunchGrowth, AnAddedHostIsNamedInMessagesEventsAndReport) {
  const std::string go = scratch_ / "go";
  LaunchRun run(job("h0,h1", {"--nodes", "1:3", "--max-restarts", "1", "sh", "-c",
                              "echo here; [ $HOST = h2 ] && exit 4; while [ ! -e " + go +
                                  " ] || [ $WORLD_SIZE = 3 ]; do sleep 0.05; done; exit 3"}));
  ASSERT_TRUE(run.printed("node1:1: here")) << run.err();
  EXPECT_THAT(command({"nodes", "add", "h2"}), HasSubstr("0: node2 (h2) takes part"));
  ASSERT_TRUE(eventually([&] { return command({"nodes"}).find("waits") != std::string::npos; })) << run.err();
  std::ofstream(go) << "";
  EXPECT_EQ(run.exit_code(), 4) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 2 (node2, h2) exited with code 4"));
  const std::string directory = std::filesystem::directory_iterator(logs_)->path();
  std::ifstream events(directory + "/events.jsonl");
  int named = 0;
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.value("node", 0) != 2) continue;
    EXPECT_EQ(event.value("host", ""), "h2") << line;
    ++named;
  }
  EXPECT_GT(named, 1);
  std::ifstream report(directory + "/report.json");
  EXPECT_EQ(nlohmann::json::parse(report).at("attempts").back().at("culprit").at("host"), "h2");
  EXPECT_THAT(command({"replay"}), HasSubstr("decisions: the same"));
}

TEST_F(LaunchGrowth, GrowNowEndsTheAttemptAfterTheNextCommitAndSpendsNoRestart) {
  LaunchRun run(job("h0,h1", {"--nodes", "1:3", "--max-restarts", "0", "python3", "-c", kCommitsUntilThree}));
  ASSERT_TRUE(run.printed("attempt 1 rank 1 of 2")) << run.err();
  EXPECT_THAT(command({"nodes", "add", "h2", "--grow", "now"}), HasSubstr("0: node2 (h2) takes part"));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("attempt 2 rank 2 of 3"));
  EXPECT_THAT(run.err(), HasSubstr("is committed: ending the attempt so that added nodes take part"));
  EXPECT_THAT(run.err(), ContainsRegex("3 ranks succeeded in [0-9.]+ s; logs: "));
  const std::string directory = std::filesystem::directory_iterator(logs_)->path();
  std::ifstream report(directory + "/report.json");
  EXPECT_EQ(nlohmann::json::parse(report).at("restarts"), 0);
  EXPECT_THAT(command({"replay"}), HasSubstr("decisions: the same"));
  expect_nothing_left(run);
}

TEST_F(LaunchGrowth, WhatCannotBeAddedIsRefusedInOneLine) {
  LaunchRun run(job("h0,h1", {"--nodes", "1:3", "sh", "-c", "echo here; exec sleep 1000"}));
  ASSERT_TRUE(run.printed("node1:1: here")) << run.err();
  EXPECT_EQ(command({"nodes", "add", "h1"}), "2: launch: nodes add: h1 is already in the job, as node1\n");
  EXPECT_THAT(command({"nodes", "add", "h2,h3"}),
              HasSubstr("2: launch: nodes add: the job has 2 of at most 3 nodes"));
  EXPECT_THAT(command({"nodes", "add", "-x"}), HasSubstr("2: launch: "));
  EXPECT_THAT(command({"nodes", "add"}), HasSubstr("2: launch: nodes add: no host given"));
  EXPECT_THAT(command({"nodes", "add", "h2", "--grow", "soon"}),
              HasSubstr("2: launch: --grow: soon is not now"));
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
}

TEST_F(LaunchGrowth, AJobOfAFixedSizeOrOfThisMachineTakesNoHosts) {
  {
    LaunchRun fixed(job("h0", {"sh", "-c", "echo here; exec sleep 1000"}));
    ASSERT_TRUE(fixed.printed("here")) << fixed.err();
    EXPECT_THAT(
        command({"nodes", "add", "h2"}),
        HasSubstr("2: launch: nodes add: the job has a fixed number of nodes: start it with --nodes"));
    fixed.signal(SIGINT);
    EXPECT_EQ(fixed.exit_code(), 130);
  }
  LaunchRun local({"--log-dir", logs_, "--nodes", "1:2", "sh", "-c", "echo here; exec sleep 1000"});
  ASSERT_TRUE(local.printed("node1:1: here")) << local.err();
  EXPECT_THAT(command({"nodes", "add", "h2"}),
              HasSubstr("has no hosts: all its nodes are on the launcher's machine"));
  EXPECT_THAT(command({"nodes"}), HasSubstr("takes part  -\n"));
  local.signal(SIGINT);
  EXPECT_EQ(local.exit_code(), 130);
}

}  // namespace
}  // namespace muster
