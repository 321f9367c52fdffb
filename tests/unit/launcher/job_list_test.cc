#include "launcher/core/view/job_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launcher/core/text/duration.h"
#include "launcher/core/text/table.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using State = JobEntry::State;

JobEntry job(const std::string& name, State state, double started_unix) {
  Plan plan;
  plan.job.job_id = name;
  plan.job.command = {"train", "--lr", "0.1"};
  plan.job.log_directory = "/logs/" + name;
  plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  JobEntry entry{
      .state = state,
      .record = make_job_record(
          plan,
          {.host = "ada", .user = "u", .boot_id = "b", .pid_namespace = "n", .pid = 7, .start_ticks = 9},
          started_unix)};
  if (state == State::kSucceeded) entry.exit_code = 0;
  if (state == State::kFailed) entry.exit_code = 137;
  return entry;
}

std::string chosen(const std::vector<JobEntry>& jobs, const std::string& wanted, Preferred preferred) {
  const auto found = choose_job(jobs, wanted, preferred, "/logs");
  return found ? found->record.job_id : found.error().message();
}

TEST(JobRecord, IsReadAsItWasWritten) {
  const JobRecord record = job("a-1", State::kRunning, 1'790'000'000.5).record;
  const auto read = parse_job_record(job_record_as_json(record));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->job_id, "a-1");
  EXPECT_EQ(read->launcher, record.launcher);
  EXPECT_EQ(read->command, record.command);
  EXPECT_EQ(read->world_size, 4);
  ASSERT_EQ(read->nodes.size(), 2U);
  EXPECT_EQ(read->nodes[1].first_rank, Rank(2));
  EXPECT_EQ(read->started_at, "2026-09-21T14:13:20Z");
  EXPECT_DOUBLE_EQ(read->started_unix, 1'790'000'000.5);
}

TEST(JobRecord, IsRefusedIfItIsSomethingElse) {
  for (const char* text :
       {"", "[]", "{}", "{\"job_id\": 3}", "\xff\xfe", "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"}) {
    const auto read = parse_job_record(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(JobState, ComesFromTheReport) {
  EXPECT_EQ(state_at_end("succeeded", "none", 0), State::kSucceeded);
  EXPECT_EQ(state_at_end("exit", "worker", 3), State::kFailed);
  EXPECT_EQ(state_at_end("node_lost", "launcher", 69), State::kFailed);
  EXPECT_EQ(state_at_end("interrupted", "user", 130), State::kStopped);
  EXPECT_EQ(state_at_end("preempted", "launcher", 75), State::kStopped);
  EXPECT_EQ(state_at_end("time_limit", "launcher", 124), State::kStopped);
  EXPECT_EQ(state_at_end("cancelled", "user", 130), State::kCancelled);
}

TEST(JobState, IsStoppedIfAUserOrALimitEndedIt) {
  const auto stopped = [](Verdict::Kind kind, const char* origin, int exit_code) {
    Verdict verdict;
    verdict.kind = kind;
    verdict.origin = origin;
    verdict.exit_code = exit_code;
    return was_stopped(verdict);
  };
  EXPECT_TRUE(stopped(Verdict::Kind::kInterrupted, "user", 130));
  EXPECT_TRUE(stopped(Verdict::Kind::kCancelled, "user", 130));
  EXPECT_TRUE(stopped(Verdict::Kind::kPreempted, "launcher", 75));
  EXPECT_TRUE(stopped(Verdict::Kind::kTimeLimit, "launcher", 124));
  EXPECT_FALSE(stopped(Verdict::Kind::kSucceeded, "", 0));
  EXPECT_FALSE(stopped(Verdict::Kind::kExit, "worker", 3));
}

TEST(JobTable, ShowsTheNewestFirstWithStateExitCodeAndTimes) {
  JobEntry failed = job("old", State::kFailed, 1000);
  failed.duration_seconds = 75;
  const std::string table = jobs_as_table({failed, job("new", State::kRunning, 5000)}, 5012);
  EXPECT_THAT(table, testing::StartsWith("JOB"));
  EXPECT_LT(table.find("new"), table.find("old"));
  EXPECT_THAT(table, HasSubstr("new  running     -    12s    12s      2      4  train --lr 0.1\n"));
  EXPECT_THAT(table, HasSubstr("old  failed    137  1h06m  1m15s      2      4  train --lr 0.1\n"));
}

TEST(JobTable, BeginsCommandsWithTheScriptWhereATerminalIsTooNarrow) {
  JobEntry long_one = job("20260501-120000-ab12cd34", State::kRunning, 5000);
  const std::string interpreter = "/opt/environments/torch/bin/python3";
  long_one.record.command = {interpreter, "-u", "/home/me/experiments/train.py", "--lr", "0.1",
                             "--depth",   "48"};
  const std::string whole = interpreter + " -u /home/me/experiments/train.py --lr 0.1 --depth 48\n";
  EXPECT_THAT(jobs_as_table({long_one}, 5012), HasSubstr(whole));
  EXPECT_THAT(jobs_as_table({long_one}, 5012, 200), HasSubstr(whole));
  const std::string narrow = jobs_as_table({long_one}, 5012, 80);
  EXPECT_TRUE(fits(narrow, 80)) << narrow;
  EXPECT_THAT(narrow, HasSubstr("  train.py --lr 0.1 ...\n"));
  EXPECT_THAT(jobs_as_table({long_one}, 5012, 110), HasSubstr("  train.py --lr 0.1 --depth 48\n"));
  long_one.record.command.push_back("--" + std::string(60, 'x'));
  EXPECT_TRUE(fits(jobs_as_table({long_one}, 5012, 80), 80));
}

TEST(JobTable, IsAnArrayAsJson) {
  const auto json =
      nlohmann::json::parse(jobs_as_json({job("a", State::kFailed, 1), job("b", State::kLost, 2)}));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["job_id"], "b");
  EXPECT_EQ(json[0]["state"], "lost");
  EXPECT_TRUE(json[0]["exit_code"].is_null());
  EXPECT_EQ(json[1]["exit_code"], 137);
}

TEST(ChooseJob, TakesTheOnlyMatch) {
  const std::vector<JobEntry> jobs = {job("a", State::kSucceeded, 1), job("b", State::kRunning, 2),
                                      job("c", State::kFailed, 3)};
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunning), "b");
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunningElseNewest), "b");
  EXPECT_EQ(chosen(jobs, "", Preferred::kNewest), "c");
}

