// `launch sweep run --hosts`: hosts are commands of the test, each with its own home, and are lost for good.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using Words = std::vector<std::string>;

class LaunchSweepHosts : public testing::Test {
 protected:
  LaunchSweepHosts() {
    std::ofstream(on) << "#!/bin/sh\nhost=$1; shift\ncat " << gone("$host")
                      << " >&2 2>/dev/null && exit 255\nexport HOME=" << home("$host")
                      << "\nmkdir -p $HOME\nexec \"$@\"\n";
    std::filesystem::permissions(on, std::filesystem::perms::owner_all);
  }
  std::string home(const std::string& host) const { return (scratch / "home.") + host; }
  std::string gone(const std::string& host) const { return (scratch / "gone.") + host; }

  // Each rank writes down where and after which step it begins, and goes on after that step. It waits at its
  // first step until open_gate().
  Words sweep_on(const std::string& hosts, const Words& flags) const {
    Words words{"sweep",    "run",  "--sweep-dir", directory, "--metric", "loss", "--space", "x=int:1:6",
                "--search", "grid", "--device",    "cpu",     "--hosts",  hosts,  "--exec",  on + " {host}"};
    words.insert(words.end(), flags.begin(), flags.end());
    const std::string script =
        "cd $MUSTER_TRIAL_DIR; step=$(cat step.$RANK 2>/dev/null || echo 0); "
        "echo ${HOME##*.} $step >> began.$RANK; while [ $step -lt 3 ]; do step=$((step + 1)); "
        "echo MUSTER_METRIC loss=$1 step=$step; echo $step > new.$RANK; mv new.$RANK step.$RANK; "
        "while [ ! -e " +
        gate + " ]; do sleep 0.05; done; done";
    for (const std::string& word : Words{"--", "sh", "-c", script, "trial", "{x}"}) words.push_back(word);
    return words;
  }
  void open_gate() const { std::ofstream(gate).put('\n'); }
  // "h1 0\n": where and after which step the runs of the trial began.
  std::string began(int trial, int rank = 0) const {
    return read_file(fmt::format("{}/trials/{:04}/began.{}", directory, trial, rank), 1 << 16).value_or("");
  }
  bool has_saved(int trial, int rank = 0) const {
    return std::filesystem::exists(fmt::format("{}/trials/{:04}/step.{}", directory, trial, rank));
  }
  json trials() const {
    LaunchRun run({"sweep", "status", directory, "--json"});
    run.exit_code();
    return json::parse(run.out()).at("trials");
  }
  void expect_all_finished_in(const std::vector<int>& runs) const {
    const json all = trials();
    ASSERT_EQ(all.size(), runs.size());
    for (std::size_t number = 0; number < runs.size(); ++number) {
      EXPECT_EQ(all[number].at("state"), "finished") << all[number];
      EXPECT_EQ(all[number].at("failures"), 0);
      EXPECT_EQ(all[number].at("step"), 3);
      EXPECT_EQ(all[number].at("runs"), runs[number]) << "trial " << number;
    }
  }
  // Like a power cut: nothing of the host is left, and it does not answer.
  void lose(const LaunchRun& run, const std::string& host) const {
    std::ofstream(gone(host)) << "no route to host\n";
    for (const pid_t pid : run.descendants()) {
      const std::string variables =
          '\0' + read_file(fmt::format("/proc/{}/environ", pid), 1 << 20).value_or("");
      if (variables.contains('\0' + ("HOME=" + home(host)) + '\0')) kill(pid, SIGKILL);
    }
  }

  ScratchDirectory scratch;
  const std::string directory = scratch / "sweep";
  const std::string on = scratch / "on";
  const std::string gate = scratch / "gate";
};

TEST_F(LaunchSweepHosts, ALostHostCostsItsTrialsAMoveAndTheOthersNothing) {
  LaunchRun run(sweep_on("h0:2,h1:2", {}));
  ASSERT_TRUE(eventually([this] { return has_saved(0) && has_saved(1) && has_saved(2) && has_saved(3); }))
      << run.err();
  EXPECT_EQ(began(0) + began(1) + began(2) + began(3), "h0 0\nh1 0\nh0 0\nh1 0\n");
  lose(run, "h1");
  ASSERT_TRUE(eventually([&run] { return run.err().contains("h1 is set aside"); })) << run.err();
  open_gate();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(count_in(run.err(), "is set aside"), 1) << run.err();
  EXPECT_EQ(began(1) + began(3), "h1 0\nh0 1\nh1 0\nh0 1\n") << "they go on from their checkpoints";
  EXPECT_EQ(began(4) + began(5), "h0 0\nh0 0\n");
  expect_all_finished_in({1, 2, 1, 2, 1, 1});
  expect_nothing_left(run);
}

TEST_F(LaunchSweepHosts, ALostHostCostsATrialOverTwoHostsAMove) {
  LaunchRun run(sweep_on("h0:1,h1:1,h2:1,h3:1", {"--nodes-per-trial", "2"}));
  ASSERT_TRUE(eventually([this] {
    return has_saved(0, 0) && has_saved(0, 1) && has_saved(1, 0) && has_saved(1, 1);
  })) << run.err();
  EXPECT_EQ(began(0, 0) + began(0, 1) + began(1, 0) + began(1, 1), "h0 0\nh1 0\nh2 0\nh3 0\n");
  lose(run, "h1");
  ASSERT_TRUE(eventually([&run] { return run.err().contains("h1 is set aside"); })) << run.err();
  open_gate();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(began(0, 0) + began(0, 1), "h0 0\nh2 1\nh1 0\nh3 1\n");
  expect_all_finished_in({2, 1, 1, 1, 1, 1});
  expect_nothing_left(run);
}

