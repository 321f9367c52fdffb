// Jobs over hosts in namespaces, reached through a real sshd or by a program that enters the host.
#include "tests/hosts/launch_hosts.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <regex>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"

namespace muster::hosts {
namespace {

using testing::HasSubstr;

// A program that waits in the first attempt and succeeds in the second.
const std::vector<std::string> kUntilRestarted{
    "sh", "-c", "echo ready; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000"};

struct Way {
  const char* name;
  bool plain;
  const char* control;
};

class LaunchHostsBy : public LaunchHosts, public testing::WithParamInterface<Way> {
 protected:
  std::vector<std::string> flags(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"--control", GetParam().control};
    if (GetParam().plain) all.insert(all.end(), {"--exec", lab_->enter_program() + " {host}"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Whether a connection of the host, except sshd's, has received more than its handshake.
  bool is_spoken_to_by_tcp(int host) const {
    constexpr int kMoreThanHandshake = 6;
    std::string all;
    lab_->host(host).run({"ss", "-tinH", "state", "established", "sport != :22"}, &all);
    const std::regex pattern("data_segs_in:([0-9]+)");
    return std::any_of(std::sregex_iterator(all.begin(), all.end(), pattern), std::sregex_iterator(),
                       [](const std::smatch& found) { return std::stoi(found[1]) >= kMoreThanHandshake; });
  }
};

TEST_P(LaunchHostsBy, EveryRankRunsOnItsHostAndNothingIsLeft) {
  lab_ = std::make_unique<Lab>(4);
  launch(4, flags({"--gpus-per-node", "2"}), {"sh", "-c", "echo rank $RANK on $(hostname) for $MASTER_ADDR"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_THAT(run_->out(),
                HasSubstr(fmt::format("rank {} on h{} for {}", rank, rank / 2, Lab::address(0))));
  expect_nothing_left();
}

TEST_P(LaunchHostsBy, AKilledWorkerAndAKilledAgentAreReplaced) {
  lab_ = std::make_unique<Lab>(3);
  launch(3, flags({"--gpus-per-node", "2"}), kUntilRestarted);
  all_are_ready(6);
  std::vector<pid_t> workers;  // they appear a moment after their ready line
  ASSERT_TRUE(eventually([&] { return !(workers = lab_->processes(2, "sleep")).empty(); }));
  kill(workers[0], SIGKILL);
  expect_recovered(*run_, 2);
  expect_nothing_left();

  launch(3, flags({"--gpus-per-node", "2"}), kUntilRestarted);
  all_are_ready(6);
  ASSERT_NE(agent_on(1), 0);
  kill(agent_on(1), SIGKILL);
  expect_recovered(*run_, 1);
  expect_nothing_left();
}

// A spare takes the host's place; the processes on the host end by themselves.
TEST_P(LaunchHostsBy, AHostThatIsCutOffIsReplacedByASpareAndCleansUpByItself) {
  if (GetParam().plain && std::string(GetParam().control) == "stdio")
    GTEST_SKIP() << "a pipe to a process of this machine is not cut";
  for (const bool both : {true, false}) {
    run_.reset();
    lab_.reset();  // restores the environment before the next Lab changes it
    lab_ = std::make_unique<Lab>(4);
    launch(4, flags({"--nodes", "3"}), kUntilRestarted);
    all_are_ready(3);
    // With a plain channel, only the channel can be cut.
    if (std::string(GetParam().control) == "tcp")
      ASSERT_TRUE(eventually([this] { return is_spoken_to_by_tcp(1); }));
    const TimePoint cut = Clock::now();
    if (both) {
      lab_->isolate(1);
    } else {
      lab_->isolate_one_way(1);
    }
    EXPECT_TRUE(attempt(2, 10s)) << run_->err();
    EXPECT_LT(Clock::now() - cut, 5s) << "after 2 s of silence";
    expect_recovered(*run_, 1);
    EXPECT_TRUE(eventually([&] { return lab_->processes(1, "sleep").empty(); }, 15s)) << commands(1);
  }
}

TEST_P(LaunchHostsBy, ADirectoryIsCopiedToAllHostsBeforeTheStart) {
  lab_ = std::make_unique<Lab>(4);
  const std::string tree = lab_->temporary(0) + "it's/a tree";
  std::filesystem::create_directories(tree);
  std::filesystem::create_symlink("/bin/echo", tree + "/program");
  launch(4, flags({"--sync", "/tmp/it's"}), {"/tmp/it's/a tree/program", "ran"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(printed_count(": ran"), 4);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Ways, LaunchHostsBy,
                         testing::Values(Way{"ssh_tcp", false, "tcp"}, Way{"ssh_stdio", false, "stdio"},
                                         Way{"exec_tcp", true, "tcp"}, Way{"exec_stdio", true, "stdio"}),
                         [](const auto& way) { return way.param.name; });

// /tmp is each host's own.
TEST_F(LaunchHosts, WhatHostsLackIsNamedBeforeAnyWorkerStarts) {
  lab_ = std::make_unique<Lab>(4);
  const std::string program = "/tmp/only-on-two";
  for (const int host : {0, 2}) {
    std::filesystem::create_symlink("/bin/echo", lab_->temporary(host) + "only-on-two");
  }
  launch(4, {}, {program, "ran"});
  EXPECT_EQ(run_->exit_code(), 127) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("h[1,3]: cannot execute /tmp/only-on-two: No such file or directory"));
  EXPECT_EQ(run_->out(), "");
  expect_nothing_left();
}

TEST_F(LaunchHosts, CheckpointsMustBeSharedByTheHosts) {
  lab_ = std::make_unique<Lab>(3);
  launch(3, {"--checkpoint-dir", "/tmp/checkpoints"}, {"echo", "ran"});
  EXPECT_EQ(run_->exit_code(), 2) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("h[1-2]: --checkpoint-dir: /tmp/checkpoints is not there"));
  EXPECT_EQ(run_->out(), "");
  for (const int host : {1, 2}) std::filesystem::create_directory(lab_->temporary(host) + "checkpoints");
  launch(3, {"--checkpoint-dir", "/tmp/checkpoints"}, {"echo", "ran"});
  EXPECT_EQ(run_->exit_code(), 2) << run_->err();
  EXPECT_THAT(run_->err(),
              HasSubstr("h[1-2]: --checkpoint-dir: /tmp/checkpoints is a different directory there"));
  launch(3, {"--checkpoint-dir", lab_->shared() + "/checkpoints"}, {"echo", "ran"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  launch(1, {"--checkpoint-dir", "/tmp/alone"}, {"echo", "ran"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  expect_nothing_left();
}

TEST_F(LaunchHosts, ACheckShowsAHostThatDropsPacketsAndALinkThatIsCut) {
  lab_ = std::make_unique<Lab>(4);
  lab_->isolate(3);
  lab_->cut(1, 2);
  run_ = std::make_unique<LaunchRun>(
      std::vector<std::string>{"check", "--hosts", "h[0-3]", "--connect-timeout", "3", "--json", "true"},
      lab_->environment(0), LAUNCH_PROGRAM, [this](const std::string&) { return lab_->head().fork(0); });
  EXPECT_EQ(run_->exit_code(), 1) << run_->err();
  const auto document = nlohmann::json::parse(run_->out());
  for (const int host : {0, 1, 2}) EXPECT_EQ(document["hosts"][host]["reached"], true) << run_->out();
  EXPECT_EQ(document["hosts"][3]["reached"], false);
  EXPECT_EQ(document["hosts"][0]["links"][0]["works"], true);
  EXPECT_EQ(document["hosts"][1]["links"][1]["works"], false);
  EXPECT_EQ(document["hosts"][1]["links"][1]["address"], Lab::address(2));
  EXPECT_EQ(document["obstacles"].size(), 3U) << run_->out();
  expect_nothing_left();
}

TEST_F(LaunchHosts, ALinkThatFlapsBelowTheLimitOfSilenceLosesNobodyAndAboveItTheHost) {
  lab_ = std::make_unique<Lab>(4);
  launch(4, {"--nodes", "3"}, kUntilRestarted);
  all_are_ready(3);
  lab_->flap(2, 700ms, 1300ms, 4);
  EXPECT_FALSE(attempt(2, 0s)) << run_->err();
  lab_->flap(2, 5s, 1s, 1);
  expect_recovered(*run_, 2);
  expect_nothing_left(20s);
}

TEST_F(LaunchHosts, AHostThatNeverAnswersIsReplacedByASpare) {
  lab_ = std::make_unique<Lab>(4);
  lab_->isolate(1);
  launch(4, {"--nodes", "3", "--connect-timeout", "2", "--start-timeout", "3"},
         {"sh", "-c", "echo on $(hostname)"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->out(), HasSubstr("on h3"));
  expect_nothing_left();
}

TEST_F(LaunchHosts, AHostWhoseKeyIsNotKnownIsRefusedAndNamed) {
  lab_ = std::make_unique<Lab>(2);
  std::filesystem::remove(lab_->home(0) + "/.ssh/known_hosts");
  launch(2, {"--connect-timeout", "5", "--start-timeout", "5"}, {"true"});
  EXPECT_EQ(run_->exit_code(), 69) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("h1"));
  EXPECT_THAT(run_->err(), HasSubstr("Host key verification failed"));
  EXPECT_FALSE(std::filesystem::exists(lab_->home(0) + "/.ssh/known_hosts"));
  expect_nothing_left();
}

// h0 is the jump host. It allows three connections without a login, and closes half of further ones.
TEST_F(LaunchHosts, AJumpHostThatClosesConnectionsIsAskedAgain) {
  lab_ = std::make_unique<Lab>(9);
  lab_->restart_sshd(0, "MaxStartups 3:50:6");
  std::ofstream(lab_->home(0) + "/.ssh/config") << "Host h? !h0\n  ProxyJump h0\n";
  launch(9, {"--connect-timeout", "30"}, {"sh", "-c", "echo on $(hostname)"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (int i = 0; i < 9; ++i) EXPECT_THAT(run_->out(), HasSubstr(fmt::format("on h{}", i)));
  expect_nothing_left();
}

// The workers there end by themselves. Their trials go on from their checkpoints on the other host.
TEST_F(LaunchHosts, ASweepGoesOnWithoutAHostThatIsCutOff) {
  lab_ = std::make_unique<Lab>(3);
  const std::string directory = lab_->shared() + "/sweep";
  const std::string script =
      "cd $MUSTER_TRIAL_DIR; hostname >> began; step=$(cat step 2>/dev/null || echo 0); "
      "while [ $step -lt 3 ]; do step=$((step + 1)); echo $step > new; mv new step; "
      "echo MUSTER_METRIC loss=$1 step=$step; while [ ! -e ../../go ]; do sleep 0.1; done; done";
  run_ = std::make_unique<LaunchRun>(
      std::vector<std::string>{"sweep",   "run",         "--hosts",  "h1:2,h2:2", "--silence-limit",
                               "2",       "--sweep-dir", directory,  "--metric",  "loss",
                               "--space", "x=int:1:5",   "--search", "grid",      "--",
                               "sh",      "-c",          script,     "trial",     "{x}"},
      lab_->environment(0), LAUNCH_PROGRAM, [this](const std::string&) { return lab_->head().fork(); });
  const auto text_of = [&directory](int trial, const char* name) {
    return read_file(fmt::format("{}/trials/{:04}/{}", directory, trial, name), 1 << 16).value_or("");
  };
  for (const int trial : {0, 1, 2, 3})
    ASSERT_TRUE(eventually([&] { return text_of(trial, "step") == "1\n"; })) << run_->err();
  lab_->isolate(1);
  ASSERT_TRUE(eventually([this] { return run_->err().contains("h1 is set aside"); }, 20s)) << run_->err();
  ASSERT_TRUE(eventually([this] { return lab_->processes(1, "muster-agent").empty(); }, 20s)) << commands(1);
  std::ofstream(directory + "/go") << "\n";
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("5 trials, 5 finished"));
  EXPECT_EQ(count_in(run_->err(), "is set aside"), 1) << run_->err();
  for (const int trial : {0, 1, 2, 3})
    EXPECT_EQ(text_of(trial, "began"), trial % 2 == 0 ? "h1\nh2\n" : "h2\n") << "trial " << trial;
  lab_->heal();
  expect_nothing_left();
}

// Trials write their step down in their checkpoints, go on from there, and write down where they began. Each
// host has a /tmp of its own.
class SweepCheckpoints : public LaunchHosts {
 protected:
  int sweep(const std::vector<std::string>& flags) {
    const std::string script =
        "files=${MUSTER_CHECKPOINT_DIR:-/tmp/of.$MUSTER_TRIAL}; mkdir -p $files; cd $files; "
        "step=$(cat step 2>/dev/null || echo 0); echo began $step >> " +
        log() +
        "; while [ $step -lt 4 ]; do step=$((step + 1)); echo $step > step; "
        "echo MUSTER_METRIC loss=$1 step=$step; sleep 0.02; done";
    std::vector<std::string> words{"sweep",     "run",      "--metric",    "loss",        "--space",
                                   "x=int:1:4", "--search", "grid",        "--max-steps", "4",
                                   "--eta",     "2",        "--sweep-dir", "/tmp/sweep"};
    words.insert(words.end(), flags.begin(), flags.end());
    for (const std::string& word : {"--", "sh", "-c", script.c_str(), "trial", "{x}"})
      words.emplace_back(word);
    std::filesystem::remove(log());
    run_ = std::make_unique<LaunchRun>(words, lab_->environment(0), LAUNCH_PROGRAM,
                                       [this](const std::string&) { return lab_->head().fork(); });
    return run_->exit_code();
  }
  std::string log() const { return lab_->shared() + "/log"; }
  std::string began() const { return read_file(log(), 1 << 16).value_or(""); }
  // ASHA has paused some of the four trials, and each began only once at the beginning.
  void expect_all_went_on() const {
    EXPECT_EQ(count_in(began(), "began 0\n"), 4) << began();
    EXPECT_GT(count_in(began(), "began "), 4) << began();
  }
};

TEST_F(SweepCheckpoints, OfTrialsThatMayMoveMustBeOnAllHosts) {
  lab_ = std::make_unique<Lab>(3);
  const std::string sweep_directory = lab_->temporary(0) + "sweep";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--hosts", "h1:1,h2:1", "--scheduler", "asha"},
        {"--hosts", "h1:1,h2:1", "--scheduler", "asha", "--checkpoint-dir", "/tmp/given"},
        {"--hosts", "h1:2", "--scheduler", "pbt"}}) {
    EXPECT_EQ(sweep(flags), 2) << run_->err();
    EXPECT_THAT(run_->err(), HasSubstr("--checkpoint-dir: /tmp/"));
    EXPECT_THAT(run_->err(), HasSubstr("give a directory that this machine and all hosts share"));
    EXPECT_EQ(count_in(run_->err(), "\n"), 2) << "and that it begins: " << run_->err();
    EXPECT_EQ(began(), "");
    EXPECT_FALSE(std::filesystem::exists(sweep_directory)) << "it can be given again";
  }
  EXPECT_EQ(
      sweep({"--hosts", "h1:1,h2:1", "--scheduler", "asha", "--checkpoint-dir", lab_->shared() + "/given"}),
      0)
      << run_->err();
  expect_all_went_on();
  std::filesystem::remove_all(sweep_directory);
  EXPECT_EQ(sweep({"--hosts", "h1:1,h2:1", "--scheduler", "none"}), 0) << run_->err();
  EXPECT_EQ(count_in(run_->err(), "the trials of a lost host begin again on another one"), 1) << run_->err();
  expect_nothing_left();
}

// The head knows nothing of the files that the first sweep left on h1.
TEST_F(SweepCheckpoints, OfAnOlderSweepAreNotTaken) {
  lab_ = std::make_unique<Lab>(2);
  for (const bool given : {false, true}) {
    for (int times = 0; times < 2; ++times) {
      std::vector<std::string> flags{"--hosts", "h1:2", "--scheduler", "asha"};
      if (given) flags.insert(flags.end(), {"--checkpoint-dir", "/tmp/given"});
      EXPECT_EQ(sweep(flags), 0) << run_->err();
      expect_all_went_on();
      std::filesystem::remove_all(lab_->temporary(0) + "sweep");
    }
  }
  expect_nothing_left();
}

TEST_F(LaunchHosts, CtrlCWhileTheJobStartsLeavesNothingOnAnyHostAfterThreeSeconds) {
  lab_ = std::make_unique<Lab>(4);
  lab_->isolate(3);
  launch(4, {}, {"sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return agent_on(1) != 0; })) << run_->err();
  run_->signal(SIGINT);
  const TimePoint told = Clock::now();
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  expect_nothing_left(3s);
  EXPECT_LT(Clock::now() - told, 3s);
}

}  // namespace
}  // namespace muster::hosts
