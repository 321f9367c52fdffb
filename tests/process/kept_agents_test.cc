// A sweep over hosts behind a command of the test: its agents stay from trial to trial.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/tcp_connections.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

class KeptAgents : public testing::Test {
 protected:
  KeptAgents() {
    const std::string file = scratch / "on";
    std::ofstream(file) << "#!/bin/sh\nhost=$1; shift\ncase \"$*\" in *--stays*) echo $host >> " << starts
                        << ";; esac\nexec \"$@\"\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  // A sweep on the hosts: one trial for each value of x, one trial on each host at a time.
  std::vector<std::string> sweep_of(const std::string& hosts, const std::string& values,
                                    const std::vector<std::string>& flags,
                                    const std::vector<std::string>& program) const {
    std::vector<std::string> words{"sweep",          "run",
                                   "--sweep-dir",    directory,
                                   "--metric",       "loss",
                                   "--search",       "grid",
                                   "--space",        "x=choice:" + values,
                                   "--hosts",        hosts,
                                   "--exec",         (scratch / "on") + " {host}",
                                   "--remote-agent", AGENT_PROGRAM};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  // On which hosts agents were started, in order.
  std::vector<std::string> started() const {
    std::ifstream file(starts);
    return {std::istream_iterator<std::string>(file), {}};
  }
  std::string trial(int number) const { return fmt::format("{}/trials/{:04}", directory, number); }
  bool has(int number, const char* file) const { return std::filesystem::exists(trial(number) + "/" + file); }
  void touch(int number, const char* file) const { std::ofstream(trial(number) + "/" + file) << "\n"; }
  json trials() const {
    LaunchRun run({"sweep", "status", directory, "--json"});
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    return json::parse(run.out()).at("trials");
  }

  ScratchDirectory scratch;
  const std::string directory = scratch / "sweep";
  const std::string starts = scratch / "starts";
};

// The text of the agent's log of a trial, which holds those of the trials before.
std::size_t most_in_a_log(const std::string& directory, const std::string& part) {
  std::size_t most = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    if (file.path().filename() != "agent.node0.log") continue;
    const std::string text = read_file(file.path(), 1 << 20).value_or("");
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    most = std::max(most, count);
  }
  return most;
}

TEST_F(KeptAgents, ServeAllTrialsOfTheirHostWithOneTemplate) {
  LaunchRun run(sweep_of("h0:1,h1:1", "1:2:3:4:5:6", {"--parallel", "2"},
                         {WARM_RANK, "arguments", "--", "say=MUSTER_METRIC loss={x}"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("6 trials, 6 finished"));
  EXPECT_THAT(started(), testing::UnorderedElementsAre("h0", "h1"));
  EXPECT_EQ(most_in_a_log(directory, "loads the program"), 1U);
  EXPECT_GE(most_in_a_log(directory, "1 of 1 workers were forked"), 3U);
  for (const json& each : trials()) EXPECT_EQ(each.at("metrics").at("loss"), each.at("parameters").at("x"));
  expect_nothing_left(run);
}

class KeptAgentsControl : public KeptAgents, public testing::WithParamInterface<const char*> {};

TEST_P(KeptAgentsControl, MoveToTlsInEachTrial) {
  const bool moves = std::string(GetParam()) != "stdio";
  LaunchRun run(sweep_of("h0:1", "1:2:3", {"--control", GetParam()},
                         {"sh", "-c",
                          "cd $MUSTER_TRIAL_DIR; touch ready; until [ -e go ]; do sleep 0.02; done; "
                          "echo MUSTER_METRIC loss={x}"}));
  pid_t agent = 0;
  for (int number = 0; number < 3; ++number) {
    ASSERT_TRUE(eventually([&] { return has(number, "ready"); })) << run.err();
    if (agent == 0) ASSERT_TRUE(eventually([&] { return (agent = run.agent_of(0)) != 0; }));
    ASSERT_TRUE(eventually([&] { return tcp_connections_of(agent) == (moves ? 1 : 0); })) << number;
    touch(number, "go");
  }
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(started(), SizeIs(1));
  for (const json& each : trials()) EXPECT_EQ(each.at("metrics").at("loss"), each.at("parameters").at("x"));
  expect_nothing_left(run);
}

INSTANTIATE_TEST_SUITE_P(All, KeptAgentsControl, testing::Values("auto", "tcp", "stdio"),
                         [](const auto& control) { return std::string(control.param); });

// While trial 1 runs on h1, the agent of h0 waits: trial 0 has been paused, and goes on when both can be
// compared.
class WaitingAgents : public KeptAgents {
 protected:
  std::vector<std::string> words() const {
    const std::string script =
        "cd $MUSTER_TRIAL_DIR; step=$(cat step 2>/dev/null || echo 0); "
        "while [ $step -lt 2 ]; do step=$((step + 1)); echo $step > step; touch ran; "
        "[ $1 = 1 ] || until [ -e go ]; do sleep 0.02; done; "
        "echo MUSTER_METRIC loss=$1 step=$step; sleep 0.2; done";
    return sweep_of("h0:1,h1:1", "1:2",
                    {"--parallel", "2", "--scheduler", "asha", "--max-steps", "2", "--eta", "2"},
                    {"sh", "-c", script, "trial", "{x}"});
  }
  // Returns the agent that waits.
  pid_t wait_for_pause(const LaunchRun& run) const {
    EXPECT_TRUE(eventually([&] { return has(1, "ran") && trials().at(0).at("state") == "paused"; }))
        << run.err();
    pid_t waiting = 0;
    EXPECT_TRUE(eventually([&] {
      for (const pid_t agent : run.agents()) {
        const auto children =
            read_file(fmt::format("/proc/{}/task/{}/children", agent, agent), 1 << 16).value_or("");
        if (std::ranges::count(children, ' ') == 1) waiting = agent;  // only its guardian
      }
      return waiting != 0 && run.agents().size() == 2;
    }));
    return waiting;
  }
};

class LostKeptAgents : public WaitingAgents, public testing::WithParamInterface<int> {};

TEST_P(LostKeptAgents, CostNoTrial) {
  LaunchRun run(words());
  const pid_t waiting = wait_for_pause(run);
  ASSERT_GT(waiting, 1);
  kill(waiting, GetParam());
  touch(1, "go");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(started(), testing::UnorderedElementsAre("h0", "h1", "h0"));
  const json all = trials();
  EXPECT_EQ(all[0].at("state"), "finished");
  EXPECT_EQ(all[0].at("runs"), 2);
  for (const json& each : all) EXPECT_EQ(each.at("failures"), 0);
  expect_nothing_left(run);
}

INSTANTIATE_TEST_SUITE_P(By, LostKeptAgents, testing::Values(SIGKILL, SIGSTOP, SIGTERM),
                         [](const auto& signal) { return "Signal" + std::to_string(signal.param); });

TEST_F(WaitingAgents, LeaveWhenTheControllerIsKilled) {
  LaunchRun run(words());
  ASSERT_GT(wait_for_pause(run), 1);
  run.signal(SIGKILL);
  run.exit_code();
  expect_nothing_left(run);
}

}  // namespace
}  // namespace muster
