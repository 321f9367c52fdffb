// Trainings over containers, with one fault each: they end with the parameters of an undisturbed training,
// bit for bit, or with the correct verdict. Then prints a table with the cost of each fault.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <thread>
#include <unistd.h>

#include "tests/docker/image.h"
#include "tests/docker/lab.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster::docker {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kData = "/usr/share/datasets/fashion-mnist";

std::string read_only(const std::string& path) {
  return fmt::format("{}:{}:ro", path, path);
}

// All tests of this file share one engine, which unpacks the image once.
class DockerJobs : public testing::Test {
 public:
  static void end_engine() { lab_.reset(); }

 protected:
  void SetUp() override {
    if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = why_no_torch_mount(); !why.empty()) GTEST_SKIP() << why;
    if (lab_ == nullptr) {
      lab_ = std::make_unique<Lab>();
      engine().load("python");
    }
    scratch_.emplace();
  }
  void TearDown() override {
    run_.reset();
    scratch_.reset();
  }
  static Engine& engine() { return lab_->engine; }
  // The directory of launch; containers see it at the same path.
  std::string folder() const { return scratch_->path(); }

  void launch(int nodes, const std::vector<std::string>& flags, const std::vector<std::string>& program) {
    std::vector<std::string> words{"--image", "python", "--nodes", std::to_string(nodes)};
    words.insert(words.end(), {"--device", "cpu", "--env", "OMP_NUM_THREADS=1"});
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    run_ =
        std::make_unique<LaunchRun>(words, lab_->environment(), LAUNCH_PROGRAM, [this](const std::string&) {
          const pid_t pid = lab_->host.fork();
          if (pid == 0 && chdir(folder().c_str()) != 0) _exit(98);
          return pid;
        });
  }
  // The id of the node's running container.
  static std::string container(int node) {
    return engine().printed_by({"ps", "--quiet", "--filter", fmt::format("label=muster.node={}", node)});
  }
  // Only while the job runs.
  bool it_comes(const std::function<bool()>& what) const {
    return eventually([&] { return what() || !is_running(run_->pid()); }, 60s) && what();
  }
  void nothing_is_left() const {
    EXPECT_TRUE(eventually([] { return engine().containers().empty(); }, 5s));
    EXPECT_THAT(engine().containers(), IsEmpty());
    EXPECT_THAT(engine().networks(), IsEmpty());
    EXPECT_THAT(engine().processes(), IsEmpty());
    expect_nothing_left(*run_);
  }

  std::unique_ptr<LaunchRun> run_;

 private:
  static inline std::unique_ptr<Lab> lab_;
  std::optional<ScratchDirectory> scratch_;
};

// Flags for faults that silence an agent.
const std::vector<std::string> kShortLimit{"--silence-limit", "2"};

// Fashion-MNIST by six workers in three containers.
class DockerTraining : public DockerJobs {
 public:
  static const std::string& rows() { return table_; }

 protected:
  struct Fault {
    const char* what;
    std::function<void()> strike;
    std::optional<int> node;  // the node that is lost, or whose worker is killed; nothing: all nodes
    double noticed_within_seconds;
    std::vector<std::string> flags{};
  };

