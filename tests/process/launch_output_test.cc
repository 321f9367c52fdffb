// The real launcher and the workers' output, when a process dies or stops, or a disk is full.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <regex>
#include <sstream>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/run_facts.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// VmHWM of /proc/PID/status: the process's peak memory, in MiB.
long peak_mib(pid_t pid) {
  const std::string status = read_file(fmt::format("/proc/{}/status", pid), 1 << 16).value_or("");
  const std::size_t at = status.find("VmHWM:");
  return at == std::string::npos ? 0 : std::atol(status.c_str() + at + 6) / 1024;
}

TEST(LaunchOutput, IsInTheFilesButForTheLastMomentWhenTheAgentIsKilled) {
  LaunchRun run({"--max-restarts", "0", "sh", "-c", "i=0; while :; do echo $i; i=$((i+1)); done"});
  ASSERT_TRUE(run.printed("node0:0: 5000\n"));
  kill(run.agents().at(0), SIGKILL);
  EXPECT_EQ(run.exit_code(), 69);
  const std::string file =
      read_file(run.job_directory() + "/attempt_1/rank_0/stdout.log", 1 << 30).value_or("");
  std::vector<std::string> kept = lines_of(file);
  if (!file.ends_with('\n')) kept.pop_back();
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], std::to_string(i));
  const auto shown = std::ranges::count_if(
      lines_of(run.out()), [](const std::string& line) { return line.starts_with("node0:0: "); });
  constexpr std::size_t kMoment = 200'000;  // lines: more than the agent's queue for a file can hold
  EXPECT_GE(kept.size() + kMoment, static_cast<std::size_t>(shown));
}

TEST(LaunchOutput, DoesNotHoldUpWorkersWhoseLauncherIsStopped) {
  constexpr int kLines = 500'000;  // of 100 bytes
  const ScratchDirectory scratch;
  LaunchRun run({"--output-stall", "0.5", "--gpus-per-node", "2", "sh", "-c",
                 "echo ready; while ! [ -e " + scratch / "go" + " ]; do sleep 0.01; done; " +
                     fmt::format("yes {} | head -n {}; ", std::string(99, 'x'), kLines) + ": > " +
                     scratch / "done" + "$RANK"},
                {{"ASAN_OPTIONS", "quarantine_size_mb=16"}});  // so that ASan does not keep freed memory
  for (const int rank : {0, 1}) ASSERT_TRUE(run.printed(fmt::format("node0:{}: ready\n", rank)));
  const pid_t agent = run.agents().at(0);
  run.signal(SIGSTOP);
  std::ofstream(scratch / "go").put('\n');
  const auto all_done = [&scratch] {
    return std::filesystem::exists(scratch / "done0") && std::filesystem::exists(scratch / "done1");
  };
  EXPECT_TRUE(eventually(all_done, std::chrono::seconds(60)));
  EXPECT_LT(peak_mib(agent), 256);
  run.signal(SIGCONT);
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_THAT(run.out(), HasSubstr("lines are left out here; the log files have them"));
  for (const int rank : {0, 1}) {
    const std::string file = fmt::format("{}/attempt_1/rank_{}/stdout.log", run.job_directory(), rank);
    EXPECT_EQ(std::filesystem::file_size(file), sizeof "ready" + std::size_t{kLines} * 100) << rank;
  }
}

// Runs a shell script; `$LAUNCH` is the launcher with logs in the run's own directory.
LaunchRun shell_run(const std::string& script) {
  return LaunchRun({"-c", script}, {{"LAUNCH", LAUNCH_PROGRAM}}, "/bin/sh");
}

constexpr const char* kManyLines = "--quiet --gpus-per-node 4 sh -c 'yes $(printf %099d 7) | head -n 400000'";
constexpr int kManyLinesCount = 1'600'000;

