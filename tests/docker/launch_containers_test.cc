// `launch --image`: nodes are containers of a real engine; the job survives their loss, and leaves none
// behind.
#include "tests/docker/launch_containers.h"

#include <csignal>
#include <fstream>
#include <functional>

#include "tests/docker/registry.h"

namespace muster::docker {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(DockerLaunch, RanksRunInContainersAsTheCallerWithoutCapabilities) {
  engine().admit(hosts::kTrainer);
  launch({"--nodes", "2", "--gpus-per-node", "2"},
         {"sh", "-c",
          "echo $RANK of $WORLD_SIZE on $(hostname) as $(id -u):$(id -g) "
          "$(grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\t\\n')"},
         {.user = hosts::kTrainer});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(run_->out(),
                HasSubstr(fmt::format("{} of 4 on node{} as 4242:4242 "
                                      "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1\n",
                                      rank, rank / 2)));
  EXPECT_THAT(run_->err(), HasSubstr("4 ranks succeeded"));
  lab_->engine.stop();
  lab_->engine.start();  // a restart resets the socket's permissions
}

// The agent loads its TLS module in the container. The images have glibc 2.31, 2.36 and 2.41.
TEST_F(DockerLaunch, AnImageNeedsNeitherOpenSslNorLibstdcxxNorThisMachinesGlibc) {
  engine().load("bullseye");
  engine().load("trixie");
  for (const auto& [image, release] : {std::pair{"bullseye", "11"}, {"bookworm", "12"}, {"trixie", "13"}}) {
    run_ = launched(
        {"--image", image, "--nodes", "2", "--gpus-per-node", "1"},
        {"sh", "-c", ". /etc/os-release; echo release $VERSION_ID; until [ -e go ]; do sleep 0.1; done"});
    EXPECT_TRUE(by_network(2)) << run_->err();
    std::ofstream(run_->scratch() / "go") << "\n";
    EXPECT_EQ(run_->exit_code(), 0) << run_->err();
    EXPECT_EQ(count_in(run_->out(), fmt::format("release {}\n", release)), 2) << run_->out();
  }
}

// An image like Alpine's: with another C library, and without glibc's loader.
TEST_F(DockerLaunch, AnImageWithoutGlibcIsRefusedInOneLine) {
  const std::string file = lab_->hosts.shared() + "/empty.tar";
  ASSERT_EQ(lab_->host.run({"tar", "-cf", file, "--files-from", "/dev/null"}), 0);
  engine().printed_by({"import", file, "empty"});
  run_ = launched({"--image", "empty", "--nodes", "2", "--gpus-per-node", "1"}, {"true"});
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_EQ(count_in(run_->err(), "the image has no glibc: use an image based on Debian"), 1) << run_->err();
}

TEST_F(DockerLaunch, TheJobsDirectoriesAreSeenByItsRanks) {
  const std::string data = lab_->hosts.shared() + "/data";
  std::filesystem::create_directory(data);
  std::ofstream(data + "/text") << "here\n";
  launch({"--nodes", "1", "--gpus-per-node", "1", "--mount", data + ":/data:ro", "--mount", data + ":/more",
          "--read-only", "--container-arg", "add-host=friend:10.9.8.7", "--container-arg", "label=team=blue"},
         {"sh", "-c",
          "cat /data/text; touch /data/x || echo data is read-only; touch /more/y && echo more is not;"
          "touch /x || echo image is read-only; touch /tmp/x /run/x && echo memory is not;"
          "touch mine && pwd; grep friend /etc/hosts; sleep 1000"});
  ASSERT_TRUE(run_->printed("friend")) << run_->err();
  EXPECT_EQ(engine().printed_by({"ps", "--filter", "label=team=blue", "--quiet"}).empty(), false);
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  for (const char* line :
       {"here\n", "data is read-only\n", "more is not\n", "image is read-only\n", "memory is not\n"})
    EXPECT_THAT(run_->out(), HasSubstr(line));
  EXPECT_THAT(run_->out(), HasSubstr(run_->scratch().path().string()));
  EXPECT_TRUE(std::filesystem::exists(run_->scratch() / "mine"));
  EXPECT_TRUE(std::filesystem::exists(data + "/y"));
  EXPECT_FALSE(std::filesystem::exists(data + "/x"));
}

// ---- Losses ----

TEST_F(DockerLaunch, AKilledContainerIsALossAtOnce) {
  ASSERT_NO_FATAL_FAILURE(start_pair());
  const std::string name = container_of(1);
  engine().printed_by({"kill", name});
  ASSERT_NO_FATAL_FAILURE(expect_recovered(*run_, 1));
  EXPECT_THAT(run_->err(), HasSubstr(fmt::format(
                               "node1 ({}) was lost: its agent has ended: container ended with 137", name)));
  EXPECT_EQ(count_in(run_->out(), "ready 1\n"), 4);
}

TEST_F(DockerLaunch, ARemovedContainerIsALoss) {
  ASSERT_NO_FATAL_FAILURE(start_pair());
  engine().printed_by({"rm", "--force", container_of(0)});
  expect_recovered(*run_, 0);
}

TEST_F(DockerLaunch, APausedContainerIsALossAndIsKilledAsItIs) {
  ASSERT_NO_FATAL_FAILURE(start_pair(kShortLimits));
  engine().printed_by({"pause", container_of(1)});
  expect_recovered(*run_, 1);
}

// The agent must use TLS: over its container's streams it would still be connected.
TEST_F(DockerLaunch, AContainerWithoutItsNetworkIsALoss) {
  ASSERT_NO_FATAL_FAILURE(start_pair({"--control", "tcp", "--silence-limit", "2"}));
  engine().printed_by({"network", "disconnect", network_of(1), container_of(1)});
  expect_recovered(*run_, 1);
}

TEST_F(DockerLaunch, AContainerThatIsCutOneWayIsALoss) {
  for (const auto direction : {Engine::Direction::kSent, Engine::Direction::kHeard}) {
    ASSERT_NO_FATAL_FAILURE(start_pair(kShortLimits));
    ASSERT_TRUE(by_network(2));
    engine().cut_one_way(container_of(1), direction);
    EXPECT_TRUE(run_->printed("was lost: its agent was silent for 2 s")) << run_->err();
    // The next container may get the same address.
    EXPECT_EQ(lab_->host.run({"iptables", "-w", "-t", "raw", "-F", "PREROUTING"}), 0);
    expect_recovered(*run_, 1);
  }
}

TEST_F(DockerLaunch, AWorkerThatNeedsMoreMemoryThanItsContainerHasIsNamed) {
  launch({"--nodes", "2", "--gpus-per-node", "1", "--memory", "64M", "--max-restarts", "0"},
         {"bash", "-c",
          "[ $RANK = 0 ] && sleep 1000; x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}"});
  EXPECT_EQ(run_->exit_code(), 253) << run_->err() << run_->out();
  EXPECT_EQ(run_->report()["class"], "out_of_memory") << run_->err();
}

// Makes the kernel choose the agent, the container's first process, instead of the worker.
TEST_F(DockerLaunch, AnAgentThatIsKilledForWantOfMemoryIsNamedAsThat) {
  launch({"--nodes", "2", "--gpus-per-node", "1", "--memory", "64M", "--max-restarts", "0"},
         {"bash", "-c",
          "echo ready 0; [ $RANK = 0 ] && sleep 1000; until [ -e go ]; do sleep 0.05; done; "
          "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}"});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 2));
  const std::string name = container_of(1);
  for (const pid_t pid : engine().processes(name)) {
    const auto status = read_file(fmt::format("/proc/{}/status", pid), 1 << 16).value_or("");
    if (status.contains("\t1\nNSpgid")) std::ofstream(fmt::format("/proc/{}/oom_score_adj", pid)) << 1000;
  }
  std::ofstream(run_->scratch() / "go") << "\n";
  EXPECT_EQ(run_->exit_code(), 253) << run_->err() << run_->out();
  EXPECT_EQ(run_->report()["class"], "out_of_memory") << run_->err();
  EXPECT_EQ(run_->report()["attempts"][0]["culprit"]["node"], 1);
  EXPECT_THAT(run_->err(),
              HasSubstr(fmt::format("node1 ({}) was lost: its agent has ended: container ended with "
                                    "137: it ran out of memory: --memory is the limit",
                                    name)));
}

