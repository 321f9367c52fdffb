// The real launcher and agents, with hosts behind a command of the test: each host has its own home and is
// otherwise this machine. tests/hosts has hosts with a network and sshd.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <netinet/in.h>
#include <regex>
#include <sstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/scratch_directory.h"
#include "tests/tcp_connections.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class LaunchHosts : public testing::Test {
 protected:
  // The shell code `before` runs first, with $host.
  explicit LaunchHosts(const std::string& before = ":") { set_host_command(before); }
  void set_host_command(const std::string& before) const {
    const std::string file = scratch_ / "on";
    std::ofstream(file) << "#!/bin/sh\nhost=$1; shift\nexport HOME=" << home("$host") << "\nmkdir -p $HOME\n"
                        << before << "\nexec \"$@\"\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::string home(const std::string& host) const { return (scratch_ / "home.") + host; }
  // Runs launch --hosts HOSTS with the words of `more`.
  std::vector<std::string> on(const std::string& hosts, std::vector<std::string> more) const {
    std::vector<std::string> words = {"--hosts", hosts, "--exec", (scratch_ / "on") + " {host}"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::vector<std::string> with_command(const char* command, std::vector<std::string> words) {
    words.insert(words.begin(), command);
    return words;
  }
  std::vector<std::filesystem::path> delivered_to(const std::string& host) const {
    std::vector<std::filesystem::path> all;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(home(host) + "/.cache/muster/agent", none))
      all.push_back(entry.path());
    return all;
  }

  ScratchDirectory scratch_;
};

class LaunchHostsControl : public LaunchHosts, public testing::WithParamInterface<const char*> {};

TEST_P(LaunchHostsControl, RunsAJobAndReplacesALostAgentAndAWorker) {
  LaunchRun run(on("h0:2,h1:2", {"--control", GetParam(), "--max-restarts", "3", "sh", "-c",
                                 "echo attempt $MUSTER_ATTEMPT rank $RANK of $WORLD_SIZE at $HOME pid $$; "
                                 "[ $MUSTER_ATTEMPT = 3 ] || exec sleep 1000"}));
  ASSERT_TRUE(run.printed("node1:2: attempt 1 rank 2 of 4")) << run.err();
  ASSERT_TRUE(run.printed("node0:0: attempt 1 rank 0 of 4 at " + home("h0"))) << run.err();
  kill(run.agent_of(1), SIGKILL);
  ASSERT_TRUE(run.printed("node1:2: attempt 2 rank 2 of 4")) << run.err();
  const std::string out = run.out();
  std::smatch worker;
  ASSERT_TRUE(std::regex_search(out, worker, std::regex("attempt 2 rank 2 of 4 at \\S+ pid ([0-9]+)")));
  kill(std::stoi(worker[1]), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("attempt 3 rank 1 of 4"));
  expect_nothing_left(run);
}

INSTANTIATE_TEST_SUITE_P(All, LaunchHostsControl, testing::Values("auto", "tcp", "stdio"),
                         [](const auto& control) { return std::string(control.param); });

TEST_F(LaunchHosts, AnAgentIsBroughtOnceAndADamagedOneIsReplaced) {
  ASSERT_EQ(LaunchRun(on("h0", {"true"})).exit_code(), 0);
  const auto first = delivered_to("h0");
  ASSERT_THAT(first, SizeIs(1));
  const std::string program = first[0] / "bin/muster-agent";
  const auto written = std::filesystem::last_write_time(program);
  ASSERT_EQ(LaunchRun(on("h0", {"true"})).exit_code(), 0);
  EXPECT_EQ(std::filesystem::last_write_time(program), written);
  std::filesystem::resize_file(program, 1000);
  LaunchRun again(on("h0", {"true"}));
  EXPECT_EQ(again.exit_code(), 0) << again.err();
  EXPECT_GT(std::filesystem::file_size(program), 1000U);
  EXPECT_THAT(delivered_to("h0"), SizeIs(1));
}

TEST_F(LaunchHosts, SixteenHostsShareAHome) {
  set_host_command("HOME=" + home("shared") + "; mkdir -p $HOME");
  LaunchRun run(on("n[0-15]", {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node15:15: rank 15 of 16"));
  EXPECT_THAT(delivered_to("shared"), SizeIs(1));
}

// Like sshd: the user's login shell gets all words as one line.
TEST_F(LaunchHosts, TheAgentIsBroughtAndStartedThroughLoginShellsOfAllKinds) {
  const std::string file = scratch_ / "ssh";
  std::ofstream(file) << "#!/bin/sh\nwhile [ $1 != h0 ]; do shift; done\nshift\nexport HOME=$HOME/there; "
                         "mkdir $HOME\nexec $LOGIN_SHELL -c \"$*\"\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  int tried = 0;
  for (const std::string shell : {"sh", "bash", "csh", "tcsh", "fish", "zsh"}) {
    if (access(("/usr/bin/" + shell).c_str(), X_OK) != 0) continue;
    ++tried;
    std::filesystem::create_directory(home(shell));
    LaunchRun run({"--hosts", "h0", "sh", "-c", "echo \"it's\" '$RANK'; echo \"$RANK !x\""},
                  {{"PATH", scratch_.path().string() + ":/usr/bin:/bin"},
                   {"HOME", home(shell)},
                   {"LOGIN_SHELL", shell}});
    EXPECT_EQ(run.exit_code(), 0) << shell << run.err();
    EXPECT_EQ(run.out(), "node0:0: it's $RANK\nnode0:0: 0 !x\n") << shell;
    EXPECT_THAT(delivered_to(shell + "/there"), SizeIs(1)) << shell;
  }
  EXPECT_GE(tried, 4) << "`./dev setup` installs csh and fish";
}

TEST_F(LaunchHosts, WhatAShellPrintsBeforeTheAgentIsNoHarm) {
  set_host_command("echo Welcome to $host; echo control tcp; printf 'no newline'; echo; echo noise >&2");
  LaunchRun run(on("h0,h1", {"echo", "ran"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:1: ran"));
}

// Puts a pipe between, like sshd. Otherwise the agent would have the launcher's socket itself.
TEST_F(LaunchHosts, AnAgentIsSpokenToThroughPipesToo) {
  const std::string file = scratch_ / "through";
  std::ofstream(file) << "#!/bin/sh\ncat | \"$@\" | cat\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  LaunchRun run({"--hosts", "h0,h1", "--control", "stdio", "--exec", file + " env HOST={host}", "sh", "-c",
                 "seq 1 20000; echo $HOST"},
                {{"HOME", scratch_.path().string()}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:0: 20000\n"));
  EXPECT_THAT(run.out(), HasSubstr("node0:0: h0\n"));
  EXPECT_THAT(run.out(), HasSubstr("node1:1: h1\n"));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AHostThatCannotBeReachedIsNamedWithWhatItsShellSaid) {
  set_host_command("[ $host = h0 ] || { echo no such host >&2; exit 7; }");
  LaunchRun run(on("h0,h1", {"--max-restarts", "0", "true"}));
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("node1 (h1) could not be started: "));
  EXPECT_THAT(run.err(), HasSubstr("no such host"));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AHostThatSaysNothingIsGivenUpAndASpareTakesItsPlace) {
  set_host_command("[ $host != h1 ] || sleep 1000");
  LaunchRun run(on("h0,h1,h2", {"--nodes", "2", "--connect-timeout", "1", "echo", "ran"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node2:"));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AHostThatPrintsWithoutEndIsGivenUp) {
  set_host_command("exec yes");
  LaunchRun run(on("h0", {"--max-restarts", "0", "true"}));
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("node0 (h0) could not be started: it prints more than 65536 bytes"));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AHostThatStopsReadingItsAgentIsGivenUp) {
  set_host_command("[ ! -e $HOME/asked ] || exec sleep 1000; touch $HOME/asked");
  LaunchRun run(on("h0", {"--connect-timeout", "1", "--max-restarts", "0", "true"}));
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("node0 (h0) could not be started: cannot copy the agent there in time"));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AnyProgramThatRunsACommandIsAHostShellAndAMissingOneIsNamed) {
  const std::map<std::string, std::string> at_home{{"HOME", scratch_.path().string()}};
  LaunchRun run({"--hosts", "h0,h1", "--exec", "env HOST={host}", "echo", "ran"}, at_home);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:1: ran"));
  LaunchRun missing({"--hosts", "h0", "--exec", "/missing/shell {host}", "true"});
  EXPECT_EQ(missing.exit_code(), 127);
  EXPECT_EQ(missing.err(), "launch: --exec: /missing/shell: not found\n");
}

// A thousand callers, while 64 agents join.
TEST_F(LaunchHosts, StrangersWhoSayNothingKeepNoAgentFromJoining) {
  const std::string gate = scratch_ / "gate";
  // All hosts share one home, so the agent is delivered once.
  set_host_command("export HOME=" + home("all") + "; mkdir -p $HOME; [ $host = h0 ] || while [ ! -e " + gate +
                   " ]; do sleep 0.1; done");
  rlimit descriptors{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  const rlimit more{std::max<rlim_t>(descriptors.rlim_cur, std::min<rlim_t>(descriptors.rlim_max, 2000)),
                    descriptors.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &more), 0);
  LaunchRun run(on("h[0-63]", {"--control", "tcp", "--listen", "127.0.0.1", "--ssh-parallel", "64",
                               "--connect-timeout", "30", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"}));
  ASSERT_TRUE(eventually([&] { return run.agent_of(0) != 0; })) << run.err();
  std::string words = read_file(fmt::format("/proc/{}/cmdline", run.agent_of(0)), 1 << 16).value_or("");
  std::ranges::replace(words, '\0', ' ');
  std::smatch found;
  ASSERT_TRUE(std::regex_search(words, found, std::regex("127\\.0\\.0\\.1:([0-9]+)"))) << words;
  sockaddr_in port{};
  port.sin_family = AF_INET;
  port.sin_port = htons(static_cast<std::uint16_t>(std::stoi(found[1])));
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 1000; ++i) {
    strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&port), sizeof port), 0);
  }
  std::ofstream(gate).put('\n');
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (int rank = 0; rank < 64; ++rank)
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} of 64\n", rank)));
  EXPECT_EQ(run.report()["restarts"], 0);
}

TEST_F(LaunchHosts, AnAgentGoesOverToTlsWhileItsWorkersRunAndNothingIsLost) {
  const std::string gate = scratch_ / "gate";
  LaunchRun run(
      on("h0,h1", {"--control", "tcp", "sh", "-c",
                   "i=0; while [ ! -e " + gate + " ]; do i=$((i+1)); echo n $i; sleep 0.002; done"}));
  ASSERT_TRUE(run.printed("node1:1: n 1\n")) << run.err();
  const auto all_called = [&run] {
    return tcp_connections_of(run.agent_of(0)) == 1 && tcp_connections_of(run.agent_of(1)) == 1;
  };
  EXPECT_TRUE(eventually(all_called)) << run.err();
  const auto line_count = [&run] { return std::ranges::count(run.out(), '\n'); };
  const auto before = line_count();
  EXPECT_TRUE(eventually([&] { return line_count() > before + 200; })) << "they are heard afterwards";
  std::ofstream(gate).put('\n');
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 0);
  std::map<std::string, int> last;
  std::istringstream lines(run.out());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(": n ");
    ASSERT_NE(at, std::string::npos) << line;
    ASSERT_EQ(std::stoi(line.substr(at + 4)), ++last[line.substr(0, at)]) << line;
  }
  EXPECT_EQ(last.size(), 2U);
  for (const auto& [prefix, count] : last) EXPECT_GT(count, 100) << prefix;
}

// A rank's script: in attempt 1 it writes down the pid of `left`, a shell word, and waits; in attempt 2 it
// prints whether rank 1's leftover lives. A zombie has no exe.
std::string rank_that_sees_what_is_left(const std::string& note, const std::string& left) {
  return "[ $MUSTER_ATTEMPT = 2 ] || { setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo " + left + " > " +
         note + ".$RANK; echo started; while :; do sleep 0.1; done; }; readlink /proc/$(cat " + note +
         ".1)/exe && echo beside what was left; true";
}

// A spare takes the lost node's place: a starting agent kills the leftovers of its node's older agents.
TEST_F(LaunchHosts, ASilentAgentsWorkersAreDeadWhenTheNextAttemptStarts) {
  set_host_command("case $* in *'kill -9 '*) sleep 0.6 ;; esac");
  LaunchRun run(on("h[0-2]", {"--nodes", "2", "--max-restarts", "1", "--silence-limit", "1", "--grace", "1",
                              "sh", "-c", rank_that_sees_what_is_left(scratch_ / "pid", "$$")}));
  ASSERT_TRUE(run.printed("node0:0: started\n")) << run.err();
  ASSERT_TRUE(run.printed("node1:1: started\n")) << run.err();
  kill(run.agent_of(1), SIGSTOP);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 1);
  EXPECT_THAT(run.out(), testing::Not(HasSubstr("beside what was left")));
  expect_nothing_left(run);
}

// The second node is lost, with its guardian, while the launcher sweeps the first node's host.
TEST_F(LaunchHosts, WhatASecondLostAgentLeavesIsDeadWhenTheNextAttemptStarts) {
  const std::string asked = scratch_ / "asked";
  set_host_command("case \"$host $*\" in 'h0 '*--sweep*) touch " + asked + "; sleep 0.6 ;; esac");
  LaunchRun run(on("h[0-3]", {"--nodes", "2", "--max-restarts", "1", "--grace", "30", "sh", "-c",
                              "trap '' TERM; " + rank_that_sees_what_is_left(scratch_ / "pid", "$!")}));
  ASSERT_TRUE(run.printed("node0:0: started\n")) << run.err();
  ASSERT_TRUE(run.printed("node1:1: started\n")) << run.err();
  const pid_t second = run.agent_of(1);
  const std::vector<pid_t> all = run.descendants();
  kill(run.agent_of(0), SIGKILL);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(asked); })) << run.err();
  for (const pid_t pid : all) {
    if (getsid(pid) == getsid(second) &&
        read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") == "muster-guardian\n")
      kill(pid, SIGKILL);
  }
  kill(second, SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 1);
  EXPECT_THAT(run.out(), testing::Not(HasSubstr("beside what was left")));
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, CtrlCInTheMiddleOfAStartLeavesNothing) {
  set_host_command("[ $host != h1 ] || sleep 1000");  // the shell's processes end with the shell
  LaunchRun run(on("h0,h1", {"true"}));
  ASSERT_TRUE(eventually([&] { return run.agent_of(0) != 0; }));
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130) << run.err();
  expect_nothing_left(run, 3s);
}

