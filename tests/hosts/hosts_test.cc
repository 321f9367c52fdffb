// A job with agents over TCP in a network namespace of its own, with a network that is cut or slow.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "tests/chaos/machine.h"
#include "tests/hosts/delay_proxy.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster::hosts {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Hosts : public testing::Test {
 protected:
  // Moves this process into a network namespace with only a loopback interface.
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0 && errno == EPERM)
      GTEST_SKIP() << "only root, and not in a container, may make a network namespace";
    const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    ASSERT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0) << strerror(errno);
    if (std::system("iptables -t nat -L OUTPUT >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "this kernel has no iptables for a namespace";
  }
};

// The local port of a process's only TCP connection.
int tcp_port_of(pid_t pid) {
  std::vector<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with("socket:[")) inodes.push_back(target.substr(8, target.size() - 9));
  }
  std::ifstream table(fmt::format("/proc/{}/net/tcp", pid));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    if (all.size() < 10 || all[3] != "01" || std::ranges::find(inodes, all[9]) == inodes.end()) continue;
    return std::stoi(all[1].substr(all[1].find(':') + 1), nullptr, 16);
  }
  return 0;
}

std::string job_of(const LaunchRun& run, int attempt) {
  return fmt::format("{}/attempt_{}", run.job_directory(), attempt);
}

// Cuts one agent's connection, in one or both directions.
struct Cut {
  const char* name;
  std::vector<const char*> ends;
};

class HostsCut : public Hosts, public testing::WithParamInterface<Cut> {};

// The cut is silent: no reset tells either side.
TEST_P(HostsCut, LosesTheAgentWithinTheSilenceLimitAndReplacesIt) {
  const auto limit = 2s;
  LaunchRun run({"--control", "tcp", "--nodes", "2", "--silence-limit", "2", "sh", "-c",
                 "echo ready; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000"});
  ASSERT_TRUE(run.printed("node1:1: ready")) << run.err();
  const pid_t agent = run.agent_of(1);
  const int port = tcp_port_of(agent);
  ASSERT_NE(port, 0);
  for (const char* end : GetParam().ends)
    run_command(fmt::format("iptables -A INPUT -p tcp {} {} -j DROP", end, port));
  const TimePoint cut = Clock::now();
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(job_of(run, 2)); }, limit + 5s)) << run.err();
  const Duration took = Clock::now() - cut;
  invariants::makes_progress(true, took, limit + 1s);
  EXPECT_FALSE(is_running(agent));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  invariants::blames({.rank = {}, .node = run.report()["attempts"][0]["culprit"]["node"].get<int>()},
                     {.rank = {}, .node = 1});
  EXPECT_TRUE(eventually([&] { return run.descendants().empty(); }));
  invariants::nothing_is_left(static_cast<int>(run.descendants().size()));
}

INSTANTIATE_TEST_SUITE_P(Ways, HostsCut,
                         testing::Values(Cut{"both", {"--sport", "--dport"}}, Cut{"to_launcher", {"--sport"}},
                                         Cut{"to_agent", {"--dport"}}),
                         [](const auto& cut) { return cut.param.name; });

// F17 and F32: on a slow network and a busy machine the job loses no node. Runs for MUSTER_HOSTS_SECONDS
// (30).
TEST_F(Hosts, NobodyIsLostWith200MsOfDelayAndTwentiethOfTheProcessors) {
  if (const std::string why = chaos::why_no_control_group("cpu"); !why.empty()) GTEST_SKIP() << why;
  const char* text = std::getenv("MUSTER_HOSTS_SECONDS");
  const int seconds = text == nullptr ? 30 : std::atoi(text);
  const DelayProxy delay(200ms);
  const chaos::ControlGroup twentieth("cpu");
  twentieth.set(twentieth.hierarchy().processor_time(5000 * sysconf(_SC_NPROCESSORS_ONLN)));
  twentieth.enter();
  LaunchRun run({"--control", "tcp", "--nodes", "2", "--gpus-per-node", "2", "sh", "-c",
                 fmt::format("i=0; while [ $i -lt {} ]; do echo step $i; sleep 1; i=$((i+1)); "
                             "k=0; while [ $k -lt 20000 ]; do k=$((k+1)); done; done",
                             seconds)});
  twentieth.leave();
  const TimePoint began = Clock::now();
  EXPECT_TRUE(eventually([&] { return run.out().find("step 0") != std::string::npos; }, 60s));
  EXPECT_GT(Clock::now() - began, 800ms)
      << "the connections were not delayed: a handshake and three messages were faster";
  EXPECT_TRUE(eventually([&] { return !is_running(run.pid()); }, std::chrono::seconds(2 * seconds + 60)));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 0) << run.err();
  EXPECT_GT(twentieth.read("cpu.stat", "nr_throttled"), 0) << "the limit on processor time was never reached";
  EXPECT_TRUE(eventually([&] { return run.descendants().empty(); }));
}

}  // namespace
}  // namespace muster::hosts