// A stopping engine still starts containers and ends them at once, which may cost more restarts.
TEST_F(DockerLaunch, AJobSurvivesThatItsEngineIsStoppedAndStarted) {
  launch({"--nodes", "2", "--gpus-per-node", "2", "--connect-timeout", "60"},
         {"sh", "-c", "echo ready $TORCHELASTIC_RESTART_COUNT; until [ -e go ]; do sleep 0.1; done"});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 4));
  lab_->engine.stop();
  lab_->engine.start();
  std::ofstream(run_->scratch() / "go") << "\n";
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_GE(run_->report()["restarts"], 1) << run_->err();
}

TEST_F(DockerLaunch, AnEngineThatDoesNotComeBackEndsTheJobAndTheNextLaunchRemovesItsNetwork) {
  launch({"--nodes", "2", "--gpus-per-node", "1", "--connect-timeout", "1", "--max-restarts", "1"},
         ready_until(9));
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*run_, 2));
  lab_->engine.stop();
  EXPECT_EQ(run_->exit_code(), 69) << run_->err();
  expect_nothing_left(*run_, 20s);
  lab_->engine.start();
  launch({"--nodes", "1", "--gpus-per-node", "1"}, {"true"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("left by launchers that are gone"));
}

TEST_F(DockerLaunch, TwoJobsAtOnceDoNotTouchEachOther) {
  ASSERT_NO_FATAL_FAILURE(start_pair());
  const std::string name = container_of(1);
  const auto other = launched({"--image", "bookworm", "--nodes", "2", "--gpus-per-node", "1"},
                              {"sh", "-c", "echo ready 0; until [ -e go ]; do sleep 0.1; done"});
  ASSERT_NO_FATAL_FAILURE(all_are_ready(*other, 2));
  engine().printed_by({"kill", name});
  ASSERT_NO_FATAL_FAILURE(expect_recovered(*run_, 1));
  EXPECT_EQ(engine().containers().size(), 2U) << "those of the other job";
  std::ofstream(other->scratch() / "go") << "\n";
  EXPECT_EQ(other->exit_code(), 0) << other->err();
  EXPECT_EQ(other->report()["restarts"], 0) << other->err();
}