TEST(LaunchOutput, APipeLosesNoLineThoughItsReaderIsSlow) {
  LaunchRun run = shell_run(fmt::format("$LAUNCH {} | (sleep 2; grep -c ' 0*7$')", kManyLines));
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.out(), fmt::format("{}\n", kManyLinesCount)) << run.err();
}

TEST(LaunchOutput, StdoutThatCannotBeWrittenIsSaidOnceAndTheJobGoesOn) {
  LaunchRun full = shell_run("$LAUNCH --gpus-per-node 2 seq 9 > /dev/full");
  EXPECT_EQ(full.exit_code(), 0);
  EXPECT_EQ(count_in(full.err(), "stdout cannot be written: No space left on device; the job goes on"), 1)
      << full.err();
  EXPECT_THAT(full.err(), HasSubstr("2 ranks succeeded"));
  LaunchRun left = shell_run("$LAUNCH --gpus-per-node 2 sh -c 'seq 100000; sleep 0.5; seq 9' | head -1");
  EXPECT_EQ(left.exit_code(), 0);
  EXPECT_EQ(count_in(left.err(), "nobody reads stdout any more; the job goes on"), 1) << left.err();
  LaunchRun help = shell_run("$LAUNCH --help > /dev/full");
  EXPECT_EQ(help.exit_code(), 125);
  EXPECT_EQ(help.err(), "launch: cannot write stdout: No space left on device\n");
}

TEST(LaunchOutput, APipeLosesNoLineThoughItsReaderIsStoppedForAWhile) {
  LaunchRun run = shell_run(fmt::format(
      "$LAUNCH {} | (exec 3<&0; sh -c 'kill -STOP $$; exec grep -c \" 0*7\\$\"' <&3 & sleep 3; kill -CONT $!; wait $!)",
      kManyLines));
  EXPECT_EQ(run.exit_code(), 0);
  EXPECT_EQ(run.out(), fmt::format("{}\n", kManyLinesCount)) << run.err();
}