TEST_F(LaunchHosts, TheLaunchersDeathLeavesNothing) {
  LaunchRun run(on("h0,h1", {"--controller-grace", "1", "sh", "-c", "echo started; sleep 1000"}));
  ASSERT_TRUE(run.printed("node1:1: started")) << run.err();
  run.signal(SIGKILL);
  expect_nothing_left(run, 20s);
}

// The cache directory's name is the agent's digest, which is not secret.
TEST_F(LaunchHosts, NoKeyStandsInAnArgvOrAnEnvironment) {
  LaunchRun run(on("h0,h1", {"--control", "tcp", "sh", "-c", "echo started; sleep 1000"}));
  ASSERT_TRUE(run.printed("node1:1: started")) << run.err();
  const auto delivered = delivered_to("h0");
  ASSERT_THAT(delivered, SizeIs(1));
  const std::string digest = delivered[0].filename();
  const std::regex key("[0-9a-f]{64}");
  int looked_at = 0;
  std::vector<pid_t> all = run.descendants();
  all.push_back(run.pid());
  for (const pid_t pid : all) {
    for (const char* file : {"cmdline", "environ"}) {
      std::string text = read_file(fmt::format("/proc/{}/{}", pid, file), 1 << 20).value_or("");
      looked_at += text.empty() ? 0 : 1;
      for (std::size_t at = 0; (at = text.find(digest)) != std::string::npos;) text.erase(at, digest.size());
      EXPECT_FALSE(std::regex_search(text, key)) << text;
    }
  }
  EXPECT_GT(looked_at, 10);
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
}

