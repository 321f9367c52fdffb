// Jobs with two groups under `launch`: a fault of one group is not blamed on the other.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster {
namespace {

using testing::HasSubstr;

TEST(LaunchGroups, ARankThatIsKilledIsNamedInItsGroupAndTheJobGoesOn) {
  LaunchRun run({"--gpus-per-node", "4", "--device", "cpu", "--max-restarts", "1", GROUPS_RANK, "killed"},
                {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 3 (node0) was killed by SIGKILL"));
  const auto report = run.report();
  EXPECT_EQ(report["restarts"], 1);
  EXPECT_EQ(report["attempts"][0]["culprit"]["rank"], 3);
  const auto log = [&](int attempt, int rank, const char* name) {
    return read_file(fmt::format("{}/attempt_{}/rank_{}/{}.log", run.job_directory(), attempt, rank, name),
                     1 << 20)
        .value_or("");
  };
  EXPECT_THAT(log(1, 2, "stderr"),
              HasSubstr("all_reduce (sum) of Long [1] in the group 'right' of ranks 2, 3: rank 3 is gone"));
  for (const int rank : {0, 1})
    EXPECT_THAT(log(1, rank, "stderr"), testing::Not(HasSubstr("gone"))) << "the other group reports nothing";
  for (const int rank : {0, 1, 2, 3})
    EXPECT_THAT(log(2, rank, "stdout"),
                HasSubstr(fmt::format("rank {} has added up in group '{}' of ranks {}", rank,
                                      rank < 2 ? "left" : "right", rank < 2 ? "0, 1" : "2, 3")));
}

#ifdef HAS_MPI
TEST(LaunchGroups, OverMpiRanksAreForkedFromATemplateInEachAttempt) {
  LaunchRun run({"--gpus-per-node", "4", "--device", "cpu", "--max-restarts", "1", "--warm", "--backend",
                 "mpi", GROUPS_RANK, "killed"},
                {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 3 (node0) was killed by SIGKILL"));
  EXPECT_EQ(run.report()["restarts"], 1);
  const std::string events = read_file(run.job_directory() + "/events.jsonl", 1 << 24).value_or("");
  EXPECT_EQ(count_in(events, "4 workers, 4 of them forked"), 2) << events;
  EXPECT_EQ(count_in(run.out(), "rank 3 has added up in group"), 1) << run.out();
  expect_nothing_left(run);
}
#endif

TEST(LaunchGroups, AHangBlamesTheRankNotTheOtherGroup) {
  LaunchRun run({"--gpus-per-node", "4", "--device", "cpu", "--hang-limit", "2", "--max-restarts", "0",
                 GROUPS_RANK, "hangs"},
                {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 3 (node0) hangs: it has made no step after step 9")) << run.err();
  const auto culprit = run.report()["attempts"][0]["culprit"];
  EXPECT_EQ(culprit["rank"], 3);
  std::vector<std::string> others;
  std::string missing;
  for (const auto& line : culprit["evidence"]) {
    const auto text = line.get<std::string>();
    if (text.starts_with("rank 3 has not entered collective "))
      missing = text;
    else if (!text.starts_with("rank 2:") && !text.starts_with("rank 3:"))
      others.push_back(text);
  }
  EXPECT_THAT(missing, HasSubstr(" of group 'right (group 1)': "));
  EXPECT_THAT(others, testing::IsEmpty());
}

TEST(LaunchGroups, AStragglerIsSlowWithinItsGroupNotBesideAFasterGroup) {
  ScratchDirectory signs;
  LaunchRun run({"--gpus-per-node", "5", "--device", "cpu", GROUPS_RANK, "slow", signs / "end"},
                {{"OMP_NUM_THREADS", "1"}});
  EXPECT_TRUE(eventually([&] { return run.err().contains("rank 4 (node0) is slower than the others"); },
                         std::chrono::seconds(40)))
      << run.err();
  std::ofstream(signs / "end");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["attempts"][0]["stragglers"].size(), 1U) << run.err();
}

}  // namespace
}  // namespace muster
