#include "launcher/core/fleet/host_script.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/process.h"
#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const AgentPlace kPlace{.path = "", .digest = std::string(64, 'a'), .module = "lib/muster/libmuster_tls.so"};

struct Ran {
  int exit_code = 0;
  std::string out;
};

// Runs shell code with `sh` and this HOME.
Ran run(const std::string& home, const std::string& command) {
  const std::string line = "HOME=" + home + " " + command + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), [](FILE*) { return 0; });
  Ran ran;
  char bytes[4096];
  for (std::size_t got = 0; (got = fread(bytes, 1, sizeof bytes, pipe.get())) > 0;)
    ran.out.append(bytes, got);
  const int status = pclose(pipe.get());
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// Runs the command as ssh passes it to the user's shell on the host.
std::string as_remote_command(const std::string& script) {
  const auto words = host_shell({.bootstrap = BootstrapKind::kSsh}, {.name = "h"}, script);
  return words.back();
}

class HostScript : public testing::Test {
 protected:
  std::string home() const { return scratch_.path().string(); }
  Ran run_script(const std::string& script) const { return run(home(), as_remote_command(script)); }
  // A tar of a program and its module, and their place on a host.
  AgentPlace make_agent(const std::string& text) const {
    const std::filesystem::path made = scratch_.path() / "made";
    std::filesystem::create_directories(made / "bin");
    std::filesystem::create_directories(made / "lib/muster");
    std::ofstream(made / "bin/muster-agent") << "#!/bin/sh\necho " << text << " \"$@\"\n";
    std::filesystem::permissions(made / "bin/muster-agent", std::filesystem::perms::owner_all);
    std::ofstream(made / "lib/muster/libmuster_tls.so") << "module";
    AgentPlace place = kPlace;
    place.digest = run(home(), "cat " + (made / "bin/muster-agent").string() + " " +
                                   (made / "lib/muster/libmuster_tls.so").string() + " | sha256sum")
                       .out.substr(0, 64);
    run(home(), "tar cf " + tar() + " -C " + made.string() + " bin/muster-agent lib/muster/libmuster_tls.so");
    return place;
  }
  std::string tar() const { return scratch_ / "agent.tar"; }
  Ran deliver(const AgentPlace& place) const {
    return run(home(), as_remote_command(delivery_script(place)) + " <" + tar());
  }
  std::filesystem::path cache(const AgentPlace& place) const {
    return scratch_.path() / ".cache/muster/agent" / place.digest;
  }

  ScratchDirectory scratch_;
};

TEST_F(HostScript, AHostWithoutAnAgentReportsItsArchitecture) {
  const Ran ran = run_script(start_script(kPlace, {"--node", "0"}));
  EXPECT_EQ(ran.exit_code, kAgentAbsent);
  EXPECT_THAT(ran.out, StartsWith("muster-agent absent "));
}

TEST_F(HostScript, AnAgentThatWasDeliveredIsExecutedWithItsArguments) {
  const AgentPlace place = make_agent("started");
  const Ran brought = deliver(place);
  ASSERT_EQ(brought.exit_code, 0) << brought.out;
  const Ran ran = run_script(start_script(place, {"--identity", "job/a b/0/1", "[::1]:4711,10.0.0.1:1"}));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "started --identity job/a b/0/1 [::1]:4711,10.0.0.1:1\n");
  EXPECT_EQ(std::filesystem::status(cache(place)).permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache(place).parent_path()), {}), 1);
}