TEST_F(LaunchHosts, AProgramThatHostsLackIsNamedWithThemInOneLine) {
  LaunchRun run(on("h[0-2]", {"no-such-program-anywhere"}));
  EXPECT_EQ(run.exit_code(), 127) << run.err();
  EXPECT_THAT(run.err(),
              HasSubstr("h[0-2]: cannot find the program 'no-such-program-anywhere' in PATH (install "));
  EXPECT_EQ(run.report()["restarts"], 0);
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, AScriptThatHostsLackIsNamedWithThemInOneLine) {
  for (const char* option : {"-u", "-O"}) {
    const bool is_looked_for = std::string(option) == "-u";
    LaunchRun run(on("h[0-2]", {"python3", option, scratch_ / "nowhere/train.py"}));
    EXPECT_EQ(run.exit_code(), is_looked_for ? 127 : 2) << run.err();
    EXPECT_EQ(run.err().contains("h[0-2]: cannot read the script " + (scratch_ / "nowhere/train.py") +
                                 ": No such file or directory"),
              is_looked_for)
        << run.err();
    expect_nothing_left(run);
  }
}

class LaunchSync : public LaunchHosts {
 protected:
  LaunchSync() {
    std::filesystem::create_directories(scratch_ / "it's a/tree/below");
    std::ofstream(scratch_ / "it's a/tree/below/file") << "text";
  }
  std::string source() const { return scratch_ / "it's a/tree"; }
};

