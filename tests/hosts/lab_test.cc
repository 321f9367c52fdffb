// Tests of the Lab itself, the cluster for tests of hosts.
#include "tests/hosts/lab.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process/agent_test_launcher.h"

namespace muster::hosts {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LabTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_lab(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string said(const Host& host, const std::vector<std::string>& words, uid_t user = 0) {
    std::string output;
    EXPECT_EQ(host.run(words, &output, user), 0) << output;
    return output;
  }
  static bool reaches(const Lab& lab, int from, int to) {
    return lab.host(from).run({"ssh", "-oConnectTimeout=1", "-oBatchMode=yes", Lab::address(to), "true"}) ==
           0;
  }
};

TEST_F(LabTest, EveryHostIsReachedBySshUnderItsName) {
  const Lab lab(3);
  for (int i = 0; i < 3; ++i) {
    const std::string name = fmt::format("h{}", i);
    EXPECT_EQ(said(lab.head(), {"ssh", name, "hostname"}), name + "\n");
    EXPECT_EQ(said(lab.head(), {"ssh", name + ".v6", "echo $HOME"}), lab.home(i) + "\n");
    EXPECT_EQ(said(lab.head(), {lab.enter_program(), name, "sh", "-c", "hostname; echo $HOME"}),
              name + "\n" + lab.home(i) + "\n");
  }
  EXPECT_EQ(said(lab.host(2), {"ssh", "h0", "id -un"}, kTrainer), "trainer\n");
}

TEST_F(LabTest, AHostHasItsOwnTemporaryFilesAndSharesThoseBelowShared) {
  const Lab lab(2);
  const std::string own = fmt::format("/tmp/lab-test-{}", getpid());
  EXPECT_EQ(lab.host(0).run({"sh", "-c", "echo 1 >" + own + "; echo 2 >" + lab.shared() + "/x"}), 0);
  EXPECT_NE(lab.host(1).run({"test", "-e", own}), 0);
  EXPECT_EQ(said(lab.host(1), {"cat", lab.shared() + "/x"}), "2\n");
  EXPECT_FALSE(std::filesystem::exists(own));
}

TEST_F(LabTest, ACutStopsWhatItSaysAndHealingEndsIt) {
  Lab lab(3);
  lab.cut(0, 1);
  EXPECT_FALSE(reaches(lab, 0, 1));
  EXPECT_TRUE(reaches(lab, 0, 2));
  lab.heal();
  EXPECT_TRUE(reaches(lab, 0, 1));
  lab.isolate(2);
  EXPECT_FALSE(reaches(lab, 1, 2));
  EXPECT_TRUE(reaches(lab, 0, 1));
  lab.heal();
  EXPECT_TRUE(reaches(lab, 1, 2));
}

TEST_F(LabTest, AOneWayCutLetsTheOtherWayThrough) {
  Lab lab(2);
  // Sends for two seconds, and succeeds if it has received something by then.
  std::ofstream(lab.shared() + "/send") << "import socket, sys\n"
                                           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                                           "s.bind(('', 7))\n"
                                           "s.settimeout(0.05)\n"
                                           "heard = False\n"
                                           "for i in range(40):\n"
                                           "  s.sendto(b'x', (sys.argv[1], 7))\n"
                                           "  try: heard |= s.recv(9) != b''\n"
                                           "  except TimeoutError: pass\n"
                                           "sys.exit(0 if heard else 1)\n";
  ASSERT_TRUE(reaches(
      lab, 0, 1));  // fills the neighbour tables first, so that the cut does not hit address resolution
  lab.cut_one_way(0, 1);
  const auto start = [&](int from, int to) {
    const pid_t pid = lab.host(from).fork();
    if (pid == 0) {
      execlp("python3", "python3", (lab.shared() + "/send").c_str(), Lab::address(to).c_str(), nullptr);
      _exit(127);
    }
    return pid;
  };
  const pid_t one = start(0, 1);
  int status = -1;
  const pid_t other = start(1, 0);
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_NE(status, 0) << "h1 heard h0";
  ASSERT_EQ(waitpid(one, &status, 0), one);
  EXPECT_EQ(status, 0) << "h0 did not hear h1";
}

TEST_F(LabTest, NothingIsLeftOfAHostAndOfTheLab) {
  std::string shared;
  pid_t sleeper = 0;
  {
    const Lab lab(2);
    shared = lab.shared();
    EXPECT_TRUE(eventually([&] { return lab.processes(0).empty(); }));
    sleeper = lab.host(1).fork();
    if (sleeper == 0) {
      execlp("setsid", "setsid", "sh", "-c", "sleep 1000 & sleep 1000", nullptr);
      _exit(127);
    }
    EXPECT_TRUE(eventually([&] { return lab.processes(1, "sleep").size() == 2; }));
    EXPECT_TRUE(eventually([&] { return lab.processes(0).empty(); }));
  }
  EXPECT_FALSE(is_running(sleeper));
  EXPECT_FALSE(std::filesystem::exists(shared));
}

}  // namespace
}  // namespace muster::hosts
