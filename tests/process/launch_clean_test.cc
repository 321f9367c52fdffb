// The commands that remove jobs' logs and stop several jobs, on real jobs.
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/process/job_commands.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr const char* kStoppable = "echo ready; trap 'exit 0' TERM; while :; do sleep 0.02; done";

class LaunchClean : public JobCommands {
 protected:
  // On a terminal whose user types the answer after `meanwhile`.
  AnsweredRun answered(const char* answer, const char* line,
                       const std::function<void()>& meanwhile = {}) const {
    return answered_on_terminal(line, answer, environment(), meanwhile);
  }
};

TEST_F(LaunchClean, CleanUpAfterJobsThatHaveEnded) {
  const auto left = [this] {
    std::vector<std::string> states;
    for (const auto& job : jobs()) states.push_back(job["state"]);
    return states;
  };
  EXPECT_EQ(command({"clean"}).out, "0 jobs removed\n");
  for (const char* script : {"exit 0", "exit 3", "exit 0"}) {
    LaunchRun ended(started({"--max-restarts", "0", "sh", "-c", script}));
    ended.exit_code();
  }
  LaunchRun lost(started({"--controller-grace", "60", "sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(lost.printed("ready"));
  lost.signal(SIGKILL);
  lost.exit_code();
  LaunchRun running(started({"sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(running.printed("ready"));
  const std::filesystem::path other = logs + "/not-a-job";
  std::filesystem::create_directory(other);

  EXPECT_EQ(command({"clean", "--older-than", "1h"}).out, "0 jobs removed\n");
  EXPECT_THAT(command({"clean", "--keep", "2", "--dry-run"}).out,
              MatchesRegex("[^\n]+ \\(failed\\)\n[^\n]+ \\(succeeded\\)\n2 jobs would be removed\n"));
  EXPECT_THAT(left(), ElementsAre("running", "lost", "succeeded", "failed", "succeeded"));
  const auto removed = nlohmann::json::parse(command({"clean", "--keep", "2", "--yes", "--json"}).out);
  ASSERT_EQ(removed.size(), 2U);
  EXPECT_EQ(removed[0]["state"], "failed");
  EXPECT_FALSE(std::filesystem::exists(removed[0]["log_directory"].get<std::string>()));
  EXPECT_THAT(left(), ElementsAre("running", "lost", "succeeded"));
  EXPECT_THAT(command({"clean", "--yes"}).out, MatchesRegex("[^\n]+ \\(succeeded\\)\n1 job removed\n"));
  EXPECT_THAT(left(), ElementsAre("running", "lost")) << "the lost one's worker still lives";
  EXPECT_TRUE(std::filesystem::exists(other));
  LaunchRun ended(started({"true"}));
  ended.exit_code();
  const std::string id = std::filesystem::path(jobs().at(0)["log_directory"].get<std::string>()).filename();
  {
    const LaunchRun survivor({"-c", "echo ready; exec sleep 1000"}, {{"MUSTER_JOB_ID", id}}, "/bin/sh");
    ASSERT_TRUE(survivor.printed("ready"));
    EXPECT_EQ(command({"clean"}).out, "0 jobs removed\n") << "a process of it lives";
  }
  EXPECT_EQ(command({"clean", "--yes"}).out, id + " (succeeded)\n1 job removed\n");
  for (const Words& wrong : {Words{"clean", "--older-than", "soon"}, Words{"clean", "--keep", "-1"}}) {
    EXPECT_EQ(command(wrong).exit_code, 2);
  }
}

TEST_F(LaunchClean, RefuseWithoutATerminalToAskOn) {
  LaunchRun ended(started({"true"}));
  ASSERT_EQ(ended.exit_code(), 0);
  const Printed unasked = command({"clean"});
  EXPECT_EQ(unasked.exit_code, 2);
  EXPECT_EQ(unasked.out, "");
  EXPECT_EQ(unasked.err, "launch: --yes is missing: there is no terminal to ask whether to remove 1 job\n");
  EXPECT_EQ(jobs().size(), 1U);
}

TEST_F(LaunchClean, AskBeforeTheyDestroy) {
  LaunchRun ended(started({"true"}));
  ASSERT_EQ(ended.exit_code(), 0);
  const std::string id = only_job();
  const AnsweredRun refused = answered("n", "clean");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.out, HasSubstr(id + " (succeeded)\r\nlaunch: remove 1 job? [y/N] "));
  EXPECT_THAT(refused.out, HasSubstr("launch: nothing was changed\r\n"));
  EXPECT_EQ(jobs().size(), 1U);
  const AnsweredRun allowed = answered("Y", "clean");
  EXPECT_EQ(allowed.exit_code, 0);
  EXPECT_THAT(allowed.out, HasSubstr("1 job removed"));
  EXPECT_EQ(jobs().size(), 0U);
}

TEST_F(LaunchClean, LookAgainAfterTheAnswer) {
  LaunchRun first(started({"true"}));
  ASSERT_EQ(first.exit_code(), 0);
  const std::string directory = jobs().at(0)["log_directory"];
  LaunchRun second(started({"true"}));
  ASSERT_EQ(second.exit_code(), 0);
  const std::string removable = jobs().at(0)["log_directory"];
  std::unique_ptr<LaunchRun> saving;
  const AnsweredRun answer = answered("yes", "clean", [&] {
    saving = std::make_unique<LaunchRun>(
        started({"--checkpoint-dir", directory + "/checkpoints", "sh", "-c", kStoppable}));
    ASSERT_TRUE(saving->printed("ready"));
  });
  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_THAT(answer.out, HasSubstr("launch: kept " + directory + ": it contains the checkpoints of job "));
  EXPECT_THAT(answer.out, HasSubstr("1 job removed"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/checkpoints"));
  EXPECT_FALSE(std::filesystem::exists(removable));
}

TEST_F(LaunchClean, CancelAllJobsThatRun) {
  EXPECT_EQ(command({"cancel", "--all"}).out, "no job is running\n");
  LaunchRun first(started({"sh", "-c", kStoppable}));
  LaunchRun second(started({"sh", "-c", kStoppable}));
  ASSERT_TRUE(first.printed("ready") && second.printed("ready"));
  EXPECT_THAT(command({"cancel", "--all", only_job()}).err, HasSubstr("give --all or the job"));
  const Printed unasked = command({"cancel", "--all"});
  EXPECT_EQ(unasked.exit_code, 2);
  EXPECT_EQ(unasked.err, "launch: --yes is missing: there is no terminal to ask whether to cancel 2 jobs\n");
  EXPECT_EQ(jobs()[0]["state"], "running");
  const auto ended = nlohmann::json::parse(command({"cancel", "--all", "--yes", "--json"}).out);
  ASSERT_EQ(ended.size(), 2U);
  for (const auto& job : ended) EXPECT_EQ(job["state"], "cancelled");
  EXPECT_EQ(first.exit_code(), 130);
  EXPECT_EQ(second.exit_code(), 130);
}

TEST_F(LaunchClean, CancelAllEvenIfOneEndsDuringTheQuestion) {
  LaunchRun stays(started({"sh", "-c", kStoppable}));
  ASSERT_TRUE(stays.printed("ready"));
  LaunchRun ends(started({"sh", "-c", kStoppable}));
  ASSERT_TRUE(ends.printed("ready"));
  const AnsweredRun answer = answered("y", "cancel --all", [&] {
    ends.signal(SIGINT);
    EXPECT_EQ(ends.exit_code(), 130);
  });
  EXPECT_EQ(answer.exit_code, 0) << answer.out;
  EXPECT_THAT(answer.out, HasSubstr(" stopped with exit code 130: "));
  EXPECT_THAT(answer.out, HasSubstr(" was cancelled with exit code 130: "));
  EXPECT_EQ(stays.exit_code(), 130);
}

TEST_F(LaunchClean, CleanUpNoCheckpoints) {
  LaunchRun first(started({"true"}));
  ASSERT_EQ(first.exit_code(), 0);
  const std::string directory = jobs().at(0)["log_directory"];
  LaunchRun second(started({"--checkpoint-dir", directory + "/checkpoints", "true"}));
  ASSERT_EQ(second.exit_code(), 0);
  const Printed kept = command({"clean", "--yes"});
  EXPECT_EQ(kept.exit_code, 1);
  EXPECT_THAT(kept.err, MatchesRegex("launch: kept .*: it contains the checkpoints of job [^ ]+\n"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/checkpoints"));
}

}  // namespace
}  // namespace muster