  void SetUp() override {
    DockerJobs::SetUp();
    if (IsSkipped() || !undisturbed_.empty()) return;
    train();
    ASSERT_EQ(run_->exit_code(), 0) << run_->err();
    EXPECT_EQ(run_->report()["restarts"], 0) << run_->err();
    undisturbed_ = parameters_digest(*run_);
    ASSERT_EQ(undisturbed_.size(), 32U) << run_->out();
    nothing_is_left();
    DockerJobs::TearDown();
    DockerJobs::SetUp();
  }
  void train(const std::vector<std::string>& more = {}) {
    const std::string programs = std::filesystem::path(TRAIN_PROGRAM).parent_path();
    std::vector<std::string> flags{"--gpus-per-node", "2", "--checkpoint-dir", folder() + "/checkpoints"};
    for (const std::string& mount : {libtorch_mount(), read_only(kData), read_only(programs)})
      flags.insert(flags.end(), {"--mount", mount});
    flags.insert(flags.end(), more.begin(), more.end());
    launch(3, flags,
           {TRAIN_PROGRAM, "--batch-size", "4", "--num-workers", "1", "--checkpoint-every", "20",
            "--max-steps", "100"});
  }
  void survives(const Fault& fault) {
    train(fault.flags);
    ASSERT_TRUE(it_comes([this] { return event_time(*run_, {"committed"}).has_value(); })) << run_->err();
    std::this_thread::sleep_for(500ms);  // the fault happens between two checkpoints
    const double struck = unix_now();
    fault.strike();
    ASSERT_EQ(run_->exit_code(), 0) << run_->err();
    const json report = run_->report();
    const json& attempts = report["attempts"];
    ASSERT_GE(attempts.size(), 2U) << run_->err();
    if (fault.node) {
      EXPECT_EQ(report["restarts"], 1) << run_->err();
      EXPECT_EQ(attempts[0]["culprit"]["node"], *fault.node) << run_->err();
    }
    EXPECT_EQ(attempts.back()["world_size"], 6);
    EXPECT_GE(attempts.back()["resumed_step"], 20);
    const auto noticed = event_time(*run_, {"worker_exited", "node_lost"}, struck);
    ASSERT_TRUE(noticed);
    EXPECT_LT(*noticed - struck, fault.noticed_within_seconds);
    const auto resumed = event_time(*run_, {"resumed"}, *noticed);
    ASSERT_TRUE(resumed);
    std::int64_t furthest = 0;
    for (const json& attempt : attempts) {
      if (attempt["attempt"] != attempts.back()["attempt"] && !attempt["last_step"].is_null())
        furthest = std::max<std::int64_t>(furthest, attempt["last_step"]);
    }
    table_ += fmt::format("| {} | {:.2f} s | {:.2f} s | {} |\n", fault.what, *noticed - struck,
                          *resumed - *noticed, furthest - attempts.back()["resumed_step"].get<int>());
    invariants::ends_as_undisturbed(parameters_digest(*run_), undisturbed_);
    nothing_is_left();
  }

 private:
  static inline std::string undisturbed_, table_;
};

class Ending : public testing::Environment {
 public:
  void TearDown() override {
    DockerJobs::end_engine();
    fmt::print("\n| what happens | noticed after | trains again after | steps repeated |\n{}{}\n",
               "| --- | --- | --- | --- |\n", DockerTraining::rows());
  }
};

const auto* const kEnding = testing::AddGlobalTestEnvironment(new Ending);

TEST_F(DockerTraining, AKilledContainerCostsStepsButNoBitOfTheResult) {
  survives({"`docker kill`", [] { engine().printed_by({"kill", container(1)}); }, 1, 5});
}

TEST_F(DockerTraining, ARemovedContainerCostsStepsButNoBitOfTheResult) {
  survives({"`docker rm --force`", [] { engine().printed_by({"rm", "--force", container(2)}); }, 2, 5});
}

// A paused container's kernel still acknowledges packets.
TEST_F(DockerTraining, APausedContainerCostsStepsButNoBitOfTheResult) {
  survives({"`docker pause`", [] { engine().printed_by({"pause", container(0)}); }, 0, 8, kShortLimit});
}

TEST_F(DockerTraining, AContainerWithoutItsNetworkCostsStepsButNoBitOfTheResult) {
  survives({"`docker network disconnect`",
            [] { engine().printed_by({"network", "disconnect", engine().networks().at(0), container(1)}); },
            1, 8, kShortLimit});
}

// The next container may get the address of the one that was cut off.
TEST_F(DockerTraining, AContainerThatIsNotHeardCostsStepsButNoBitOfTheResult) {
  survives({"a container hears the others, and they do not hear it",
            [this] {
              EXPECT_TRUE(engine().cut_one_way(container(1)));
              EXPECT_TRUE(it_comes([this] { return event_time(*run_, {"node_lost"}).has_value(); }));
              engine().heal();
            },
            1, 8, kShortLimit});
}