// h2 had no trial; h0 had one together with the lost host.
TEST_F(LaunchSweepHosts, HostsWithoutTrialsTakeThePlaceOfALostOne) {
  LaunchRun run(sweep_on("h0:1,h1:1,h2:1", {"--nodes-per-trial", "2"}));
  ASSERT_TRUE(eventually([this] { return has_saved(0, 0) && has_saved(0, 1); })) << run.err();
  lose(run, "h1");
  ASSERT_TRUE(eventually([&run] { return run.err().contains("h1 is set aside"); })) << run.err();
  open_gate();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(began(0, 0) + began(0, 1), "h0 0\nh0 1\nh1 0\nh2 1\n");
  EXPECT_EQ(began(5, 0) + began(5, 1), "h0 0\nh2 0\n");
  expect_all_finished_in({2, 1, 1, 1, 1, 1});
  expect_nothing_left(run);
}

TEST_F(LaunchSweepHosts, AsManyTrialsRunAtOnceAsBeforeALossIfThereAreHosts) {
  LaunchRun run(sweep_on("h0,h1,h2,h3", {"--parallel", "2"}));
  ASSERT_TRUE(eventually([this] { return has_saved(0) && has_saved(1); })) << run.err();
  lose(run, "h0");
  ASSERT_TRUE(eventually([this] { return began(0) == "h0 0\nh2 1\n"; })) << run.err();
  EXPECT_EQ(began(2), "") << "two at once";
  open_gate();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  expect_all_finished_in({2, 1, 1, 1, 1, 1});
}

TEST_F(LaunchSweepHosts, AHostThatCannotBeReachedIsSetAside) {
  open_gate();
  // launch tries a job on a host that is away again, and not one on a host that does not exist.
  for (const char* why :
       {"no route to host", "ssh: Could not resolve hostname h0: Name or service not known"}) {
    std::ofstream(gone("h0")) << why << "\n";
    LaunchRun run(sweep_on("h0:2,h1:2", {}));
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_EQ(count_in(run.err(), "h0 is set aside"), 1) << run.err();
    EXPECT_THAT(run.err(), HasSubstr(why));
    for (int trial = 0; trial < 6; ++trial) EXPECT_EQ(began(trial), "h1 0\n");
    std::filesystem::remove_all(directory);
  }
}

TEST_F(LaunchSweepHosts, WithoutAnyHostLeftItEndsAndIsResumedWhenTheyAreBack) {
  {
    LaunchRun run(sweep_on("h0,h1", {}));
    ASSERT_TRUE(eventually([this] { return has_saved(0) && has_saved(1); })) << run.err();
    lose(run, "h0");
    lose(run, "h1");
    EXPECT_EQ(run.exit_code(), 69) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("no host is left: 2 trials, 2 waiting"));
    EXPECT_THAT(run.err(), HasSubstr("launch sweep resume " + directory));
    expect_nothing_left(run);
  }
  for (const char* host : {"h0", "h1"}) std::filesystem::remove(gone(host));
  open_gate();
  LaunchRun run({"sweep", "resume", directory});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(began(0), testing::MatchesRegex("h. 0\nh. 1\n"));
  expect_all_finished_in({2, 2, 1, 1, 1, 1});
}

// `docker` of the hosts only writes down what it was told.
TEST_F(LaunchSweepHosts, TheContainersOfATrialHaveItsGpusOnly) {
  const std::string told = scratch / "told";
  std::filesystem::create_directory(scratch / "bin");
  std::ofstream(scratch / "bin/docker") << "#!/bin/sh\necho ${HOME##*.} \"$*\" >> " << told << "\nexit 3\n";
  std::filesystem::permissions(scratch / "bin/docker", std::filesystem::perms::owner_all);
  const auto launched = [this](const std::string& gpus) {
    Words words = sweep_on("h0:4,h1:2", {"--image", "any", "--gpus-per-trial", "2", "--gpus", gpus});
    std::ranges::replace(words, std::string("cpu"), std::string("auto"));
    return words;
  };
  LaunchRun run(launched("all"), {{"PATH", (scratch / "bin") + ":/usr/bin:/bin"}});
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  const std::string words = read_file(told, 1 << 20).value_or("");
  for (const char* each : {"h0 run .*\"device=0,1\"", "h0 run .*\"device=2,3\"", "h1 run .*\"device=0,1\""})
    EXPECT_THAT(words, testing::ContainsRegex(each));
  std::filesystem::remove_all(directory);
  LaunchRun wrong(launched("3"));
  EXPECT_EQ(wrong.exit_code(), 2);
  EXPECT_EQ(wrong.err(),
            "launch: --gpus: 3: a sweep gives each trial --gpus-per-trial of the GPUs: give all\n");
}

}  // namespace
}  // namespace muster