// ---- Ends ----

TEST_F(DockerLaunch, CtrlCEndsTheJobAndLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(start_pair());
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  EXPECT_THAT(engine().containers(), IsEmpty()) << "when the launcher ends";
  EXPECT_THAT(engine().networks(), IsEmpty());
  expect_nothing_left(*run_);
}

TEST_F(DockerLaunch, CtrlCDuringTheStartLeavesNothing) {
  for (const auto& has_begun : std::vector<std::function<bool()>>{
           [] { return !engine().networks().empty(); }, [] { return !engine().containers().empty(); }}) {
    launch({"--nodes", "4", "--gpus-per-node", "1"}, {"sleep", "1000"});
    ASSERT_TRUE(eventually(has_begun)) << run_->err();
    run_->signal(SIGINT);
    EXPECT_EQ(run_->exit_code(), 130) << run_->err();
    expect_nothing_left(*run_);
    nothing_is_left();
  }
}

TEST_F(DockerLaunch, TheGuardianOfAKilledLauncherLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(start_pair({"--controller-grace", "1"}));
  run_->signal(SIGKILL);
  EXPECT_EQ(run_->exit_code(), 128 + SIGKILL);
  nothing_is_left();
  expect_nothing_left(*run_);
}

TEST_F(DockerLaunch, TheGuardianOfALauncherThatWasKilledWhileItStartedLeavesNothing) {
  launch({"--nodes", "4", "--gpus-per-node", "1", "--controller-grace", "4"}, {"sleep", "1000"});
  ASSERT_TRUE(eventually([] { return !engine().containers().empty(); })) << run_->err();
  run_->signal(SIGKILL);
  EXPECT_EQ(run_->exit_code(), 128 + SIGKILL);
  expect_nothing_left(*run_, 20s);
  nothing_is_left(1s);
}