TEST(LaunchOutput, AReaderThatNeverReadsHoldsUpTheJobForTheStallAndLinesAreCounted) {
  const ScratchDirectory scratch;
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  const UniqueFd reader(open((scratch / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  LaunchRun run =
      shell_run(fmt::format("exec $LAUNCH --output-stall 1 {} > {}", kManyLines, scratch / "pipe"));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  // The pipe contains the lines that were taken.
  std::string taken(std::size_t{1} << 20, '\0');
  const ssize_t got = read(reader.get(), taken.data(), taken.size());
  ASSERT_GT(got, 0);
  const auto whole = std::count(taken.begin(), taken.begin() + got, '\n');
  EXPECT_THAT(run.err(), HasSubstr(fmt::format(
                             "launch: the reader of stdout did not take {} lines; the log files have them",
                             kManyLinesCount - whole)));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string file = fmt::format("{}/attempt_1/rank_{}/stdout.log", run.job_directory(), rank);
    EXPECT_EQ(std::filesystem::file_size(file), 400'000U * 100) << rank;
  }
}

TEST(LaunchOutput, AnInterruptEndsTheWaitForAReaderThatNeverReads) {
  const ScratchDirectory scratch;
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  const UniqueFd reader(open((scratch / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  LaunchRun run = shell_run(fmt::format(
      "exec $LAUNCH --output-stall 3600 --gpus-per-node 2 sh -c 'seq 1000000' > {}", scratch / "pipe"));
  ASSERT_TRUE(eventually([&] { return !run.agents().empty(); }));
  ASSERT_TRUE(eventually([&reader] {
    int waiting = 0;
    return ioctl(reader.get(), FIONREAD, &waiting) == 0 && waiting >= 4096;
  }));
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130) << run.err();
}

// The first attempt creates a pipe without a reader at the path of the second one's log file.
TEST(LaunchOutput, ALogFileThatBlocksKillsNoTraining) {
  const ScratchDirectory scratch;
  LaunchRun run(
      {"--log-dir", scratch / "logs", "--silence-limit", "2", "--output-stall", "3", "--restart-delay", "0",
       "--gpus-per-node", "2", "sh", "-c",
       fmt::format("[ $TORCHELASTIC_RESTART_COUNT = 1 ] || {{ [ $RANK = 0 ] || sleep 1000; cd {}/*/; "
                   "mkdir -p attempt_2/rank_0; mkfifo attempt_2/rank_0/stdout.log; exit 3; }}; "
                   "for step in $(seq 60); do echo step $step; sleep 0.1; done; echo rank $RANK is done",
                   scratch / "logs")});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("attempt 2 begins; no Muster checkpoint (restart 1 of 3)"));
  EXPECT_THAT(run.err(), Not(HasSubstr("silent")));
  for (const int rank : {0, 1}) EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} is done\n", rank)));
  EXPECT_THAT(run.err(),
              ContainsRegex(
                  "lines were not written to the log files of attempt 2 in time.* bytes are still waiting"));
}

// Blocks all writes below its directory, from freeze() on.
class Disk {
 public:
  explicit Disk(const std::string& directory)
      : root_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Disk() { thaw(); }
  bool freeze() { return ioctl(root_.get(), FIFREEZE, 0) == 0; }
  void thaw() { ioctl(root_.get(), FITHAW, 0); }

 private:
  UniqueFd root_;
};

// The launcher's own files are on this disk too.
TEST(LaunchOutput, ADiskThatHangsKillsNoTraining) {
  const ScratchDirectory scratch;
  const std::string mount = fmt::format("mount -o loop {} {}", scratch / "image", scratch / "logs");
  if (std::system(
          fmt::format(
              "(mkdir {1} && truncate -s 100M {0} && mkfs.ext4 -q {0} && unshare --mount {2}) 2>/dev/null",
              scratch / "image", scratch / "logs", mount)
              .c_str()) != 0)
    GTEST_SKIP() << "a file cannot be mounted as a disk here";
  LaunchRun run(
      {"--mount", "sh", "-c",
       fmt::format("{} && exec {} --log-dir {} --silence-limit 2 --output-stall 1 --gpus-per-node 2 sh -c "
                   "'line=$(printf %01000d 0); for step in $(seq 50); do echo step $step; "
                   "yes $line | head -n 170; sleep 0.1; done; "
                   "echo rank $RANK is done'",
                   mount, LAUNCH_PROGRAM, scratch / "logs")},
      {}, "/usr/bin/unshare");
  ASSERT_TRUE(run.printed("node0:0: step 3\n"));
  Disk disk(fmt::format("/proc/{}/root{}", run.pid(), scratch / "logs"));
  ASSERT_TRUE(disk.freeze());
  for (const int rank : {0, 1}) EXPECT_TRUE(run.printed(fmt::format("rank {} is done\n", rank)));
  EXPECT_THAT(run.err(), HasSubstr("cannot keep up with the output"));
  disk.thaw();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), Not(HasSubstr("silent")));
  EXPECT_THAT(run.err(), Not(HasSubstr("restart")));
}

// A file system of the test, in its own mount namespace.
TEST(LaunchOutput, AFullDiskLosesLogsAndNothingElse) {
  const ScratchDirectory scratch;
  if (std::system("unshare --user --map-root-user --mount true 2>/dev/null") != 0)
    GTEST_SKIP() << "user and mount namespaces are not allowed here";
  LaunchRun run(
      {"--user", "--map-root-user", "--mount", "sh", "-c",
       fmt::format("mount -t tmpfs -o size=1m none {} && exec {} --log-dir {} --gpus-per-node 2 sh -c "
                   "'seq 1 200000; echo end of $RANK'",
                   scratch.path().string(), LAUNCH_PROGRAM, scratch.path().string())},
      {}, "/usr/bin/unshare");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(run.printed(fmt::format("node0:{}: end of {}\n", rank, rank)));
    EXPECT_TRUE(run.printed(fmt::format("node0:{}: 200000\n", rank)));
  }
  EXPECT_THAT(run.err(),
              HasSubstr("stdout.log: No space left on device; later output to this file may be lost"));
  EXPECT_THAT(run.err(), ContainsRegex("launch: cannot .*/report.json.*: No space left on device"));
}

