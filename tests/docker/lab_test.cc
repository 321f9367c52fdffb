// Tests of the Lab itself, the engine for tests of containers.
#include "tests/docker/lab.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <poll.h>
#include <sstream>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/docker/image.h"
#include "tests/docker/registry.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/scratch_directory.h"

namespace muster::docker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DockerLab : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
    lab_ = std::make_unique<Lab>();
  }
  const Engine& engine() const { return lab_->engine; }
  void run_sleeper(const std::string& name, const std::string& network) const {
    engine().printed_by(
        {"run", "--detach", "--name", name, "--network", network, "bookworm", "sleep", "1000"});
  }
  bool pings(const std::string& from, const std::string& to) const {
    std::string output;
    return engine().docker({"exec", from, "ping", "-c", "1", "-W", "1", to}, &output) == 0;
  }
  // The pings that the container has received.
  int pings_heard(const std::string& container) const {
    std::istringstream text(engine().printed_by({"exec", container, "cat", "/proc/net/snmp"}));
    std::vector<std::vector<std::string>> icmp;
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line);
      if (line.starts_with("Icmp:"))
        icmp.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    }
    const auto at = std::ranges::find(icmp.at(0), "InEchos") - icmp[0].begin();
    return std::stoi(icmp.at(1).at(static_cast<std::size_t>(at)));
  }
  static std::vector<std::string> control_groups() {
    std::vector<std::string> found;
    for (const auto& hierarchy : std::filesystem::directory_iterator("/sys/fs/cgroup")) {
      if (!hierarchy.is_directory()) continue;
      for (const auto& group : std::filesystem::directory_iterator(hierarchy))
        if (group.path().filename().string().find(fmt::format("-{}-", getpid())) != std::string::npos)
          found.push_back(group.path());
    }
    return found;
  }

  std::unique_ptr<Lab> lab_;
};

TEST_F(DockerLab, AContainerOfEachSmallImageRunsOnItsRelease) {
  for (const auto& [image, release] : {std::pair{"bookworm", "12"}, {"trixie", "13"}, {"bullseye", "11"}}) {
    engine().load(image);
    EXPECT_EQ(engine().printed_by({"run", "--rm", "--hostname", "here", image, "sh", "-c",
                                   "hostname; . /etc/os-release; echo $VERSION_ID; id -u"}),
              fmt::format("here\n{}\n0", release));
    EXPECT_EQ(engine().printed_by(
                  {"run", "--rm", image, "find", "/usr", "-name", "libssl*", "-o", "-name", "libstdc++*"}),
              "");
  }
  EXPECT_THAT(engine().containers(), IsEmpty());
  EXPECT_EQ(engine().docker({"run", "--rm", "bookworm", "sh", "-c", "exit 7"}), 7);
}