TEST_F(LaunchSync, IsRefusedWithOneLineWhereItCannotBe) {
  LaunchRun none(on("h0", {"--sync", scratch_ / "missing", "true"}));
  EXPECT_EQ(none.exit_code(), 2);
  EXPECT_THAT(none.err(), HasSubstr("--sync: " + (scratch_ / "missing") + " is not a directory here"));
  set_host_command("[ $host != h1 ] || [ \"$1\" != rsync ] || { echo the disk is full >&2; exit 11; }");
  LaunchRun run(on("h[0-2]", {"--sync", source(), "echo", "ran"}));
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("h1: " + source() + " cannot be copied there: the disk is full"));
  EXPECT_EQ(run.out(), "");
  set_host_command("[ \"$1\" != rsync ] || PATH=/nowhere");
  LaunchRun lacking(on("h0", {"--sync", source(), "true"}));
  EXPECT_EQ(lacking.exit_code(), 69) << lacking.err();
  EXPECT_THAT(lacking.err(), HasSubstr("rsync is not found there"));
}

TEST_F(LaunchSync, CtrlCEndsIt) {
  set_host_command("[ \"$1\" != rsync ] || { touch $HOME/asked; exec sleep 1000; }");
  LaunchRun run(on("h0", {"--sync", source(), "true"}));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(home("h0") + "/asked"); })) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130) << run.err();
  expect_nothing_left(run, 3s);
}

