#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/io/sweep/lost_run.h"
#include "tests/scratch_directory.h"

namespace muster::launcher::sweep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class LostRunTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(directory + "/" + name).parent_path());
    std::ofstream(directory + "/" + name) << text;
  }
  // (step, loss) of each report of the run.
  static std::vector<std::pair<std::int64_t, double>> losses(const LostRun& run) {
    std::vector<std::pair<std::int64_t, double>> all;
    for (const auto& [step, values] : run.reports) all.emplace_back(step, values.at("loss"));
    return all;
  }

  const ScratchDirectory scratch;
  const std::string directory = scratch / fmt::format("sweep-{}-t0-r1", getpid());
};

TEST_F(LostRunTest, EachRankCountsOnFromTheStepAtTheAttemptsBegin) {
  write("attempt_1/rank_0/stdout.log", "MUSTER_METRIC loss=1\nMUSTER_METRIC loss=2\n");
  write("attempt_1/rank_0/metrics.jsonl", "{\"step\":30,\"values\":{\"loss\":\"9\"}}\n");
  write("attempt_1/rank_1/stdout.log", "MUSTER_METRIC loss=3\n");
  write("attempt_2/rank_0/stdout.log", "MUSTER_METRIC loss=4 step=20\nMUSTER_METRIC loss=5\n");
  write("attempt_2/rank_1/stdout.log", "MUSTER_METRIC loss=6\n");
  EXPECT_THAT(
      losses(read_lost_run(directory, 2, 6).value()),
      ElementsAre(Pair(7, 1), Pair(7, 3), Pair(8, 2), Pair(9, 6), Pair(20, 4), Pair(21, 5), Pair(30, 9)));
}

TEST_F(LostRunTest, CountsFrom1) {
  write("attempt_1/rank_0/stdout.log", "MUSTER_METRIC loss=1\nMUSTER_METRIC loss=2\n");
  EXPECT_THAT(losses(read_lost_run(directory, 1, -1).value()), ElementsAre(Pair(1, 1), Pair(2, 2)));
}

TEST_F(LostRunTest, KeepsTheOrderOfRanksWithinAStep) {
  for (int rank = 0; rank < 20; ++rank)
    write(fmt::format("attempt_1/rank_{}/metrics.jsonl", rank),
          fmt::format("{{\"step\":3,\"values\":{{\"loss\":\"{}\"}}}}\n{{\"finished\":true}}\n", rank));
  const LostRun run = read_lost_run(directory, 20, -1).value();
  EXPECT_TRUE(run.finished);
  ASSERT_EQ(run.reports.size(), 20U);
  for (int rank = 0; const auto& [step, loss] : losses(run)) EXPECT_EQ(loss, rank++);
}

TEST_F(LostRunTest, EndedWhenItsRanksLastWrote) {
  EXPECT_EQ(read_lost_run(directory, 1, -1)->ended_unix, 0) << "it has not begun";
  write("attempt_1/rank_0/stdout.log", "epoch 1\n");
  write("attempt_1/rank_0/metrics.jsonl", "");
  const auto at = [](std::int64_t unix) {
    return fs::file_time_type(
        std::chrono::file_clock::from_sys(std::chrono::sys_seconds(std::chrono::seconds(unix))));
  };
  fs::last_write_time(directory + "/attempt_1/rank_0/stdout.log", at(1'700'000'200));
  fs::last_write_time(directory + "/attempt_1/rank_0/metrics.jsonl", at(1'700'000'100));
  EXPECT_EQ(read_lost_run(directory, 1, -1)->ended_unix, 1'700'000'200);
}

TEST_F(LostRunTest, NamesTheProcessesThatStillRun) {
  const std::string mark = "MUSTER_JOB_ID=" + fs::path(directory).filename().string();
  const pid_t left = fork();
  if (left == 0) {
    const char* const words[] = {"sleep", "1000", nullptr};
    const char* const environment[] = {mark.c_str(), nullptr};
    execve("/bin/sleep", const_cast<char* const*>(words), const_cast<char* const*>(environment));
    _exit(99);
  }
  Expected<LostRun> run;
  // Until the child has its new environment, it is not found.
  do run = read_lost_run(directory, 1, -1, Duration(0));
  while (run && kill(left, 0) == 0);
  kill(left, SIGKILL);
  waitpid(left, nullptr, 0);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(run.error().message(), HasSubstr(fmt::format("still run after 0 s: {}: end them", left)));
  EXPECT_TRUE(read_lost_run(directory, 1, -1, Duration(0)));
}

}  // namespace
}  // namespace muster::launcher::sweep