TEST_F(DockerLaunch, TheNextLaunchRemovesWhatIsLeftOfOneWhoseGuardianDiedToo) {
  ASSERT_NO_FATAL_FAILURE(start_pair(kShortLimits));
  const pid_t guardian = guardian_of(*run_);
  ASSERT_NE(guardian, 0);
  kill(guardian, SIGKILL);
  run_->signal(SIGKILL);
  EXPECT_EQ(run_->exit_code(), 128 + SIGKILL);
  EXPECT_FALSE(engine().networks().empty());
  launch({"--nodes", "1", "--gpus-per-node", "1"}, {"true"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), AllOf(HasSubstr("removed "), HasSubstr("left by launchers that are gone")));
  nothing_is_left(3s);
}

// ---- Registries ----

class DockerPull : public DockerLaunch {
 protected:
  static Registry& registry() { return *registry_; }
  static std::string image() { return registry().name("bookworm"); }
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DockerLaunch::SetUp());
    if (IsSkipped()) return;
    if (registry_ == nullptr) {
      registry_ = std::make_unique<Registry>(engine(), lab_->hosts.shared() + "/registry", kRight);
      registry().take("bookworm");
      engine().load("bookworm");
    }
    registry().log_out();
  }
  static void TearDownTestSuite() {
    registry_.reset();
    DockerLaunch::TearDownTestSuite();
  }
  void TearDown() override {
    std::string ignored;
    if (registry_ != nullptr) engine().docker({"rmi", image()}, &ignored);
    DockerLaunch::TearDown();
  }
  void pull(const Words& flags = {}, const std::string& name = image()) {
    Words all{"--image", name, "--nodes", "1", "--gpus-per-node", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    run_ = launched(all, {"echo", "it runs"});
  }
  void log_in() {
    std::string said;
    ASSERT_EQ(registry().log_in(kRight, &said), 0) << said;
  }
  static void signal_registry(int number) {
    for (const pid_t pid : lab_->hosts.processes(0, "docker-registry")) kill(pid, number);
  }

  static inline const Login kRight{"trainer", "open sesame"};

 private:
  static inline std::unique_ptr<Registry> registry_;
};

TEST_F(DockerPull, AMissingImageIsFetchedWithTheCredentialsOfDockerLogin) {
  ASSERT_NO_FATAL_FAILURE(log_in());
  pull();
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("pulling " + image()));
  EXPECT_THAT(run_->out(), HasSubstr("it runs\n"));
  pull();
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), Not(HasSubstr("pulling"))) << "it is there";
  pull({"--pull", "always"});
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("pulling"));
}

TEST_F(DockerPull, WithoutTheRightPasswordItIsRefusedInOneLine) {
  pull();
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_THAT(run_->err(),
              AllOf(HasSubstr("--image: cannot pull " + image() + ": "), HasSubstr("docker login")));
  // `docker login` would refuse to store this password. trainer:open barley
  const std::string config = engine().home() + "/.docker/config.json";
  std::filesystem::create_directories(engine().home() + "/.docker");
  std::ofstream(config) << R"({"auths":{")" << registry().address()
                        << R"(":{"auth":"dHJhaW5lcjpvcGVuIGJhcmxleQ=="}}})";
  pull();
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_EQ(count_in(run_->err(), "\n"), 2) << run_->err();
  EXPECT_THAT(run_->err(), AllOf(HasSubstr("--image: cannot pull "), HasSubstr("docker login")));
  std::filesystem::remove(config);
}

TEST_F(DockerPull, APullShowsItsProgressAndEndsByCtrlC) {
  ASSERT_NO_FATAL_FAILURE(log_in());
  signal_registry(SIGSTOP);
  pull();
  EXPECT_TRUE(run_->printed("its registry has not answered yet")) << run_->err();
  const auto before = std::chrono::steady_clock::now();
  run_->signal(SIGINT);
  EXPECT_EQ(run_->exit_code(), 130) << run_->err();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s) << "the registry never answers";
  EXPECT_THAT(run_->err(), Not(HasSubstr("went away")));
  expect_nothing_left(*run_);
  signal_registry(SIGCONT);
}

TEST_F(DockerPull, APullThatIsSlowGoesOn) {
  ASSERT_NO_FATAL_FAILURE(log_in());
  signal_registry(SIGSTOP);
  pull();
  EXPECT_TRUE(run_->printed("its registry has not answered yet")) << run_->err();
  signal_registry(SIGCONT);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
}

