// `launch sweep run --image`: a trial's container serves the next trial too.
#include <csignal>
#include <regex>
#include <set>

#include "tests/docker/launch_containers.h"

namespace muster::docker {
namespace {

class DockerSweep : public DockerLaunch {
 protected:
  // Runs a trial for each value of x. Each prints the id of its container.
  void sweep(const Words& flags, const std::string& more = "true") {
    Words words{"sweep", "run",      "--image", "bookworm", "--sweep-dir",
                "sweep", "--metric", "loss",    "--search", "grid"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    run_ = launched(words, {"sh", "-c",
                            "grep -o 'containers/[0-9a-f]*/hostname' /proc/self/mountinfo; " + more +
                                "; echo MUSTER_METRIC loss={x} step=2"});
  }
  // The ids, and the number of trials that printed one.
  std::pair<std::set<std::string>, int> containers() const {
    std::set<std::string> ids;
    int trials = 0;
    std::error_code none;
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(run_->scratch() / "sweep/trials", none)) {
      if (file.path().filename() != "stdout.log") continue;
      const std::string text = read_file(file.path(), 1 << 20).value_or("");
      std::smatch id;
      if (!std::regex_search(text, id, std::regex("containers/([0-9a-f]+)/hostname"))) continue;
      ids.insert(id[1]);
      ++trials;
    }
    return {ids, trials};
  }
};

TEST_F(DockerSweep, TwoContainersServeSixTrials) {
  sweep({"--parallel", "2", "--space", "x=choice:1:2:3:4:5:6"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), testing::HasSubstr("6 trials, 6 finished"));
  const auto [ids, trials] = containers();
  EXPECT_EQ(trials, 6);
  EXPECT_EQ(ids.size(), 2U);
}

TEST_F(DockerSweep, AContainerThatIsRemovedCostsNoTrialAndNoneIsLeft) {
  sweep({"--parallel", "1", "--space", "x=choice:1:2:3", "--trial-retries", "0"},
        "[ {x} != 2 ] || until [ -e go ]; do sleep 0.05; done");
  ASSERT_TRUE(eventually([&] { return containers().second == 2; })) << run_->err();
  EXPECT_EQ(containers().first.size(), 1U);
  engine().printed_by({"rm", "-f", *containers().first.begin()});
  std::ofstream(run_->scratch() / "go") << "\n";
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), testing::HasSubstr("3 trials, 3 finished"));
  EXPECT_EQ(containers().first.size(), 2U);
}

TEST_F(DockerSweep, ATrialSeesItsCheckpointDirectory) {
  sweep({"--parallel", "1", "--space", "x=choice:1:2", "--scheduler", "asha", "--max-steps", "2"},
        "touch $MUSTER_CHECKPOINT_DIR/saved || exit 1");
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), testing::HasSubstr("2 trials, 2 finished"));
  for (const char* trial : {"0000", "0001"})
    EXPECT_TRUE(
        std::filesystem::exists(run_->scratch() / fmt::format("sweep/trials/{}/checkpoints/saved", trial)));
}

TEST_F(DockerSweep, AContainerOfAnEarlierTrialIsRemovedWhenTheControllerIsKilled) {
  sweep({"--parallel", "1", "--space", "x=choice:1:2"}, "[ {x} = 1 ] || sleep 1000");
  ASSERT_TRUE(eventually([&] { return containers().second == 2; })) << run_->err();
  EXPECT_EQ(containers().first.size(), 1U);
  run_->signal(SIGKILL);
  run_->exit_code();
}

}  // namespace
}  // namespace muster::docker