TEST_F(LaunchHosts, AreCheckedInOneTable) {
  for (const char* control : {"tcp", "stdio"}) {
    LaunchRun good(with_command(
        "check", on("h0,h1", {"--control", control, "--checkpoint-dir", scratch_ / "new", "true"})));
    EXPECT_EQ(good.exit_code(), 0) << good.err() << good.out();
    EXPECT_THAT(good.out(), testing::ContainsRegex(fmt::format("h1 +{} ", control)));
    EXPECT_THAT(good.out(), HasSubstr("links: 2 of 2 work"));
    EXPECT_FALSE(std::filesystem::exists(scratch_ / "new"));
    expect_nothing_left(good);
  }
}

TEST_F(LaunchHosts, WhatWouldStopAJobStandsBelowTheTableOfAllHosts) {
  set_host_command("[ $host != h1 ] || { echo no such host >&2; exit 7; }");
  LaunchRun run(with_command("check", on("h[0-2]", {"no-such-program-anywhere"})));
  EXPECT_EQ(run.exit_code(), 1) << run.err() << run.out();
  EXPECT_THAT(run.out(), testing::ContainsRegex("h1 +FAIL\n"));
  EXPECT_THAT(run.out(), testing::ContainsRegex("FAIL  h1: .*no such host"));
  EXPECT_THAT(run.out(), HasSubstr("FAIL  h2: cannot find the program 'no-such-program-anywhere' in PATH"));
  LaunchRun json(with_command("check", on("h[0-2]", {"--json", "true"})));
  EXPECT_EQ(json.exit_code(), 1) << json.err();
  const auto document = nlohmann::json::parse(json.out());
  EXPECT_EQ(document["fit"], false);
  EXPECT_EQ(document["hosts"][1]["reached"], false);
  EXPECT_EQ(document["hosts"][2]["links"][0]["works"], true);
  expect_nothing_left(json);
}