TEST(ChooseJob, TakesTheNewestForLogsWhenNoneRuns) {
  const std::vector<JobEntry> jobs = {job("a", State::kSucceeded, 1), job("c", State::kFailed, 3)};
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunningElseNewest), "c");
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunning), "no job is running in /logs: `launch ps` lists the jobs");
  EXPECT_EQ(chosen({}, "", Preferred::kRunningElseNewest),
            "no job found in /logs: `launch ps` lists the jobs");
  EXPECT_EQ(chosen({}, "", Preferred::kNewest), "no job found in /logs: `launch ps` lists the jobs");
}

TEST(ChooseJob, NamesTheNewestWhenNoneRunsAndItsLauncherIsGone) {
  std::vector<JobEntry> jobs = {job("a", State::kSucceeded, 1), job("c", State::kLost, 3)};
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunning),
            "no job is running in /logs; c is lost: see `launch status c`");
  jobs.push_back(job("d", State::kSucceeded, 4));
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunning), "no job is running in /logs: `launch ps` lists the jobs");
}

TEST(ChooseJob, AsksWhichWhenSeveralRun) {
  const std::vector<JobEntry> jobs = {job("a", State::kRunning, 1), job("b", State::kRunning, 2)};
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunning), "2 jobs are running: name one of b, a");
  EXPECT_EQ(chosen(jobs, "", Preferred::kRunningElseNewest), "2 jobs are running: name one of b, a");
  EXPECT_EQ(chosen(jobs, "", Preferred::kNewest), "b");
}

TEST(ChooseJob, AcceptsAPrefixOfAName) {
  const std::vector<JobEntry> jobs = {job("mnist-1", State::kRunning, 1), job("mnist-12", State::kFailed, 2),
                                      job("gpt-3", State::kFailed, 3)};
  EXPECT_EQ(chosen(jobs, "g", Preferred::kRunning), "gpt-3");
  EXPECT_EQ(chosen(jobs, "mnist-1", Preferred::kRunning), "mnist-1") << "a whole name is never ambiguous";
  EXPECT_EQ(chosen(jobs, "mn", Preferred::kNewest),
            "mn: ambiguous: could be mnist-12, mnist-1: give more of the name");
  EXPECT_EQ(chosen(jobs, "gtp-3", Preferred::kRunning), "gtp-3: no such job in /logs: did you mean gpt-3?");
  EXPECT_EQ(chosen(jobs, "zzzzzz", Preferred::kRunning),
            "zzzzzz: no such job in /logs: `launch ps` lists the jobs");
}

