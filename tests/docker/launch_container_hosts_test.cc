// `launch --hosts --image`: each host's own engine runs the agent in a container.
#include <csignal>

#include "tests/docker/launch_containers.h"
#include "tests/docker/registry.h"

namespace muster::docker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// All tests share two hosts with an engine each.
class DockerHosts : public testing::Test {
 protected:
  static void TearDownTestSuite() {
    other_.reset();
    lab_.reset();
  }
  void SetUp() override {
    if (lab_ != nullptr) return;
    if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
    lab_ = std::make_unique<Lab>(2);
    other_ = std::make_unique<Engine>(lab_->hosts.host(1), lab_->hosts.shared() + "/other");
    for (const Engine* engine : engines()) {
      engine->listen_as_default();
      engine->load("bookworm");
    }
  }
  void TearDown() override {
    run_.reset();
    if (lab_ == nullptr) return;
    for (const Engine* engine : engines()) {
      EXPECT_TRUE(eventually([&] { return engine->containers().empty(); }, 15s))
          << testing::PrintToString(engine->containers());
      EXPECT_TRUE(eventually([&] { return engine->processes().empty(); }, 5s));
    }
  }
  static std::vector<const Engine*> engines() { return {&lab_->engine, other_.get()}; }
  void launch(const Words& flags, const Words& program) {
    Words words{"--hosts", "h0,h1", "--controller-grace", "4", "--image"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    run_ = std::make_unique<LaunchRun>(words, lab_->hosts.environment(0), LAUNCH_PROGRAM,
                                       [&](const std::string& directory) {
                                         const pid_t pid = lab_->host.fork();
                                         if (pid == 0 && chdir(directory.c_str()) != 0) _exit(98);
                                         return pid;
                                       });
  }

  static inline std::unique_ptr<Lab> lab_;
  static inline std::unique_ptr<Engine> other_;
  std::unique_ptr<LaunchRun> run_;
};

TEST_F(DockerHosts, EachHostsAgentRunsInAContainerOfItsEngine) {
  launch({"bookworm", "--gpus-per-node", "2"},
         {"sh", "-c", "echo $RANK of $WORLD_SIZE on $(hostname) in $(. /etc/os-release; echo $VERSION_ID)"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(run_->out(), HasSubstr(fmt::format("{} of 4 on h{} in 12\n", rank, rank / 2)));
}

TEST_F(DockerHosts, AKilledContainerThereIsALoss) {
  launch({"bookworm", "--gpus-per-node", "1"}, ready_until(1));
  ASSERT_TRUE(eventually([&] { return count_in(run_->out(), "ready 0\n") == 2; })) << run_->err();
  other_->printed_by({"kill", other_->containers().at(0)});
  ASSERT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(run_->report()["restarts"], 1) << run_->err();
  EXPECT_EQ(run_->report()["attempts"][0]["culprit"]["node"], 1) << run_->err();
}

TEST_F(DockerHosts, CtrlCLeavesNothingOnAnyHost) {
  launch({"bookworm", "--gpus-per-node", "1"}, ready_until(1));
  ASSERT_TRUE(eventually([&] { return count_in(run_->out(), "ready 0\n") == 2; })) << run_->err();
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
}

TEST_F(DockerHosts, OfAKilledLauncherNothingIsLeftOnAnyHost) {
  launch({"bookworm", "--gpus-per-node", "1"}, ready_until(1));
  ASSERT_TRUE(eventually([&] { return count_in(run_->out(), "ready 0\n") == 2; })) << run_->err();
  run_->signal(SIGKILL);
  EXPECT_EQ(run_->exit_code(), 128 + SIGKILL);
}

TEST_F(DockerHosts, AnImageThatOneHostLacksIsPulledThereOrNamed) {
  const Registry registry(*other_, lab_->hosts.shared() + "/registry");
  const std::string image = registry.name("bookworm");
  registry.take("bookworm");
  lab_->engine.printed_by({"tag", "bookworm", image});
  launch({image, "--gpus-per-node", "1", "--pull", "never"}, {"echo", "it runs"});
  EXPECT_EQ(run_->exit_code(), 125) << "the host would say the same again";
  EXPECT_EQ(run_->report()["restarts"], 0);
  EXPECT_THAT(run_->err(), AllOf(HasSubstr("node1 (h1)"), HasSubstr("No such image: " + image),
                                 HasSubstr("check the image's name")));
  launch({image, "--gpus-per-node", "1", "--pull", "never", "--nodes", "1:2"}, {"echo", "it runs"});
  EXPECT_EQ(run_->exit_code(), 0) << "one host will do" << run_->err();
  EXPECT_EQ(count_in(run_->out(), "it runs\n"), 1) << run_->out();
  launch({image, "--gpus-per-node", "1"}, {"echo", "it runs"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_EQ(count_in(run_->out(), "it runs\n"), 2) << run_->out();
  other_->load("bookworm");
}

}  // namespace
}  // namespace muster::docker
