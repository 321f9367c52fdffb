// `launch sweep best`: the winner's command line, and what it says if there is no winner.
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_sweep_fixture.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using LaunchSweepBest = LaunchSweep;

// The command is run by a shell, as a user pastes it.
TEST_F(LaunchSweepBest, TheWinnersCommandHasTheFlagsOfItsJob) {
  const std::string script =
      "echo MUSTER_METRIC loss=$1\necho \"x $1, word ${WORD-}, wrapped ${WRAPPED-}, "
      "of $WORLD_SIZE, ${MUSTER_CHECKPOINT_DIR-no checkpoints}\"";
  const Printed run =
      launch(sweep_of(script, {"--space", "x=choice:2", "--search", "grid", "--gpus-per-trial", "2", "--env",
                               "WORD=it's $1", "--wrap", "0:env WRAPPED=yes", "--device", "cpu", "--quiet",
                               "--checkpoint-dir", scratch / "shared"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string command = json::parse(launch({"sweep", "best", directory, "--json"}).out).at("command");
  EXPECT_THAT(launch({"sweep", "best", directory}).out, testing::EndsWith("\n" + command + "\n"));
  ASSERT_THAT(command, testing::StartsWith("launch --gpus-per-node 2 --device cpu --env "));
  const std::string out = scratch / "out";
  const std::string line = fmt::format("XDG_STATE_HOME={} {}{} > {} 2>&1", scratch / "state", LAUNCH_PROGRAM,
                                       command.substr(command.find(' ')), out);
  EXPECT_EQ(std::system(line.c_str()), 0) << command;
  const std::string printed = read_file(out, 1 << 20).value_or("");
  EXPECT_THAT(printed, HasSubstr("x 2, word it's $1, wrapped yes, of 2, no checkpoints"));
  EXPECT_THAT(printed, HasSubstr("x 2, word it's $1, wrapped , of 2, no checkpoints"));
}

// The program has no argument with a value.
TEST_F(LaunchSweepBest, TheWinnersCommandSetsTheVariablesThatItsProgramReads) {
  const std::string script =
      "echo MUSTER_METRIC loss=$MUSTER_PARAM_X\necho variable $MUSTER_PARAM_X, file "
      "$(tr -dc 0-9 < $MUSTER_TRIAL_DIR/params.json)";
  const Printed run =
      launch({"sweep", "run", "--sweep-dir", directory, "--metric", "loss", "--space", "x=choice:3:2",
              "--search", "grid", "--parallel", "2", "--", "sh", "-c", script});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(run.err.contains("in no argument")) << run.err;
  const std::string command = json::parse(launch({"sweep", "best", directory, "--json"}).out).at("command");
  EXPECT_EQ(launch({"sweep", "best", directory}).out,
            "trial 1: loss=2 at step 1\n  x = 2\n" + command + "\n");
  const std::string out = scratch / "out";
  const std::string line = fmt::format("XDG_STATE_HOME={} {}{} > {} 2>&1", scratch / "state", LAUNCH_PROGRAM,
                                       command.substr(command.find(' ')), out);
  EXPECT_EQ(std::system(line.c_str()), 0) << command;
  EXPECT_THAT(read_file(out, 1 << 20).value_or(""), HasSubstr("variable 2, file 2"));
}

TEST_F(LaunchSweepBest, SaysHowTrialsEndedIfNoneHasFinished) {
  EXPECT_EQ(launch(sweep_of("echo MUSTER_METRIC loss=$1; exit 3",
                            {"--space", "x=choice:1:2:3:4", "--search", "grid", "--parallel", "1"}))
                .exit_code,
            1);
  const Printed best = launch({"sweep", "best", directory});
  EXPECT_EQ(best.exit_code, 1);
  EXPECT_EQ(best.err, "launch: " + directory +
                          ": no trial has finished with a loss that counts: trial 0 failed, "
                          "loss=1; trial 1 failed, loss=2; trial 2 failed, loss=3; and 1 more\n");
}

}  // namespace
}  // namespace muster