// The script runs under each host's own interpreter.
TEST_F(LaunchHosts, AScriptWhosePythonLacksTorchOnAHostIsNamedByTheCheck) {
  const std::string python = scratch_ / "python-fake";
  std::ofstream(python) << "#!/bin/sh\ncase $HOME in *h1) echo torch - -;; *) echo torch 9.8.7 /x;; esac\n";
  std::filesystem::permissions(python, std::filesystem::perms(0755));
  std::ofstream(scratch_ / "train.py") << "import torch\n";
  const auto checked = [&](std::vector<std::string> more) {
    LaunchRun run(with_command("check", on("h0,h1", std::move(more))), {{"PYTHON_EXEC", python}});
    run.exit_code();
    return run.out();
  };
  const std::string table = checked({scratch_ / "train.py"});
  EXPECT_THAT(table, testing::ContainsRegex("h0 +[a-z]+ +[^ ]+ +ok +9.8.7 "));
  EXPECT_THAT(table, HasSubstr("FAIL  h1: " + python + " has no torch, which the script imports\n"));
  EXPECT_THAT(table, Not(HasSubstr("FAIL  h0")));
  const std::string by_name = checked({python, "-u", scratch_ / "train.py"});
  EXPECT_THAT(by_name, HasSubstr("FAIL  h1: " + python + " has no torch"));
  EXPECT_THAT(checked({}), testing::ContainsRegex("h0 +[a-z]+ +[^ ]+ +9.8.7 .*h1 +[a-z]+ +[^ ]+ +- "));
  std::ofstream(scratch_ / "train.py") << "import os\n";
  EXPECT_THAT(checked({scratch_ / "train.py"}), Not(HasSubstr("FAIL")));
}

