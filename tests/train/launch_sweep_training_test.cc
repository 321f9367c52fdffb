// A sweep of real trainings: trials pause with a checkpoint, and the promoted ones go on from it.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/process/launch_run.h"

namespace muster {
namespace {

using nlohmann::json;

// Two ranks a trial, on 640 images.
TEST(LaunchSweepTraining, AshaResumesTrainingsFromTheirCheckpoints) {
  const ScratchDirectory scratch;
  const std::string directory = scratch / "sweep";
  LaunchRun run({"sweep",
                 "run",
                 "--sweep-dir",
                 directory,
                 "--space",
                 "lr=loguniform:1e-4:1e-2,units=choice:16:32",
                 "--metric",
                 "accuracy",
                 "--mode",
                 "max",
                 "--scheduler",
                 "asha",
                 "--max-steps",
                 "4",
                 "--eta",
                 "2",
                 "--trials",
                 "4",
                 "--parallel",
                 "1",
                 "--gpus-per-trial",
                 "2",
                 "--device",
                 "cpu",
                 "--",
                 SWEEP_PROGRAM,
                 "--lr",
                 "{lr}",
                 "--units",
                 "{units}",
                 "--images",
                 "640",
                 "--epochs",
                 "4"});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  LaunchRun status({"sweep", "status", directory, "--json"});
  ASSERT_EQ(status.exit_code(), 0);
  const json trials = json::parse(status.out()).at("trials");
  ASSERT_EQ(trials.size(), 4U);
  int finished = 0;
  for (const json& trial : trials) {
    const std::string folder = fmt::format("{}/trials/{:04}", directory, trial.at("trial").get<int>());
    EXPECT_GT(trial.at("metrics").at("accuracy"), 0.1);
    finished += trial.at("state") == "finished" ? 1 : 0;
    if (trial.at("state") == "finished") EXPECT_EQ(trial.at("step"), 4);
    // The second run continues: its first epoch is not the first one. Before it was paused, the first run may
    // have trained more epochs than it was to.
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!entry.path().filename().string().ends_with("-r1")) continue;
      std::ifstream log(entry.path() / "attempt_2/rank_0/stdout.log");
      std::string line;
      ASSERT_TRUE(std::getline(log, line)) << entry.path();
      EXPECT_THAT(line, testing::Not(testing::StartsWith("epoch 1 ")));
    }
  }
  EXPECT_GE(finished, 1);
}

}  // namespace
}  // namespace muster
