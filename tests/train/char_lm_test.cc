// The language model example under the real launcher.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

class CharLm : public testing::Test {
 protected:
  // Two ranks; a step has three backward passes, and every fourth step saves a checkpoint.
  std::vector<std::string> command(const std::string& checkpoints,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{
        "--gpus-per-node", "2", "--device",    "cpu",         "--checkpoint-dir", scratch_ / checkpoints,
        "--max-restarts",  "1", TRAIN_PROGRAM, "--token-dir", scratch_.path()};
    for (const char* word :
         {"--context", "32", "--width", "16", "--heads", "2", "--layers", "2", "--accumulate", "3",
          "--checkpoint-every", "4", "--max-steps", "14", "--generate", "40"})
      words.emplace_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ScratchDirectory scratch_;
};

std::string digest_in(const std::string& output) {
  const std::string mark = "parameters xxh3 ";
  const std::size_t at = output.find(mark);
  return at == std::string::npos ? "" : output.substr(at + mark.size(), 32);
}

TEST_F(CharLm, EndsWithTheSameParametersIfItLosesAWorker) {
  LaunchRun undisturbed(command("undisturbed"));
  ASSERT_EQ(undisturbed.exit_code(), 0) << undisturbed.err();
  LaunchRun hit(command("hit", {"--fail-at", "1:10"}));
  ASSERT_EQ(hit.exit_code(), 0) << hit.err();
  EXPECT_EQ(hit.report()["restarts"], 1);
  const int resumed = hit.report()["attempts"][1]["resumed_step"];
  EXPECT_TRUE(resumed == 8 || resumed == 4) << resumed;
  ASSERT_EQ(digest_in(undisturbed.out()).size(), 32U) << undisturbed.out();
  EXPECT_EQ(digest_in(hit.out()), digest_in(undisturbed.out()));

  const std::string out = undisturbed.out();
  EXPECT_THAT(out, HasSubstr("characters, "));
  EXPECT_THAT(out, HasSubstr("step 14/14  loss "));
  EXPECT_THAT(out, HasSubstr("blocks"));
  EXPECT_THAT(out, HasSubstr("in all"));
  EXPECT_THAT(out, HasSubstr("--- generated text ---"));
}

// The program does not name a backend. With two ranks all backends sum in the same order.
TEST_F(CharLm, GroupsOfAnyBackendTrainToTheSameParameters) {
  std::string over_gloo;
  for (const std::string backend : {"gloo", "shm", "mpi"}) {
#ifndef HAS_MPI
    if (backend == "mpi") continue;
#endif
    auto words = command(backend);
    std::ranges::replace(words, std::string("14"), std::string("4"));  // steps
    words.insert(words.begin(), {"--backend", backend});
    LaunchRun run(words);
    ASSERT_EQ(run.exit_code(), 0) << backend << ": " << run.err();
    const std::string digest = digest_in(run.out());
    ASSERT_EQ(digest.size(), 32U) << run.out();
    if (over_gloo.empty()) over_gloo = digest;
    EXPECT_EQ(digest, over_gloo) << backend;
  }
}

TEST_F(CharLm, OneRankRefusesCheckpointsOfAnotherModelOnce) {
  LaunchRun first(command("c"));
  ASSERT_EQ(first.exit_code(), 0) << first.err();
  std::vector<std::string> words = command("c");
  *std::next(std::ranges::find(words, "--width")) = "32";
  LaunchRun other(words);
  EXPECT_EQ(other.exit_code(), 1) << other.err();
  EXPECT_EQ(other.report()["restarts"], 0);
  EXPECT_EQ(other.report()["culprit"]["rank"], 0) << "rank 0 gave the reason";
  EXPECT_THAT(other.err(), HasSubstr("not retried: the program reported a permanent error"));
  EXPECT_THAT(other.err(), Not(HasSubstr("cannot use the checkpoint")));
  int told = 0;
  std::istringstream lines(other.err());
  for (std::string line; std::getline(lines, line);)
    told += line.starts_with("node0:") && line.contains("none can be used") ? 1 : 0;
  EXPECT_EQ(told, 1) << other.err();
}

TEST_F(CharLm, LearnsWithHalfPrecisionGradients) {
  const auto loss = [](const std::string& output, const std::string& mark) {
    const std::size_t at = output.find(mark);
    return at == std::string::npos ? -1.0 : std::atof(output.c_str() + at + mark.size());
  };
  LaunchRun whole(command("whole", {"--dropout", "0"}));
  LaunchRun half(command("half", {"--dropout", "0", "--comm-hook", "bf16"}));
  ASSERT_EQ(whole.exit_code(), 0) << whole.err();
  ASSERT_EQ(half.exit_code(), 0) << half.err();
  EXPECT_NE(digest_in(half.out()), digest_in(whole.out()));
  const double expected = loss(whole.out(), "node0:0: loss ");
  EXPECT_GT(expected, 0) << whole.out();
  EXPECT_LT(expected, 4.5) << "the first loss is the logarithm of some 90 characters";
  EXPECT_NEAR(loss(half.out(), "node0:0: loss "), expected, 0.05);
}

TEST_F(CharLm, NamesAFlagThatCannotBeUsed) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"--dropout", "1"}, "train_char_lm: --dropout: '1' is not a number from 0 to 0.9"},
      {{"--epochs", "none"}, "train_char_lm: --epochs: 'none' is not a number of at least 1"},
      {{"--comm-hook", "fp8"}, "train_char_lm: --comm-hook: fp8 not in {none,fp16,bf16}"},
  };
  for (const auto& [flags, said] : wrong) {
    std::vector<std::string> command{"--device", "cpu", "--max-restarts", "0", TRAIN_PROGRAM};
    command.insert(command.end(), flags.begin(), flags.end());
    LaunchRun run(command);
    EXPECT_EQ(run.exit_code(), 2) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(said));
  }
}

TEST_F(CharLm, NamesATextThatCannotBeUsed) {
  LaunchRun missing(command("c", {"--text", scratch_ / "nothing"}));
  EXPECT_EQ(missing.exit_code(), 2) << missing.err();
  EXPECT_TRUE(
      missing.printed("train_char_lm: " + (scratch_ / "nothing") + ": there is no such file or folder"));
  std::ofstream(scratch_ / "short") << "a few words";
  LaunchRun brief(command("c", {"--text", scratch_ / "short"}));
  EXPECT_EQ(brief.exit_code(), 2) << brief.err();
  EXPECT_THAT(brief.err(), HasSubstr("11 tokens"));
  LaunchRun heads({"--device", "cpu", "--max-restarts", "0", TRAIN_PROGRAM, "--heads", "5"});
  EXPECT_EQ(heads.exit_code(), 2) << heads.err();
  EXPECT_THAT(heads.err(), HasSubstr("--width 64 is not a multiple of --heads 5"));
}

}  // namespace
}  // namespace muster