// launch on a terminal, as a user sees it.
LaunchRun on_a_terminal(const std::string& command) {
  return LaunchRun({"-qec", "env -u NO_COLOR " + command, "/dev/null"}, {}, "/usr/bin/script");
}

// The number of ranks in a folded line's prefix: "0-2,5" is 4.
int ranks_in(const std::string& ranges) {
  int count = 0;
  std::istringstream pieces(ranges);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    const std::size_t dash = piece.find('-');
    count += dash == std::string::npos ? 1 : std::stoi(piece.substr(dash + 1)) - std::stoi(piece) + 1;
  }
  return count;
}

TEST(LaunchOutput, ShowsOnATerminalWhatSeveralRanksSayOnceWithAllTheirNumbers) {
  LaunchRun run = on_a_terminal(LAUNCH_PROGRAM
                                " --quiet --gpus-per-node 4 sh -c "
                                "'for i in $(seq 50); do echo same; sleep 0.02; done; echo rank $RANK'");
  ASSERT_EQ(run.exit_code(), 0);
  int said = 0;
  int shown = 0;
  const std::string out = run.out();
  const std::regex line("node0:([0-9,-]+):\x1b\\[0m same\r\n");
  for (std::sregex_iterator each(out.begin(), out.end(), line), end; each != end; ++each) {
    said += ranks_in((*each)[1]);
    ++shown;
  }
  EXPECT_EQ(said, 200);
  EXPECT_LT(shown, 200);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(out, HasSubstr(fmt::format("node0:{0}:\x1b[0m rank {0}\r\n", rank)));
}

TEST(LaunchOutput, EndsColoursWithTheirLineOnATerminalAndKeepsEveryByteInFilesAndPipes) {
  const std::string program = R"(printf '\033[31mred\033[2J\n')";
  LaunchRun seen = on_a_terminal(LAUNCH_PROGRAM " --quiet sh -c \"" + program + "\"");
  ASSERT_EQ(seen.exit_code(), 0);
  EXPECT_THAT(seen.out(), EndsWith(" \x1b[31mred\x1b[0m\r\n"));
  LaunchRun piped({"--quiet", "sh", "-c", program});
  ASSERT_EQ(piped.exit_code(), 0);
  EXPECT_EQ(piped.out(), "node0:0: \x1b[31mred\x1b[2J\n");
  for (const LaunchRun* run : {&seen, &piped}) {
    EXPECT_EQ(read_file(run->job_directory() + "/attempt_1/rank_0/stdout.log", 99).value_or(""),
              "\x1b[31mred\x1b[2J\n");
  }
}

TEST(LaunchOutput, FoldsInAPipeOnlyWhenAskedTo) {
  const std::vector<std::string> program = {
      "--quiet", "--gpus-per-node", "2", "sh", "-c", "for i in $(seq 50); do echo same; sleep 0.02; done"};
  LaunchRun plain(program);
  std::vector<std::string> folding = program;
  folding.insert(folding.begin(), "--fold");
  LaunchRun folded(folding);
  ASSERT_EQ(plain.exit_code(), 0);
  ASSERT_EQ(folded.exit_code(), 0);
  const std::string all = plain.out();
  EXPECT_EQ(std::ranges::count(all, '\n'), 100);
  EXPECT_THAT(all, Not(HasSubstr("0-1")));
  EXPECT_THAT(folded.out(), HasSubstr("node0:0-1: same\n"));
}

}  // namespace
}  // namespace muster
