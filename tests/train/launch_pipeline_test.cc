// Pipelines under `launch`: the launcher names stage and microbatch of a rank that hangs.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<std::string> command(std::initializer_list<std::string> more) {
  std::vector<std::string> words{"--gpus-per-node", "3", "--device",   "cpu", "--hang-limit", "2",
                                 "--max-restarts",  "0", PIPELINE_RANK};
  words.insert(words.end(), more);
  return words;
}
const std::map<std::string, std::string> kOneThread{{"OMP_NUM_THREADS", "1"}};

std::vector<std::string> evidence_of(const LaunchRun& run) {
  return run.report()["attempts"][0]["culprit"]["evidence"].get<std::vector<std::string>>();
}

TEST(LaunchPipeline, NamesTheMicrobatchOfAStageThatHangs) {
  LaunchRun run(command({"hangs"}), kOneThread);
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("rank 1 (node0) hangs: it has made no step after step 4 for"),
                               HasSubstr(", at stage 1: forward of microbatch 3")));
  EXPECT_THAT(evidence_of(run),
              AllOf(Contains("rank 1: stage 1: forward of microbatch 3"),
                    Contains("rank 0: stage 0: waits for the gradient of microbatch 0 from stage 1 (rank 1)"),
                    Contains("rank 2: stage 2: waits for the input of microbatch 3 from stage 1 (rank 1)")));
}

// A stopped process reports nothing; the ranks that wait for it do. Its last message may not have left it.
TEST(LaunchPipeline, TheOthersNameTheMicrobatchOfAStoppedStage) {
  LaunchRun run(command({"stops"}), kOneThread);
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) hangs: it is stopped (SIGSTOP) for"));
  EXPECT_THAT(evidence_of(run),
              Contains(MatchesRegex(
                  "rank 2: stage 2: waits for the input of microbatch [0-3] from stage 1 \\(rank 1\\)")));
}

TEST(LaunchPipeline, NamesASlowStage) {
  ScratchDirectory signs;
  LaunchRun run(command({"slow", signs / "end"}), kOneThread);
  EXPECT_TRUE(eventually(
      [&] {
        return run.err().contains("rank 1 (node0) is slower than the others") &&
               run.err().contains(", in stage 1");
      },
      std::chrono::seconds(40)))
      << run.err();
  std::ofstream(signs / "end");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  // The profile needs no call in the program.
  const auto parts = run.report()["attempts"][0]["profile"]["parts"];
  ASSERT_TRUE(parts.contains("imbalance") && parts.contains("bubble")) << parts;
  EXPECT_GT(parts["imbalance"]["share"], parts["bubble"]["share"]) << parts;
}

}  // namespace
}  // namespace muster