TEST_F(LaunchHosts, AProgramIsLookedForInThePathThatItsWorkersHave) {
  set_host_command("export PATH=/usr/bin:/bin");
  std::filesystem::create_directories(scratch_ / "bin");
  std::filesystem::create_symlink("/bin/echo", scratch_ / "bin/only-here");
  LaunchRun run(on("h0,h1", {"only-here", "ran"}), {{"PATH", (scratch_ / "bin") + ":/usr/bin:/bin"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:1: ran"));
}

TEST_F(LaunchHosts, AProgramThatOnlyTheHostsHaveIsStarted) {
  const std::string program = scratch_ / "only-there";
  set_host_command("[ -e " + program + " ] || ln -s /bin/true " + program);
  LaunchRun run(on("h0", {program}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

TEST_F(LaunchHosts, NodesOfDifferentSizesAreReplacedByASpareWithRoom) {
  const std::string gone = scratch_ / "gone";
  set_host_command("[ $host != h1 ] || [ ! -e " + gone + " ] || exit 7");
  LaunchRun run(on("h0:1,h1:3,h2:2,h3:4",
                   {"--nodes", "2", "--max-restarts", "3", "sh", "-c",
                    "echo attempt $MUSTER_ATTEMPT rank $RANK of $WORLD_SIZE local $LOCAL_RANK of "
                    "$LOCAL_WORLD_SIZE; [ $MUSTER_ATTEMPT = 2 ] || exec sleep 1000"}));
  ASSERT_TRUE(run.printed("node0:0: attempt 1 rank 0 of 4 local 0 of 1")) << run.err();
  for (const int rank : {1, 2, 3}) {
    ASSERT_TRUE(
        run.printed(fmt::format("node1:{}: attempt 1 rank {} of 4 local {} of 3", rank, rank, rank - 1)))
        << run.err();
  }
  std::ofstream(gone) << "h1";
  kill(run.agent_of(1), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (const int rank : {1, 2, 3}) {
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("node3:{}: attempt 2 rank {} of 4", rank, rank)))
        << run.err();
  }
  expect_nothing_left(run);
}

TEST_F(LaunchHosts, TheLaunchersEnvironmentIsPassedOnAndKeptNowhere) {
  set_host_command("unset NCCL_TUNER_CONFIG");  // like another machine, which lacks the variable
  LaunchRun run(on("h0:1,h1:2", {"sh", "-c", "case $NCCL_TUNER_CONFIG in value*user) ;; *) exit 9; esac"}),
                {{"NCCL_TUNER_CONFIG", "value-of-the-user"}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.job_directory())) {
    if (!entry.is_regular_file()) continue;
    const auto text = read_file(entry.path(), 1 << 20);
    ASSERT_TRUE(text) << text.error().message();
    EXPECT_THAT(*text, testing::Not(HasSubstr("value-of-the-user"))) << entry.path();
    ++read;
  }
  EXPECT_GE(read, 2);
}

// Every host except h0, the launcher's, has another disk at the path of the log directory.
class LaunchHostsLogs : public LaunchHosts {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root mounts another directory there";
    std::filesystem::create_directory(logs());
    set_host_command("mkdir -p " + disk("$host") +
                     "\n[ $host = h0 ] || exec unshare -m sh -c 'mount --bind " + disk("'$host'") + " " +
                     logs() + " && exec \"$@\"' sh \"$@\"");
  }
  std::string logs() const { return scratch_ / "logs"; }
  std::string disk(const std::string& host) const { return (scratch_ / "disk.") + host; }
  // The contents of the host's own file of the only job.
  std::string of_host(const std::string& host, const std::string& file) const {
    for (const auto& job : std::filesystem::directory_iterator(disk(host)))
      return read_file(job.path() / file, 1 << 28).value_or("(none)");
    return "(no job)";
  }
  std::string here(const std::string& file) const {
    for (const auto& job : std::filesystem::directory_iterator(logs()))
      return read_file(job.path() / file, 1 << 28).value_or("(none)");
    return "(no job)";
  }
  std::string printed_by_logs(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"logs", "--log-dir", logs()};
    words.insert(words.end(), more.begin(), more.end());
    LaunchRun run(words);
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    return run.out();
  }
};

TEST_F(LaunchHostsLogs, CompleteLogsOfAllHostsAreAtTheLaunchersSideUnderTheSameNames) {
  LaunchRun run(on("h0,h1:2", {"--log-dir", logs(), "sh", "-c",
                               "echo first; echo mistake >&2; seq 300000; printf 'no newline'"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("launch: node1"))) << "launch does not announce that it copies logs";
  for (const char* rank : {"rank_1", "rank_2"}) {
    for (const char* name : {"stdout.log", "stderr.log", "order.log"}) {
      const std::string file = fmt::format("attempt_1/{}/{}", rank, name);
      EXPECT_NE(here(file), "(none)") << file;
      EXPECT_TRUE(here(file) == of_host("h1", file)) << file;
    }
  }
  EXPECT_EQ(here("attempt_1/rank_1/stdout.log").size(), 1'988'911U);
  EXPECT_FALSE(std::filesystem::exists(disk("h0") + "/attempt_1")) << "it shares the directory";
  const std::string all = printed_by_logs({"--rank", "2"});
  EXPECT_TRUE(all.starts_with("node1:2: first\n")) << all.substr(0, 80);
  EXPECT_TRUE(all.contains("node1:2 stderr: mistake\n"));
  EXPECT_TRUE(all.contains("node1:2: 300000\nnode1:2: no newline\n")) << all.substr(all.size() - 80);
}

TEST_F(LaunchHostsLogs, LogsCanBeFollowedWhileTheJobRunsAndShowWhatALostAgentsRanksPrinted) {
  const std::string gate = scratch_ / "gate";
  LaunchRun run(on("h0,h1", {"--log-dir", logs(), "--max-restarts", "1", "sh", "-c",
                             "echo attempt $MUSTER_ATTEMPT of rank $RANK; while [ ! -e " + gate +
                                 " ]; do sleep 0.05; done; echo at the end"}));
  LaunchRun* const running = &run;
  ASSERT_TRUE(eventually([&] { return here("attempt_1/rank_1/stdout.log") == "attempt 1 of rank 1\n"; }))
      << running->err();
  LaunchRun follow({"logs", "-f", "--log-dir", logs()});
  ASSERT_TRUE(eventually([&] { return follow.out().contains("node1:1: attempt 1 of rank 1\n"); }));
  kill(run.agent_of(1), SIGKILL);
  ASSERT_TRUE(eventually([&] { return follow.out().contains("node1:1: attempt 2 of rank 1\n"); }))
      << run.err() << follow.out();
  std::ofstream(gate).put('\n');
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(follow.exit_code(), 0) << follow.err();
  EXPECT_THAT(follow.out(), HasSubstr("node1:1: at the end\n"));
  EXPECT_THAT(run.err(), Not(HasSubstr("missing here"))) << "the next agent has sent the rest";
  EXPECT_EQ(here("attempt_1/rank_1/stdout.log"), "attempt 1 of rank 1\n");
  expect_nothing_left(run);
}

TEST_F(LaunchHostsLogs, TheLimitOfLogsHoldsOnBothSides) {
  LaunchRun run(
      on("h0,h1", {"--log-dir", logs(), "--log-limit", "256K", "sh", "-c", "seq 300000; seq 300000 >&2"}));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (const std::string& root : {logs(), disk("h1")}) {
    std::uint64_t kept = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(root)) {
      if (file.is_regular_file() && file.path().parent_path().filename() == "rank_1")
        kept += file.file_size();
    }
    EXPECT_GT(kept, 200U << 10) << root;
    EXPECT_LE(kept, 256U << 10) << root;
  }
  EXPECT_THAT(here("attempt_1/rank_1/stderr.log"), testing::EndsWith("299999\n300000\n"));
}

}  // namespace
}  // namespace muster