TEST(ChooseJob, PrefersARunningJobAmongSeveralMatches) {
  const std::vector<JobEntry> jobs = {job("2026-a", State::kFailed, 1), job("2026-b", State::kRunning, 2),
                                      job("2026-c", State::kSucceeded, 3), job("2025-a", State::kRunning, 4)};
  EXPECT_EQ(chosen(jobs, "2026", Preferred::kRunning), "2026-b");
  EXPECT_EQ(chosen(jobs, "2026", Preferred::kRunningElseNewest), "2026-b");
  EXPECT_EQ(chosen(jobs, "202", Preferred::kRunning),
            "202: ambiguous: could be 2025-a, 2026-b: give more of the name");
  EXPECT_EQ(chosen(jobs, "2026", Preferred::kNewest),
            "2026: ambiguous: could be 2026-c, 2026-b, 2026-a: give more of the name");
}

std::vector<std::string> names_of(const std::vector<JobEntry>& jobs) {
  std::vector<std::string> names;
  for (const JobEntry& job : jobs) names.push_back(job.record.job_id);
  return names;
}

TEST(JobTable, CanShowOnlyTheNewest) {
  std::vector<JobEntry> jobs = {job("a", State::kFailed, 1), job("c", State::kRunning, 3),
                                job("b", State::kLost, 2)};
  keep_newest(jobs, 2);
  EXPECT_THAT(names_of(jobs), ElementsAre("c", "b"));
  keep_newest(jobs, 7);
  EXPECT_THAT(names_of(jobs), ElementsAre("c", "b"));
}

TEST(EndedJobs, AreOldEnoughAndNotAmongTheNewest) {
  JobEntry long_one = job("a", State::kSucceeded, 100);
  long_one.duration_seconds = 900;
  const std::vector<JobEntry> jobs = {long_one,
                                      job("b", State::kRunning, 200),
                                      job("c", State::kFailed, 300),
                                      job("d", State::kLost, 400),
                                      job("e", State::kElsewhere, 500),
                                      job("f", State::kStopped, 990)};
  const auto ended = [&](Duration age, std::size_t keep) {
    return names_of(ended_jobs(jobs, age, keep, 1010));
  };
  EXPECT_THAT(ended({}, 0), ElementsAre("f", "d", "c", "a"));
  EXPECT_THAT(ended(std::chrono::seconds(20), 0), ElementsAre("f", "d", "c")) << "a ended 10 s ago";
  EXPECT_THAT(ended({}, 2), ElementsAre("c", "a"));
  EXPECT_THAT(ended(std::chrono::seconds(20), 2), ElementsAre("c"));
  EXPECT_THAT(ended({}, 9), ElementsAre());
  EXPECT_THAT(names_of(ended_jobs(jobs, {}, 0, 1)), ElementsAre("f", "d", "c", "a"))
      << "the clock was set back";
}

TEST(ParseDuration, TakesSecondsAndUnits) {
  for (const auto& [text, seconds] : std::initializer_list<std::pair<const char*, double>>{
           {"10", 10}, {"10s", 10}, {"0.5", 0.5}, {"5m", 300}, {"1h30m", 5400}, {"1.5d", 129600}, {"0", 0}})
    EXPECT_EQ(parse_duration(text), duration_of(seconds)) << text;
  for (const char* text : {"", "s", "5x", "-1", "-1s", "10 s", "1m30", "inf", "nan", "1e99", "99999d"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(DurationText, IsShortAndRoundsToWholeSeconds) {
  EXPECT_EQ(duration_text(0.4), "0s");
  EXPECT_EQ(duration_text(59.6), "1m00s");
  EXPECT_EQ(duration_text(200), "3m20s");
  EXPECT_EQ(duration_text(7500), "2h05m");
  EXPECT_EQ(duration_text(273600), "3d04h");
}

}  // namespace
}  // namespace muster::launcher