// Two of the image's layers arrive at 1 MB a second until the progress line, and one exists already.
TEST_F(DockerPull, TheProgressOfLayersIsShownInMegabytes) {
  for (const char* base : {"bookworm", "layered"}) {
    engine().printed_by(
        {"run", "--name", "written", base, "sh", "-c", "head -c 3000000 /dev/urandom >/$RANDOM"});
    engine().printed_by({"commit", "written", "layered"});
    engine().printed_by({"rm", "written"});
  }
  registry().take("layered");
  ASSERT_NO_FATAL_FAILURE(log_in());
  ASSERT_EQ(lab_->host.run({"tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "8mbit", "burst",
                            "256kb", "latency", "1s"}),
            0);
  pull({}, registry().name("layered"));
  const auto tells = ContainsRegex("layered: 1 of 3 layers, [1-5] of [3-6] MB\n");
  EXPECT_TRUE(eventually([&] { return testing::Value(run_->err(), tells); })) << run_->err();
  EXPECT_EQ(lab_->host.run({"tc", "qdisc", "del", "dev", "lo", "root"}), 0);
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  engine().printed_by({"rmi", registry().name("layered")});
}

// docker-credential-NAME in the user's PATH: reads the registry on stdin, prints the credentials on stdout.
TEST_F(DockerPull, TheUsersCredentialHelperIsAsked) {
  const std::string folder = lab_->hosts.shared() + "/helper";
  std::filesystem::create_directory(folder);
  const auto pull_with = [&](const std::string& answer) {
    const std::string helper = folder + "/docker-credential-test";
    std::ofstream(helper) << fmt::format("#!/bin/sh\necho \"$1 $(cat)\" >{}/asked\n{}\n", folder, answer);
    std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
    run_ = launched({"--image", image(), "--nodes", "1", "--gpus-per-node", "1"}, {"echo", "it runs"},
                    {.environment = {{"PATH", folder + ":" + std::getenv("PATH")}}});
  };
  const std::string config = engine().home() + "/.docker/config.json";
  std::filesystem::create_directories(engine().home() + "/.docker");
  std::ofstream(config) << R"({"credHelpers":{")" << registry().address() << R"(":"test"}})";
  pull_with("echo credentials not available; exit 1");
  expect_refusal(
      *run_, 125,
      {fmt::format("docker-credential-test has no credentials for {0}: run `docker login {0}` again",
                   registry().address())});
  pull_with(fmt::format(R"(echo '{{"ServerURL":"x","Username":"{}","Secret":"{}"}}')", kRight.user,
                        kRight.password));
  EXPECT_EQ(run_->exit_code(), 0) << run_->err();
  EXPECT_THAT(run_->out(), HasSubstr("it runs\n"));
  EXPECT_EQ(read_file(folder + "/asked", 1 << 10).value_or(""), "get " + registry().address() + "\n");
  std::filesystem::remove(config);
}

TEST_F(DockerPull, AnImageThatIsNowhereIsNamed) {
  ASSERT_NO_FATAL_FAILURE(log_in());
  pull({}, registry().name("nothing"));
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_THAT(run_->err(), HasSubstr("check the image's name and tag"));
  pull({"--pull", "never"});
  expect_refusal(*run_, 125, {image() + " is not on this machine, and --pull is never"});
}

// ---- Refusals ----

TEST_F(DockerLaunch, AnEngineThatIsNotThereOrNotHisIsNamed) {
  launch({}, {"true"}, {.environment = {{"DOCKER_HOST", "unix:///run/nothing.sock"}}});
  expect_refusal(*run_, 125, {"no Docker engine answers at /run/nothing.sock: start it"});
  launch({}, {"true"}, {.environment = {{"DOCKER_HOST", "tcp://h1:2375"}}});
  expect_refusal(*run_, 2, {"DOCKER_HOST: tcp://h1:2375 is not a socket on this machine"});
  launch({}, {"true"}, {.user = hosts::kTrainer});
  expect_refusal(
      *run_, 125,
      {"no permission to use the Docker engine's socket " + engine().socket() + ": join the group docker"});
}

TEST_F(DockerLaunch, ANetworkThatIsNotThereIsNamed) {
  launch({"--network", "nowhere"}, {"true"});
  expect_refusal(*run_, 2, {"--network: the engine has no network nowhere: `docker network ls` lists them"});
}

