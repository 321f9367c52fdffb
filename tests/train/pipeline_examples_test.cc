// The examples of models in stages, under the real launcher, compared with a single process that has one
// stage.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

class PipelineExamples : public testing::Test {
 protected:
  std::vector<std::string> command(int ranks, const std::string& checkpoints, const std::string& program,
                                   const std::string& flags) const {
    std::vector<std::string> words{
        "--gpus-per-node",      fmt::to_string(ranks), "--device", "cpu",  "--checkpoint-dir",
        scratch_ / checkpoints, "--max-restarts",      "1",        program};
    std::istringstream more(flags);
    for (std::string word; more >> word;) words.push_back(word);
    return words;
  }
  // Steps of 8 pieces of text.
  std::vector<std::string> gpt(int ranks, const std::string& checkpoints, const std::string& flags) const {
    return command(ranks, checkpoints, TRAIN_GPT_PIPELINE,
                   fmt::format("--token-dir {} --context 32 --width 16 --heads 2 --layers 4 --batch-size 8 "
                               "--checkpoint-every 4 {}",
                               scratch_.path().string(), flags));
  }
  std::vector<std::string> resnet(int ranks, const std::string& checkpoints, const std::string& flags) const {
    return command(ranks, checkpoints, TRAIN_RESNET50_PIPELINE,
                   "--width 4 --image-size 48 --batch-size 8 --made-images 80 --max-steps 6 " + flags);
  }
  ScratchDirectory scratch_;
  // Sums depend on the number of threads.
  const std::map<std::string, std::string> one_thread_{{"OMP_NUM_THREADS", "1"}};
};

double loss_in(const LaunchRun& run) {
  const std::string mark = "node0:0: loss ";
  const std::string out = run.out();
  const std::size_t at = out.find(mark);
  return at == std::string::npos ? -1 : std::atof(out.c_str() + at + mark.size());
}

// The digests by stage, such as "0 of 2".
std::map<std::string, std::string> digests_in(const LaunchRun& run) {
  std::map<std::string, std::string> digests;
  std::istringstream lines(run.out());
  for (std::string line; std::getline(lines, line);) {
    const std::string mark = ": parameters xxh3 ";
    const std::size_t at = line.find(mark);
    const std::size_t stage = line.find("stage ");
    if (at != std::string::npos && stage < at)
      digests[line.substr(stage + 6, at - stage - 6)] = line.substr(at + mark.size());
  }
  return digests;
}

TEST_F(PipelineExamples, AGptInStagesHasTheLossesOfOneStage) {
  const std::string steps = "--max-steps 6 ";
  LaunchRun alone(gpt(1, "alone", steps), one_thread_);
  ASSERT_EQ(alone.exit_code(), 0) << alone.err();
  EXPECT_GT(loss_in(alone), 0) << alone.out();
  LaunchRun two(gpt(2, "two", steps + "--schedule ZBH1"), one_thread_);
  ASSERT_EQ(two.exit_code(), 0) << two.err();
  EXPECT_NEAR(loss_in(two), loss_in(alone), 1e-5);
  LaunchRun four(gpt(4, "four", steps + "--recompute"), one_thread_);
  ASSERT_EQ(four.exit_code(), 0) << four.err();
  EXPECT_NEAR(loss_in(four), loss_in(alone), 1e-5);
  EXPECT_EQ(digests_in(four).size(), 4U) << four.out();
}

// Programs do not depend on the backend of their groups. With two ranks all backends give the same sums.
TEST_F(PipelineExamples, GroupsOfAnyBackendTrainToTheSameParameters) {
  std::map<std::string, std::string> over_gloo;
  for (const std::string backend : {"gloo", "shm", "mpi"}) {
#ifndef HAS_MPI
    if (backend == "mpi") continue;
#endif
    auto words = gpt(2, backend, "--stages 2 --max-steps 4");
    words.insert(words.begin(), {"--backend", backend});
    LaunchRun run(words, one_thread_);
    ASSERT_EQ(run.exit_code(), 0) << backend << ": " << run.err();
    const auto digests = digests_in(run);
    ASSERT_EQ(digests.size(), 2U) << run.out();
    if (over_gloo.empty()) over_gloo = digests;
    EXPECT_EQ(digests, over_gloo) << backend;
  }
}