TEST_F(DockerLab, ContainersOnANetworkKnowEachOthersNamesAndNoOthers) {
  engine().load("bookworm");
  engine().printed_by({"network", "create", "net"});
  EXPECT_THAT(engine().networks(), ElementsAre("net"));
  run_sleeper("one", "net");
  run_sleeper("other", "net");
  EXPECT_THAT(engine().containers(), ElementsAre("one", "other"));
  EXPECT_EQ(engine().processes("one").size(), 1);
  EXPECT_EQ(engine().processes().size(), 2);
  EXPECT_TRUE(pings("one", "other"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(pings("one", "nobody"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << "a query is answered at once";
}

TEST_F(DockerLab, AContainerThatIsCutOneWayHearsOrIsHeardAlone) {
  engine().load("bookworm");
  engine().printed_by({"network", "create", "net"});
  run_sleeper("one", "net");
  run_sleeper("other", "net");
  ASSERT_TRUE(pings("one", "other"));
  ASSERT_TRUE(engine().cut_one_way("one"));
  const int before = pings_heard("other");
  EXPECT_FALSE(pings("one", "other"));
  EXPECT_EQ(pings_heard("other"), before) << "what one sent has come";
  const int heard = pings_heard("one");
  EXPECT_FALSE(pings("other", "one"));
  EXPECT_EQ(pings_heard("one"), heard + 1) << "one does not hear";
  engine().heal();
  EXPECT_TRUE(pings("one", "other"));

  ASSERT_TRUE(engine().cut_one_way("one", Engine::Direction::kHeard));
  const int sent = pings_heard("other");
  EXPECT_FALSE(pings("one", "other"));
  EXPECT_EQ(pings_heard("other"), sent + 1) << "what one sent has not come";
  const int deaf = pings_heard("one");
  EXPECT_FALSE(pings("other", "one"));
  EXPECT_EQ(pings_heard("one"), deaf) << "one hears";
  engine().heal();
  EXPECT_TRUE(pings("other", "one"));
  EXPECT_FALSE(engine().cut_one_way("nobody"));
}

TEST_F(DockerLab, AnEngineThatIsStoppedOrKilledEndsContainersAndComesBack) {
  engine().load("bookworm");
  const std::vector<std::string> obedient{"run",    "--detach", "--name", "one",
                                          "--init", "bookworm", "sleep",  "1000"};
  engine().printed_by(obedient);
  EXPECT_FALSE(engine().processes("one").empty());
  lab_->engine.stop();
  EXPECT_THAT(engine().processes(), IsEmpty());
  std::string output;
  EXPECT_NE(engine().docker({"ps"}, &output), 0);
  lab_->engine.start();
  EXPECT_THAT(engine().containers(), ElementsAre("one"));
  engine().printed_by({"start", "one"});
  lab_->engine.kill();
  EXPECT_FALSE(engine().processes().empty()) << "dockerd alone has died";
  lab_->engine.start();
  EXPECT_TRUE(eventually([&] { return engine().processes().empty(); })) << "live-restore is off";
}

TEST_F(DockerLab, ARegistryWithAPasswordTakesTheRightOneOnly) {
  engine().load("bookworm");
  const Login right{"trainer", "open sesame"};
  const Registry registry(engine(), lab_->hosts.shared() + "/registry", right);
  registry.take("bookworm");
  const std::string image = registry.name("bookworm");
  std::string output;
  EXPECT_NE(engine().docker({"pull", image}, &output), 0);
  EXPECT_THAT(output, HasSubstr("no basic auth credentials"));
  EXPECT_NE(registry.log_in({"trainer", "open barley"}, &output), 0);
  EXPECT_NE(engine().docker({"pull", image}, &output), 0);
  EXPECT_EQ(registry.log_in(right, &output), 0) << output;
  EXPECT_TRUE(std::filesystem::exists(engine().home() + "/.docker/config.json"));
  EXPECT_EQ(engine().docker({"pull", image}, &output), 0) << output;
  EXPECT_EQ(engine().printed_by({"run", "--rm", image, "echo", "here"}), "here");
}

TEST_F(DockerLab, ARegistryWithoutAPasswordIsOpenToAll) {
  engine().load("bookworm");
  const Registry registry(engine(), lab_->hosts.shared() + "/registry");
  registry.take("bookworm");
  EXPECT_EQ(engine().printed_by({"run", "--rm", registry.name("bookworm"), "echo", "here"}), "here");
}

TEST_F(DockerLab, AUserSpeaksToTheEngineWhenAdmitted) {
  const std::vector<std::string> words{"docker", "--host", "unix://" + engine().socket(), "ps"};
  std::string output;
  EXPECT_NE(lab_->host.run(words, &output, hosts::kTrainer), 0);
  EXPECT_THAT(output, HasSubstr("permission denied"));
  engine().admit(hosts::kTrainer);
  output.clear();
  EXPECT_EQ(lab_->host.run(words, &output, hosts::kTrainer), 0) << output;
}

TEST_F(DockerLab, AnEngineOnAnotherHostIsFoundBySshInTheUsualPlace) {
  lab_.reset();
  lab_ = std::make_unique<Lab>(2);
  const Engine other(lab_->hosts.host(1), lab_->hosts.shared() + "/other");
  other.load("bookworm");
  other.listen_as_default();
  std::string output;
  EXPECT_EQ(lab_->host.run({"ssh", "h1", "docker run --rm --network host bookworm hostname"}, &output), 0);
  EXPECT_EQ(output, "h1\n");
  EXPECT_NE(lab_->host.run({"ssh", "h0", "docker ps"}, &output), 0) << "its engine has no socket there";
}

TEST_F(DockerLab, TorchOfThisMachineIsLoadedInThePythonImage) {
  if (const std::string why = why_no_torch_mount(); !why.empty()) GTEST_SKIP() << why;
  engine().load("python");
  EXPECT_EQ(engine().printed_by({"run", "--rm", "--volume", torch_mount(), "python", kTorchPython, "-c",
                                 "import numpy, torch; print(torch.ones(3).sum().item())"}),
            "3.0");
#ifdef TRAIN_PROGRAM
  const std::string folder = std::filesystem::path(TRAIN_PROGRAM).parent_path();
  EXPECT_THAT(engine().printed_by({"run", "--rm", "--volume", libtorch_mount(), "--volume",
                                   folder + ":" + folder + ":ro", "python", TRAIN_PROGRAM, "--help"}),
              HasSubstr("--"));
#endif
}

// A frozen process of a container; the test that froze it has been killed.
UniqueFd left_frozen() {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  const pid_t test = fork();
  if (test == 0) {
    const Lab lab;
    lab.engine.load("bookworm");
    lab.engine.printed_by({"run", "--detach", "--name", "one", "bookworm", "sleep", "1000"});
    lab.engine.printed_by({"pause", "one"});
    const pid_t frozen = lab.engine.processes("one").at(0);
    CHECK(write(to.get(), &frozen, sizeof frozen) == sizeof frozen);
    for (;;) pause();
  }
  pid_t frozen = 0;
  CHECK(read(from.get(), &frozen, sizeof frozen) == sizeof frozen);
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, frozen, 0)));
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  EXPECT_TRUE(is_running(frozen));
  return process;
}

TEST_F(DockerLab, WhatAKilledTestHasLeftFrozenEndsWithTheNextEngine) {
  const UniqueFd frozen = left_frozen();
  ASSERT_TRUE(frozen);
  const Engine next(lab_->host, lab_->hosts.shared() + "/next");
  pollfd ended{.fd = frozen.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
}

TEST_F(DockerLab, NothingIsLeftOfAnEngine) {
  const hosts::Host& host = lab_->host;
  const std::string directory = lab_->hosts.shared() + "/second";
  {
    const Engine second(host, directory);
    second.load("bookworm");
    second.printed_by({"network", "create", "net"});
    second.printed_by({"run", "--detach", "--name", "one", "--network", "net", "bookworm", "sleep", "1000"});
    second.printed_by({"run", "--detach", "--name", "frozen", "bookworm", "sleep", "1000"});
    second.printed_by({"pause", "frozen"});
    EXPECT_EQ(second.processes().size(), 2);
    EXPECT_EQ(host.run({"grep", "-q", directory, "/proc/mounts"}), 0);
    EXPECT_EQ(control_groups().empty(), false);
  }
  for (const pid_t pid : host.processes()) {
    const std::string command = read_file(fmt::format("/proc/{}/cmdline", pid), 1 << 16).value_or("");
    EXPECT_EQ(command.find(directory), std::string::npos) << command;
  }
  EXPECT_NE(host.run({"grep", "-q", directory, "/proc/mounts"}), 0);
  const std::string shared = lab_->hosts.shared();
  lab_.reset();
  EXPECT_THAT(control_groups(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(shared));
  EXPECT_EQ(read_file("/proc/self/mounts", 1 << 20).value_or("").find(shared), std::string::npos);
}

}  // namespace
}  // namespace muster::docker
