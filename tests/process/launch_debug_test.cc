// The real launcher: input for one rank, and wrappers for some ranks, on this machine and over host shells.
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "launcher/core/text/words.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Runs launch with these flags; `input` is a shell redirection such as "< FILE".
std::vector<std::string> shell_line(const std::vector<std::string>& flags, const std::string& redirection,
                                    const std::string& before = "exec ") {
  std::string line = before + LAUNCH_PROGRAM;
  for (const std::string& flag : flags) line += " " + launcher::as_shell_word(flag);
  return {"-c", line + " " + redirection};
}

// The ways to start agents and to talk to them.
class LaunchStdin : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  std::vector<std::string> flags(std::vector<std::string> more) const {
    std::vector<std::string> all = GetParam();
    // Input that a rank has read is gone in the next attempt: a machine that stands still for 10 s must not
    // count as a lost node here.
    all.insert(all.end(), {"--silence-limit", "60"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string scratch(const std::string& name) const { return scratch_ / name; }

  ScratchDirectory scratch_;
};

TEST_P(LaunchStdin, ComesByteForByteToOneRankAndEnds) {
  std::string bytes(3'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761U) >> 13);
  std::ofstream(scratch("input"), std::ios::binary) << bytes;
  const std::string copy = scratch("copy");
  LaunchRun run(
      shell_line(flags({"--stdin", "1", "sh", "-c",
                        "if [ $RANK = 1 ]; then cat > " + copy + "; else readlink /proc/self/fd/0; fi"}),
                 "< " + scratch("input")),
      {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_TRUE(read_file(copy, 1 << 24).value_or("") == bytes) << "it differs\n" << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:0: /dev/null\n"));
  expect_nothing_left(run);
}

TEST_P(LaunchStdin, ARestartGoesOnWithWhatTheRankHasNotRead) {
  std::ofstream lines(scratch("lines"));
  for (int i = 1; i <= 40'000; ++i) lines << i << "\n";
  lines.close();
  LaunchRun run(
      shell_line(flags({"--stdin", "1", "sh", "-c",
                        "[ $RANK = 1 ] || exec sleep 0$((2 - $MUSTER_ATTEMPT))00\n"
                        "if [ $MUSTER_ATTEMPT = 1 ]; then read a; read b; echo read $a $b; kill -9 $$; "
                        "fi; read c; echo then $c; echo last $(tail -n 1)"}),
                 "< " + scratch("lines")),
      {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:1: read 1 2\n"));
  EXPECT_THAT(run.out(), HasSubstr("node1:1: then 3\n"));
  EXPECT_THAT(run.out(), HasSubstr("node1:1: last 40000\n"));
}

TEST_P(LaunchStdin, IsNotReadAheadOfARankThatDoesNotRead) {
  const std::string fifo = scratch("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  LaunchRun run(shell_line(flags({"--stdin", "0", "sh", "-c", "echo here; exec sleep 1000"}), "< " + fifo),
                {}, "/bin/sh");
  const UniqueFd writing(open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
  fcntl(writing.get(), F_SETFL, O_NONBLOCK);
  ASSERT_TRUE(run.printed("here")) << run.err();
  const std::string piece(4096, 'x');
  std::size_t written = 0;
  // The capacity of the FIFO, the launcher, the agent and the rank's pipe together.
  constexpr std::size_t kMost = (64 << 10) + (128 << 10);
  const auto passed_on = [&] {
    while (write(writing.get(), piece.data(), piece.size()) > 0) written += piece.size();
    return written > kMost;
  };
  EXPECT_FALSE(eventually(passed_on, std::chrono::seconds(1))) << written;
  EXPECT_GT(written, std::size_t{100} << 10) << "it was read as long as there was room";
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
}

const std::vector<std::string> kHosts = {"--hosts", "h0,h1", "--exec", "env HOST={host}"};
std::vector<std::string> over(const char* control) {
  std::vector<std::string> flags = kHosts;
  flags.insert(flags.end(), {"--control", control});
  return flags;
}
std::string name_of_way(const testing::TestParamInfo<std::vector<std::string>>& way) {
  constexpr const char* kNames[] = {"here", "here_tcp", "hosts_tcp", "hosts_stdio"};
  return kNames[way.index];
}
INSTANTIATE_TEST_SUITE_P(All, LaunchStdin,
                         testing::Values(std::vector<std::string>{"--nodes", "2"},
                                         std::vector<std::string>{"--nodes", "2", "--control", "tcp"},
                                         over("tcp"), over("stdio")),
                         name_of_way);

TEST(LaunchDebug, AnInteractivePythonReadsItsProgramFromThePipe) {
  LaunchRun run(shell_line({"--stdin", "0", "--nproc-per-node", "2", "python3", "-"}, "",
                           "echo 'import os; print(\"rank\", os.environ[\"RANK\"])' | "),
                {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.out(), "node0:0: rank 0\n") << "rank 1 has nothing to read";
}

TEST(LaunchDebug, ARankThatReadsNoMoreHoldsNobodyUp) {
  LaunchRun run(shell_line({"--stdin", "0", "head", "-n", "1"}, "", "yes | "), {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.out(), "node0:0: y\n");
}

TEST(LaunchDebug, Rank0ReadsAPipeAndARestartSaysWhatIsGone) {
  LaunchRun run(shell_line({"--nproc-per-node", "2", "--max-restarts", "1", "sh", "-c",
                            "read line; echo got $line; [ $RANK$MUSTER_ATTEMPT != 01 ]"},
                           "", "printf 'yes\\nagain\\n' | "),
                {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("node0:0: got yes\n"), HasSubstr("node0:0: got again\n"),
                               HasSubstr("node0:1: got\n")));
  EXPECT_THAT(run.err(),
              HasSubstr("rank 0 goes on reading stdin after 4 bytes that an earlier attempt has read"));
}

TEST(LaunchDebug, ARankThatMissesItsInputIsToldHowToGetIt) {
  LaunchRun run(
      shell_line({"--stdin", "none", "--max-restarts", "0", "python3", "-c", "input()"}, "", "echo y | "), {},
      "/bin/sh");
  EXPECT_EQ(run.exit_code(), 1) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("EOFError"), HasSubstr("--stdin 0 gives launch's to rank 0")));
}

TEST(LaunchDebug, TheLoopOfAShellGoesOnWithItsFileAfterRanksThatReadNothing) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "list") << "one\ntwo\n";
  LaunchRun run({"-c", "while read word; do echo round $word; " LAUNCH_PROGRAM " --quiet true; done < " +
                           (scratch / "list")},
                {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.out(), "round one\nround two\n");
}

TEST(LaunchDebug, APipeThatStaysOpenDoesNotDelayTheEnd) {
  const ScratchDirectory scratch;
  const std::string fifo = scratch / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd held(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  LaunchRun run(shell_line({"true"}, "< " + fifo), {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

// Text typed while the launcher is in the background stays for later.
TEST(LaunchDebug, ATerminalDoesNotStopALauncherInTheBackground) {
  if (system("command -v script bash > /dev/null") != 0) GTEST_SKIP() << "no script";
  const ScratchDirectory scratch;
  std::ofstream(scratch / "session") << LAUNCH_PROGRAM
                                     << " --quiet --stdin 0 sh -c 'echo begun; read line; echo got $line' &\n"
                                     << "sleep 1; echo running $(jobs -r | wc -l); fg > /dev/null\n";
  LaunchRun run(
      {"-c", fmt::format("(echo typed; sleep 3) | script -qec 'bash -m {}' /dev/null", scratch / "session")},
      {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("running 1"));
  EXPECT_THAT(run.out(), HasSubstr("got typed"));
}

TEST(LaunchDebug, AWrapperStandsBeforeTheProgramOfItsRanks) {
  LaunchRun run({"--nodes", "2", "--wrap", "all:env A=a", "--wrap", "1:sh -c 'echo wrapped; exec \"$@\"' sh",
                 "sh", "-c", "echo $A of $RANK"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:0: a of 0\n"));
  EXPECT_THAT(run.out(), HasSubstr("node1:1: wrapped\n"));  // node 0's line may come between
  EXPECT_THAT(run.out(), HasSubstr("node1:1: a of 1\n"));
  EXPECT_THAT(run.out(), Not(HasSubstr("node0:0: wrapped")));
}

TEST(LaunchDebug, AWrapperThatIsNotThereIsNamedWithItsRankAndHostAndNothingIsStarted) {
  std::vector<std::string> words = kHosts;
  words.insert(words.end(), {"--wrap", "1:no-such-debugger --args", "sh", "-c", "echo started"});
  LaunchRun run(words);
  EXPECT_EQ(run.exit_code(), 127);
  EXPECT_THAT(run.err(), testing::AnyOf(HasSubstr("h1"), HasSubstr("node1")));
  EXPECT_THAT(
      run.err(),
      HasSubstr("the wrapper of rank 1 (--wrap): cannot find the program 'no-such-debugger' in PATH"));
  EXPECT_THAT(run.out(), Not(HasSubstr("started")));
}

TEST(LaunchDebug, ADebuggerIsSpokenToThroughStdin) {
  if (system("command -v gdb > /dev/null") != 0) GTEST_SKIP() << "no gdb";
  LaunchRun run(
      shell_line({"--wrap", "1:gdb -q --args", "--stdin", "1", "--nodes", "2", "sh", "-c", "exit 0"}, "",
                 "printf 'print 6 * 7\\nrun\\nquit\\n' | "),
      {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("$1 = 42"));
  EXPECT_THAT(run.out(), HasSubstr("exited normally"));
}

}  // namespace
}  // namespace muster
