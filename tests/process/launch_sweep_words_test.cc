// The words of `launch sweep run` and `preview`, on the command line and in a file: right ones and wrong
// ones.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/process/launch_sweep_fixture.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LaunchSweepWords : public LaunchSweep {};

TEST_F(LaunchSweepWords, ReadsAFile) {
  const std::string file = scratch / "sweep.yaml";
  std::ofstream(file)
      << "space:\n  x: [1, 2]\n  y: {uniform: [0, 1], when: {x: 2}}\nconstraints: [\"x > 0\"]\n"
         "metric: loss\nsearch: random\ntrials: 4\nparallel: 2\nsweep_dir: "
      << directory
      << "\n"
         "program: [sh, -c, \"echo MUSTER_METRIC loss=$1 y=${MUSTER_PARAM_Y:-9}\", trial, \"{x}\"]\n";
  const Printed run = launch({"sweep", "run", file});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const json& trial : trials()) {
    const bool has_y = trial.at("parameters").contains("y");
    EXPECT_EQ(has_y, trial.at("parameters").at("x") == 2);
    EXPECT_EQ(trial.at("metrics").at("y") != 9, has_y);
  }
}

TEST_F(LaunchSweepWords, TakesFlagsAfterItsFileAndArgumentsAfterDashes) {
  const std::string file = scratch / "sweep.yaml";
  std::ofstream(file) << "space:\n  x: [1]\nmetric: loss\ntrials: 9\nsweep_dir: nowhere\n"
                         "program: [sh, -c, 'echo MUSTER_METRIC loss=$# last=$4', trial, \"{x}\"]\n";
  const Printed run =
      launch({"sweep", "run", file, "--trials", "1", "--sweep-dir", directory, "--", "--epochs", "-3", "7"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(trials().size(), 1U);
  EXPECT_EQ(trials()[0].at("metrics").at("loss"), 4);
  EXPECT_EQ(trials()[0].at("metrics").at("last"), 7);
  const Printed wrong = launch({"sweep", "preview", file, "--nonsense"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--nonsense"));
  std::ofstream(file) << "space:\n  x: [1]\nmetric: [loss, acc]\nprogram: [\"true\"]\n";
  EXPECT_THAT(launch({"sweep", "preview", file}).err,
              testing::EndsWith("metric: takes one value, but got 2: write loss,acc\n"));
}

TEST_F(LaunchSweepWords, PreviewsItsCost) {
  Words words = sweep_of("true", {"--space", "x=uniform:0:1", "--scheduler", "asha", "--max-steps", "9",
                                  "--trials", "9", "--json", "--step-time", "2"});
  words[1] = "preview";
  const Printed shown = launch(words);
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const json preview = json::parse(shown.out);
  EXPECT_EQ(preview.at("rungs"),
            json::parse(R"([{"bracket":0,"steps":1,"trials":9},{"bracket":0,"steps":3,"trials":3},
                                                {"bracket":0,"steps":9,"trials":1}])"));
  EXPECT_EQ(preview.at("steps"), 9 * 1 + 3 * 2 + 1 * 6);
  EXPECT_EQ(preview.at("steps_without_scheduler"), 81);
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(LaunchSweepWords, PreviewsNoRungOfTrialsThatEndByThemselves) {
  Words words = sweep_of("true", {"--space", "x=uniform:0:1"});
  words[1] = "preview";
  EXPECT_EQ(launch(words).out,
            "2 trials at once\neach trial ends by itself: give --max-steps to see the cost\n");
}

TEST_F(LaunchSweepWords, NamesParametersThatNoArgumentHas) {
  const Printed run = launch(sweep_of("echo MUSTER_METRIC loss=1",
                                      {"--space", "x=choice:1,y=choice:2,wdd=choice:3", "--search", "grid"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, testing::StartsWith("launch: y, wdd are in no argument: the program gets them as "
                                           "MUSTER_PARAM_Y, MUSTER_PARAM_WDD\n"));
}

TEST_F(LaunchSweepWords, AnswersWrongWordsInOneLine) {
  const std::pair<Words, const char*> wrong[] = {
      {{"--space", "x=uniform:1:0"}, "x"},
      {{"--space", "x=uniform:0:1", "--search", "grid"}, "x"},
      {{"--space", "x=uniform:0:1,x=uniform:0:1"}, "x"},
      {{"--space", "y=uniform:0:1"}, "x"},  // {x} in the program
      {{"--space", "x=int:1:3,X=int:6:9"},
       "x and X have the same variable, MUSTER_PARAM_X: give one of them another name\n"},
      {{"--space", "x=gauss:0:1"}, "gauss"},
      {{"--space", "x=uniform:0:1", "--scheduler", "asha"}, "--max-steps"},
      {{"--space", "x=uniform:0:1", "--eta", "1"}, "--eta"},
      {{"--space", "x=uniform:0:1", "--trials", "0"}, "--trials"},
      {{"--space", "x=uniform:0:1", "--seed", "one"}, "--seed"},
      {{"--space", "x=uniform:0:1", "--mode", "least"}, "--mode"},
      {{"--space", "x=uniform:0:1", "--nodes", "2"}, "--nodes-per-trial"},
      {{"--space", "x=uniform:0:1", "--constraint", "z > 1"}, "there is no parameter z"},
      {{"--space", "x=uniform:0:1", "--constraint", "x > 2"},
       "constraint: x > 2: none of 10,000 points fulfils it"},
      {{"--space", "x=choice:1:2", "--search", "grid", "--constraint", "x > 2", "--constraint", "x < 9"},
       "constraint: x > 2, x < 9: none of 2 points fulfils all of them"},
      {{}, "--space"},
  };
  for (const auto& [flags, text] : wrong) {
    const Printed answer = launch(sweep_of("true", flags));
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
    EXPECT_THAT(answer.err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(directory));
  }
  EXPECT_EQ(launch({"sweep"}).exit_code, 2);
  EXPECT_EQ(launch({"sweep", "walk"}).exit_code, 2);
  const std::string none = scratch / "none";
  for (const Words& words : {Words{"best", none}, Words{"resume", none}, Words{"show", none, "2"}}) {
    const Printed answer = launch(with({"sweep"}, words));
    EXPECT_EQ(answer.exit_code, 2);
    EXPECT_EQ(answer.err, "launch: " + none + " is not a sweep's directory: it has no sweep.db\n");
  }
  EXPECT_THAT(launch({"sweep", "show", "0"}).err, HasSubstr("`launch sweep show TRIAL DIR`"));
  EXPECT_THAT(launch({"sweep", "best"}).err, HasSubstr("/sweeps: give its directory"));
}

}  // namespace
}  // namespace muster