TEST_F(DockerLaunch, ANetworkThatIsGivenIsUsedAndStays) {
  engine().printed_by({"network", "create", "given"});
  for (const char* network : {"given", "host"}) {
    launch({"--network", network, "--nodes", "2", "--gpus-per-node", "1"}, {"echo", "it runs"});
    EXPECT_EQ(run_->exit_code(), 0) << run_->err();
    EXPECT_EQ(count_in(run_->out(), "it runs\n"), 2);
  }
  EXPECT_THAT(engine().networks(), ElementsAre("given"));
  engine().printed_by({"network", "rm", "given"});
}

TEST_F(DockerLaunch, NoNetworkThatIsFreeIsSaidWithWhatToDo) {
  std::string said;
  for (int i = 0; engine().docker({"network", "create", fmt::format("net{}", i)}, &said) == 0; ++i)
    ASSERT_LT(i, 10) << "the address pool has more networks than expected";
  launch({"--nodes", "2", "--gpus-per-node", "1"}, {"true"});
  EXPECT_EQ(run_->exit_code(), 125) << run_->err();
  EXPECT_EQ(count_in(run_->err(), "cannot create a network: "), 1) << run_->err();
  EXPECT_EQ(count_in(run_->err(), "docker network prune"), 1) << run_->err();
  const auto checked = ended({"check", "--bootstrap", "docker", "--image", "bookworm", "--nodes", "2"});
  EXPECT_EQ(checked->exit_code(), 1) << checked->err();
  EXPECT_EQ(count_in(checked->out(), "docker network prune"), 2) << "a line for each: " << checked->out();
  engine().printed_by({"network", "prune", "--force"});
}

TEST_F(DockerLaunch, WhatTheEngineRefusesEndsTheLaunchWith125) {
  const std::vector<std::pair<Words, Words>> cases = {
      {{"--gpus", "1"}, {"could not select device driver", "NVIDIA Container Toolkit"}},
      {{"--container-arg", "ulimit=nofile=2000000000"}, {"leave out the ulimit"}},
      {{"--container-arg", "runtime=fast"}, {"check the runtime's name"}},
      {{"--mount", "/nowhere/at/all:/data"}, {"bind source path does not exist", "create it"}},
  };
  for (const auto& [flags, parts] : cases) {
    Words all{"--nodes", "2", "--gpus-per-node", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    launch(all, {"true"});
    EXPECT_EQ(run_->exit_code(), 125) << run_->err();
    for (const std::string& part : parts) EXPECT_EQ(count_in(run_->err(), part), 1) << run_->err();
    EXPECT_EQ(run_->report()["restarts"], 0);
    EXPECT_THAT(engine().containers(), IsEmpty());
  }
}

// Whether the engine may lift the limit depends on the machine: an engine in a container may not.
TEST_F(DockerLaunch, LockedMemoryIsUnlimitedOrRefusedWithWhatToDo) {
  launch({"--container-arg", "ulimit=memlock=-1", "--gpus-per-node", "1"}, {"bash", "-c", "ulimit -l"});
  const int code = run_->exit_code();
  if (code == 0) {
    EXPECT_EQ(run_->out(), "unlimited\n") << run_->err();
  } else {
    EXPECT_EQ(code, 125) << run_->err();
    EXPECT_EQ(count_in(run_->err(), "the engine may not set such a limit: leave out the ulimit"), 1)
        << run_->err();
    EXPECT_THAT(engine().containers(), IsEmpty());
  }
}

// The other container has the name of the node's next container.
TEST_F(DockerLaunch, AContainerOfSomebodyElseKeepsItsName) {
  ASSERT_NO_FATAL_FAILURE(start_pair({"--max-restarts", "1"}));
  const std::string name = container_of(1);
  engine().printed_by({"rename", name, "moved"});
  engine().printed_by({"create", "--name", name, "bookworm", "true"});
  engine().printed_by({"kill", "moved"});
  EXPECT_EQ(run_->exit_code(), 69) << run_->err();
  EXPECT_THAT(run_->err(),
              HasSubstr(fmt::format("another container has the name {0}: `docker rm -f {0}`", name)));
  EXPECT_THAT(engine().containers(), ElementsAre(name));
  engine().printed_by({"rm", name});
}

}  // namespace
}  // namespace muster::docker
