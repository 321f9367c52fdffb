// `launch sweep run --image`: each trial has containers of its own.
#include <fstream>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

using testing::HasSubstr;

// The working directory is mounted; the sweep's directory is elsewhere.
TEST_F(DockerLaunch, TrialsOfASweepHaveContainersOfTheirOwnAndGoOnFromTheirCheckpoints) {
  const std::string directory = lab_->hosts.shared() + "/sweep";
  const std::string script =
      "until [ -e go ]; do sleep 0.05; done; [ -s $MUSTER_TRIAL_DIR/params.json ] || exit 9; "
      "cd $MUSTER_CHECKPOINT_DIR || exit 8; echo begins >> runs; step=$(cat step 2>/dev/null || echo 0); "
      "while [ $step -lt 2 ]; do step=$((step + 1)); echo $step > new; mv new step; "
      "echo MUSTER_METRIC loss=$1 step=$step; sleep 0.3; done";
  run_ =
      launched({"sweep",       "run",     "--image",     "bookworm", "--sweep-dir", directory,    "--metric",
                "loss",        "--space", "x=int:1:4",   "--search", "grid",        "--parallel", "2",
                "--scheduler", "asha",    "--max-steps", "2",        "--eta",       "2"},
               {"--", "sh", "-c", script, "trial", "{x}"});
  std::string names;
  ASSERT_TRUE(eventually(
      [&names] {
        names = engine().printed_by({"ps", "--format", "{{.Names}}"});
        return count_in(names, "muster-") == 2;
      },
      30s))
      << run_->err();
  engine().printed_by({"kill", names.substr(0, names.find('\n'))});
  ASSERT_TRUE(eventually([this] { return run_->err().contains(" lost: node0"); }, 30s)) << run_->err();
  std::ofstream(run_->scratch() / "go") << "\n";
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("4 trials, 2 paused, 2 finished; best: trial 0, loss=1")) << run_->err();
  EXPECT_EQ(read_file(directory + "/trials/0000/checkpoints/runs", 1 << 16).value_or(""), "begins\nbegins\n");
  EXPECT_THAT(run_->err(), testing::Not(HasSubstr("is set aside"))) << "there is one engine";
  EXPECT_TRUE(engine().containers().empty()) << "launch removes them before it leaves";
}

}  // namespace
}  // namespace muster::docker