TEST_F(HostScript, ADamagedAgentIsNotExecutedAndReplaced) {
  const AgentPlace place = make_agent("started");
  ASSERT_EQ(deliver(place).exit_code, 0);
  std::ofstream(cache(place) / "bin/muster-agent", std::ios::app) << "# more\n";
  EXPECT_EQ(run_script(start_script(place, {})).exit_code, kAgentAbsent);
  const Ran again = deliver(place);
  ASSERT_EQ(again.exit_code, 0) << again.out;
  EXPECT_EQ(run_script(start_script(place, {})).out, "started\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache(place).parent_path()), {}), 1);
}

TEST_F(HostScript, ADamagedDeliveryIsDiscarded) {
  AgentPlace place = make_agent("started");
  place.digest = std::string(64, 'b');
  EXPECT_NE(deliver(place).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_empty(cache(place).parent_path()));
}

TEST_F(HostScript, SixteenHostsWithOneHomeReceiveTheSameAgentAtOnce) {
  const AgentPlace place = make_agent("started");
  const std::string one = "(" + as_remote_command(delivery_script(place)) + ") <" + tar() + " || echo failed";
  std::string all;
  for (int i = 0; i < 16; ++i) all += "{ " + one + "; } & ";
  EXPECT_EQ(run(home(), "sh -c : ; export HOME=" + home() + "; " + all + "wait").out, "");
  EXPECT_EQ(run_script(start_script(place, {})).out, "started\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache(place).parent_path()), {}), 1);
}

// The user's shell on the host may not be sh.
TEST_F(HostScript, EveryShellReadsTheSame) {
  const AgentPlace place = make_agent("started");
  ASSERT_EQ(deliver(place).exit_code, 0);
  const std::string command = as_remote_command(start_script(place, {"--node", "0"}));
  std::ofstream(scratch_ / "command") << command << "\n";
  int tried = 0;
  for (const char* shell : {"sh", "bash", "dash", "csh", "tcsh", "fish", "zsh", "ksh"}) {
    if (run(home(), std::string("command -v ") + shell).exit_code != 0) continue;
    ++tried;
    const Ran ran = run(home(), fmt::format("{} -c \"$(cat {})\"", shell, scratch_ / "command"));
    EXPECT_EQ(ran.out, "started --node 0\n") << shell;
  }
  EXPECT_GE(tried, 2);
  for (const std::string& script : {start_script(place, {"x"}), delivery_script(place), kill_script(1, 2)}) {
    EXPECT_EQ(script.find_first_of("'\\!\n"), std::string::npos) << script;
  }
}

TEST_F(HostScript, KillsOnlyTheIntendedProcess) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::ifstream stat(fmt::format("/proc/{}/stat", child));
  std::string text;
  std::getline(stat, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  const std::int64_t ticks = std::stoll(words.at(19));
  EXPECT_NE(run_script(kill_script(child, ticks + 1)).exit_code, 0);
  EXPECT_EQ(kill(child, 0), 0);
  EXPECT_EQ(run_script(kill_script(child, ticks)).exit_code, 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(HostShellWords, SshGetsTheUsersWordsAndNeverAHostAsAnOption) {
  const RemoteOptions options{.bootstrap = BootstrapKind::kSsh,
                              .connect_timeout = std::chrono::milliseconds(2500)};
  EXPECT_THAT(host_shell(options, {.name = "::1", .user = "me", .port = 2222}, "true"),
              ElementsAre("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", "-p", "2222", "-l",
                          "me", "--", "::1", "exec sh -c 'true'"));
}

TEST(HostShellWords, ExecGetsTheHostWithinItsWordsAndNoShellHere) {
  const RemoteOptions options{.bootstrap = BootstrapKind::kExec,
                              .exec = {"docker", "exec", "-i", "my-{host}-{host}"}};
  EXPECT_THAT(host_shell(options, {.name = "a b"}, "echo $HOME"),
              ElementsAre("docker", "exec", "-i", "my-a b-a b", "sh", "-c", "echo $HOME"));
}

TEST(HostShellWords, ExecRunsAnInstalledAgentWithoutAShell) {
  RemoteOptions options{.bootstrap = BootstrapKind::kExec, .exec = {"enter", "{host}"}};
  const AgentPlace known{.path = "/opt/a gent", .digest = "", .module = ""};
  EXPECT_THAT(agent_shell(options, {.name = "h1"}, known, {"--node", "1"}),
              ElementsAre("enter", "h1", "/opt/a gent", "--node", "1"));
  const AgentPlace delivered{.path = "", .digest = "d", .module = "m"};
  EXPECT_EQ(agent_shell(options, {.name = "h1"}, delivered, {"--node", "1"}),
            host_shell(options, {.name = "h1"}, start_script(delivered, {"--node", "1"})));
  options.bootstrap = BootstrapKind::kSsh;
  EXPECT_EQ(agent_shell(options, {.name = "h1"}, known, {"--node", "1"}),
            host_shell(options, {.name = "h1"}, start_script(known, {"--node", "1"})));
}

TEST(HostShellWords, RefusesWordsThatAScriptWouldChange) {
  for (const char* word : {"", "it's", "a\\b", "a!", "$HOME", "`id`", "a\"b", "a\nb", "\xc3\xa4"})
    EXPECT_FALSE(fits_script(word)) << word;
  for (const char* word : {"/opt/muster agent", "[::1]:4711", "job/default/0/1"})
    EXPECT_TRUE(fits_script(word)) << word;
}

TEST(AgentGreeting, IsReadFromItsLineOnly) {
  const auto greeting = parse_greeting("muster-agent 1 4711 123456 0.1.0");
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->pid, 4711);
  EXPECT_EQ(greeting->start_ticks, 123456);
  for (const char* line : {"", "Welcome to h1", "muster-agent 2 1 1 0.1.0", "muster-agent 1 0 1 0.1.0",
                           "muster-agent 1 x 1 0.1.0", "muster-agent 1 1 1", "muster-agent absent x86_64"})
    EXPECT_FALSE(parse_greeting(line)) << line;
}

TEST(AgentGreeting, ALeftoverHasItsNameLast) {
  const auto left = parse_leftover("left 4711 1000 1 python3 train.py");
  ASSERT_TRUE(left);
  EXPECT_EQ(left->pid, 4711);
  EXPECT_EQ(left->uid, 1000);
  EXPECT_EQ(left->error, 1);
  EXPECT_EQ(left->name, "python3 train.py");
  for (const char* line : {"swept", "left", "left a 0 0 x", "left 1 0 0"})
    EXPECT_FALSE(parse_leftover(line)) << line;
}

TEST(StartFailure, QuotesSshAndGivesAdvice) {
  const RemoteOptions ssh{.bootstrap = BootstrapKind::kSsh};
  EXPECT_EQ(start_failure(ssh, {.name = "h1"}, "ssh ended with 255", "Host key verification failed."),
            "ssh ended with 255: Host key verification failed. (connect once by hand, `ssh h1`, "
            "and compare the key)");
  EXPECT_THAT(start_failure(ssh, {.name = "h1", .user = "me"}, "x", "me@h1: Permission denied (publickey)."),
              HasSubstr("`ssh me@h1 true` must work without a password"));
  EXPECT_THAT(
      start_failure(ssh, {.name = "h1"}, "x", "agent: /lib/libc.so.6: version `GLIBC_2.36' not found"),
      HasSubstr("its C library is older"));
}

TEST(StartFailure, OnlyAnSshdWithoutFreeConnectionsIsBusy) {
  EXPECT_TRUE(is_busy(255, "kex_exchange_identification: Connection closed by remote host"));
  EXPECT_TRUE(is_busy(255, "Connection reset by 10.0.0.1 port 22"));
  EXPECT_FALSE(is_busy(255, "me@h1: Permission denied (publickey)."));
  EXPECT_FALSE(is_busy(1, "Connection closed by remote host"));
}

TEST(SyncFailure, NamesTheHostQuotesItsShellAndGivesAdvice) {
  const Host host{.name = "h1"};
  // rsync exits with 12 if it sees the connection close first.
  for (const int exit_code : {127, 12}) {
    EXPECT_EQ(
        sync_failure(host, "/work", exit_code,
                     "sh: 1: rsync: not found\nrsync: connection unexpectedly closed\nrsync error: 127\n")
            .text,
        "h1: /work cannot be copied there: rsync is not found there "
        "(install it, or use a directory that all hosts share)");
  }
  const SyncFailure failure = sync_failure(
      host, "/work", 23, "rsync: [receiver] mkdir \"/work\" failed: Read-only\nrsync error: some\n");
  EXPECT_EQ(failure.text,
            "h1: /work cannot be copied there: rsync: [receiver] mkdir \"/work\" failed: Read-only "
            "(--exclude h1 skips this host)");
  EXPECT_FALSE(failure.is_busy);
  EXPECT_TRUE(
      sync_failure(host, "/work", 12,
                   "kex_exchange_identification: Connection closed by remote host\nConnection closed by "
                   "10.0.0.1 port 22\nrsync: connection unexpectedly closed\n")
          .is_busy);
}

}  // namespace
}  // namespace muster::launcher