// The stages' messages and the replicas' all-reduces go through shared memory.
TEST_F(PipelineExamples, TwoReplicasOfTwoStagesHaveTheLossesOfTwoReplicasOfOne) {
  LaunchRun whole(gpt(2, "whole", "--max-steps 6 --stages 1"), one_thread_);
  ASSERT_EQ(whole.exit_code(), 0) << whole.err();
  auto words = gpt(4, "stages", "--max-steps 6 --stages 2");
  words.insert(words.begin(), {"--backend", "shm"});
  LaunchRun stages(words, one_thread_);
  ASSERT_EQ(stages.exit_code(), 0) << stages.err();
  EXPECT_GT(loss_in(whole), 0) << whole.out();
  EXPECT_NEAR(loss_in(stages), loss_in(whole), 1e-5);
}

TEST_F(PipelineExamples, AGptEndsWithTheSameParametersIfItLosesARank) {
  LaunchRun undisturbed(gpt(4, "undisturbed", "--max-steps 10 --stages 2"), one_thread_);
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  LaunchRun hit(gpt(4, "hit", "--max-steps 10 --stages 2 --fail-at 2:7"), one_thread_);
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  EXPECT_EQ(hit.report()["restarts"], 1);
  ASSERT_EQ(digests_in(undisturbed).size(), 2U) << undisturbed.out();
  EXPECT_EQ(digests_in(hit), digests_in(undisturbed));
}

TEST_F(PipelineExamples, AGptOfFourStagesResumesInTwoAndInOne) {
  LaunchRun four(gpt(4, "four", "--max-steps 4"), one_thread_);
  ASSERT_EQ(four.exit_code(), 0) << four.err();
  std::filesystem::copy(scratch_ / "four", scratch_ / "one", std::filesystem::copy_options::recursive);
  LaunchRun one(gpt(1, "one", "--max-steps 8"), one_thread_);
  ASSERT_EQ(one.exit_code(), 0) << one.err();
  EXPECT_THAT(one.out(), HasSubstr("resumed at step 4"));
  LaunchRun two(gpt(2, "four", "--max-steps 8"), one_thread_);
  ASSERT_EQ(two.exit_code(), 0) << two.err();
  EXPECT_THAT(two.out(), HasSubstr("resumed at step 4"));
  EXPECT_GT(loss_in(one), 0) << one.out();
  EXPECT_NEAR(loss_in(two), loss_in(one), 1e-5);
}

TEST_F(PipelineExamples, AResNetInStagesEqualsThatOfASingleProcess) {
  LaunchRun alone(resnet(1, "alone", ""), one_thread_);
  ASSERT_EQ(alone.exit_code(), 0) << alone.err();
  EXPECT_GT(loss_in(alone), 0) << alone.out();
  EXPECT_THAT(alone.out(), HasSubstr("node0:0: test accuracy 0."));
  LaunchRun two(resnet(2, "two", "--schedule GPipe"), one_thread_);
  ASSERT_EQ(two.exit_code(), 0) << two.err();
  EXPECT_NEAR(loss_in(two), loss_in(alone), 1e-5);
  LaunchRun four(resnet(4, "four", "--split profile"), one_thread_);
  ASSERT_EQ(four.exit_code(), 0) << four.err();
  EXPECT_NEAR(loss_in(four), loss_in(alone), 1e-5);
  EXPECT_THAT(four.out(), HasSubstr("node0:3: test accuracy 0."));
  EXPECT_THAT(four.out(), HasSubstr("1F1B with 4 microbatches: "));
}

TEST_F(PipelineExamples, RefuseWrongFlagsInOneLine) {
  const auto refused = [&](int ranks, const std::string& flags, const std::string& line) {
    LaunchRun run(gpt(ranks, "refused", flags));
    EXPECT_EQ(run.exit_code(), 2) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("train_gpt_pipeline: " + line));
  };
  refused(2, "--stages 3", "2 ranks are not a multiple of --stages 3");
  refused(1, "--microbatches 3", "--batch-size 8 is not a multiple of --microbatches 3");
  refused(1, "--schedule 2F2B", "split_layers: unknown schedule 2F2B: use one of GPipe, ");
  refused(2, "--schedule DualPipeV", "split_layers: DualPipeV has 2 chunks a rank, not 1");
}

}  // namespace
}  // namespace muster