TEST_F(DockerTraining, AContainerThatHearsNobodyCostsStepsButNoBitOfTheResult) {
  survives({"a container does not hear the others, and they hear it",
            [] { EXPECT_TRUE(engine().cut_one_way(container(1), Engine::Direction::kHeard)); }, 1, 10,
            kShortLimit});
}

TEST_F(DockerTraining, AnEngineThatIsRestartedCostsStepsButNoBitOfTheResult) {
  survives({"the engine is stopped and started",
            [] {
              engine().stop();
              engine().start();
            },
            {},
            8});
}

// Containers go on without dockerd; it ends them when it restarts.
TEST_F(DockerTraining, AnEngineThatIsKilledCostsStepsButNoBitOfTheResult) {
  survives({"dockerd is killed and started",
            [] {
              engine().kill();
              engine().start();
            },
            {},
            30});
}

// In the first attempt, on a signal file, one rank's first process allocates all memory while its child
// trains.
TEST_F(DockerTraining, AWorkerThatOnceNeedsMoreThanTheContainersMemoryIsStartedAgain) {
  const std::string hungry = folder() + "/hungry";
  std::ofstream(hungry) << "#!/bin/sh\n"
                        << "[ \"$MUSTER_ATTEMPT\" = 1 ] || exec \"$@\"\n\"$@\" &\n"
                        << fmt::format("while [ ! -e {}/now ]; do sleep 0.05; done\n", folder())
                        << "exec tail /dev/zero\n";
  survives({"a worker needs more than `--memory`",
            [this] { std::ofstream(folder() + "/now") << ""; },
            1,
            10,
            {"--memory", "1G", "--wrap", "2:sh " + hungry}});
  EXPECT_EQ(run_->report()["attempts"][0]["culprit"]["class"], "out_of_memory");
  EXPECT_EQ(run_->report()["attempts"][0]["culprit"]["rank"], 2);
}

TEST_F(DockerTraining, WorkersThatAlwaysNeedMoreThanTheContainersMemoryEndTheJobWithThatVerdict) {
  train({"--memory", "150M"});
  EXPECT_EQ(run_->exit_code(), 253) << run_->err();
  EXPECT_EQ(run_->report()["class"], "out_of_memory") << run_->err();
  nothing_is_left();
}

// A script that does not know Muster, and keeps snapshots of its own.
class DockerScript : public DockerJobs {
 protected:
  void run_script(const std::string& snapshot, const std::string& pause_seconds) {
    launch(2, {"--gpus-per-node", "1", "--mount", torch_mount(), "--mount", read_only(PYTHON_SCRIPTS)},
           {PYTHON_SCRIPTS "python_ddp_script.py", snapshot, "-1", pause_seconds});
  }
  // The hash of the final parameters of both ranks.
  std::string hash() {
    EXPECT_EQ(run_->exit_code(), 0) << run_->out() << run_->err();
    const std::string out = run_->out();
    std::vector<std::string> hashes;
    const std::regex pattern("rank [0-9] parameters ([0-9a-f]{64})");
    for (std::sregex_iterator at(out.begin(), out.end(), pattern), end; at != end; ++at)
      hashes.push_back((*at)[1]);
    EXPECT_THAT(hashes, testing::SizeIs(2)) << out;
    EXPECT_THAT(hashes, testing::Each(hashes.empty() ? "" : hashes[0])) << out;
    nothing_is_left();
    return hashes.empty() ? "" : hashes[0];
  }
};

TEST_F(DockerScript, GoesOnFromItsOwnSnapshotAfterDockerKill) {
  run_script(folder() + "/hit", "0.5");
  ASSERT_TRUE(it_comes([this] { return std::filesystem::exists(folder() + "/hit"); }))
      << run_->out() << run_->err();
  engine().printed_by({"kill", container(1)});
  const std::string hit = hash();
  EXPECT_EQ(run_->report()["restarts"], 1) << run_->err();
  EXPECT_TRUE(std::regex_search(run_->out(), std::regex("restart 1 starts at step [1-8]"))) << run_->out();
  run_.reset();
  run_script(folder() + "/undisturbed", "0");
  EXPECT_EQ(hash(), hit);
  EXPECT_EQ(run_->report()["restarts"], 0) << run_->err();
}

}  // namespace
}  // namespace muster::docker
