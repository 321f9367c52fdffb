// `launch logs` on real jobs: choosing lines, following them, and losing none.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "tests/process/agent_test_launcher.h"
#include "tests/process/job_commands.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

class LaunchLogs : public JobCommands {
 protected:
  std::string shown(const Words& flags) const {
    Words words{"logs"};
    words.insert(words.end(), flags.begin(), flags.end());
    LaunchRun run(words, environment());
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    return run.out();
  }
  // Four ranks on two nodes have written to both streams.
  void run_four() const {
    LaunchRun job(started(
        {"--nodes", "2", "--gpus-per-node", "2", "sh", "-c", "echo loss 0.$RANK; echo bad $RANK >&2"}));
    EXPECT_EQ(job.exit_code(), 0) << job.err();
  }
  void touch(const std::string& name) const { std::ofstream(scratch / name) << ""; }
};

TEST_F(LaunchLogs, PrintWhatEveryRankWroteWithNodeAndRank) {
  run_four();
  EXPECT_EQ(shown({}),
            "node0:0: loss 0.0\nnode0:0 stderr: bad 0\nnode0:1: loss 0.1\nnode0:1 stderr: bad 1\n"
            "node1:2: loss 0.2\nnode1:2 stderr: bad 2\nnode1:3: loss 0.3\nnode1:3 stderr: bad 3\n");
}

TEST_F(LaunchLogs, SayThatThereIsNothing) {
  LaunchRun job(started({"--gpus-per-node", "2", "sh", "-c", "[ $RANK = 1 ] || echo loss"}));
  EXPECT_EQ(job.exit_code(), 0) << job.err();
  const auto told = [this](Words flags) {
    flags.insert(flags.begin(), "logs");
    LaunchRun run(flags, environment());
    EXPECT_EQ(run.exit_code(), 0);
    EXPECT_EQ(run.out(), "");
    return run.err();
  };
  EXPECT_THAT(told({"--rank", "1", "--tail", "5"}), testing::EndsWith(" has no lines for --rank 1\n"));
  EXPECT_THAT(told({"--grep", "gain"}), testing::EndsWith(" has no lines for --grep gain\n"));
  EXPECT_THAT(told({"--tail", "0"}), testing::MatchesRegex("launch: job [^ \n]+\n"));
}

// A rank may print before the launcher has written that its node's workers have started.
TEST_F(LaunchLogs, KnowTheNodeOfARankWhoseStartIsNotWrittenYet) {
  run_four();
  const std::string events = std::filesystem::directory_iterator(logs)->path() / "events.jsonl";
  std::string known;
  std::ifstream all(events);
  for (std::string line; std::getline(all, line);) {
    if (!line.contains("workers_started") || nlohmann::json::parse(line).at("node") == 0)
      known += line + '\n';
  }
  ASSERT_THAT(known, HasSubstr("workers_started"));
  std::ofstream(events) << known;
  EXPECT_EQ(shown({"--grep", "loss"}),
            "node0:0: loss 0.0\nnode0:1: loss 0.1\nnode1:2: loss 0.2\nnode1:3: loss 0.3\n");
}

TEST_F(LaunchLogs, ChooseByRankNodeAndPattern) {
  run_four();
  EXPECT_EQ(shown({"--rank", "0,2-3", "--grep", "^loss"}),
            "node0:0: loss 0.0\nnode1:2: loss 0.2\nnode1:3: loss 0.3\n");
  EXPECT_EQ(shown({"--node", "1", "--grep", "bad [23]"}), "node1:2 stderr: bad 2\nnode1:3 stderr: bad 3\n");
  const auto line = nlohmann::json::parse(shown({"--rank", "3", "--grep", "loss", "--json"}));
  EXPECT_EQ(line, (nlohmann::json{
                      {"attempt", 1}, {"node", 1}, {"rank", 3}, {"stream", "stdout"}, {"text", "loss 0.3"}}));
}

// Writes each line after the previous one has been shown.
TEST_F(LaunchLogs, AreInTheOrderInWhichTheyWereWrittenWithStreamsAndAttemptsMarked) {
  const std::string script = fmt::format(
      "go() {{ while [ ! -e {0}/go$1 ]; do sleep 0.02; done; }}; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && echo again && exit 0; "
      "echo out1; go 1; echo err1 >&2; go 2; echo out2; go 3; echo err2 >&2; printf unfinished; exit 3",
      scratch.path().string());
  LaunchRun job(started({"--max-restarts", "1", "sh", "-c", script}));
  const char* before[] = {"out1", "err1", "out2"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(job.printed(before[i])) << job.err();
    touch(fmt::format("go{}", i + 1));
  }
  EXPECT_EQ(job.exit_code(), 0) << job.err();
  const std::string first =
      "---- attempt 1 ----\nnode0:0: out1\nnode0:0 stderr: err1\nnode0:0: out2\nnode0:0 stderr: err2\n"
      "node0:0: unfinished\n";
  const std::string second = "---- attempt 2 ----\nnode0:0: again\n";
  EXPECT_EQ(shown({}), first + second);
  EXPECT_EQ(shown({"-f"}), first + second);
  EXPECT_EQ(shown({"--tail", "2"}), "---- attempt 1 ----\nnode0:0: unfinished\n" + second);
  EXPECT_EQ(shown({"--attempt", "2"}), "node0:0: again\n");
  EXPECT_EQ(shown({"--previous"}), shown({"--attempt", "1"}));
  EXPECT_THAT(shown({"--previous"}), AllOf(HasSubstr("---- attempt 1 ----\n"), Not(HasSubstr("again"))));
}

TEST_F(LaunchLogs, HaveTheLastLinesOfEachRank) {
  LaunchRun job(started({"--gpus-per-node", "2", "sh", "-c", "seq 1 9; echo end $RANK >&2"}));
  ASSERT_EQ(job.exit_code(), 0);
  EXPECT_EQ(shown({"--tail", "2"}), "node0:0: 9\nnode0:0 stderr: end 0\nnode0:1: 9\nnode0:1 stderr: end 1\n");
  EXPECT_EQ(shown({"--tail", "1", "--grep", "^[0-5]", "--rank", "1"}), "node0:1: 5\n");
  EXPECT_EQ(shown({"--tail", "0"}), "");
}

// Alternating output that is longer than one read: each stream shows all its lines in order.
TEST_F(LaunchLogs, HaveAllLinesOfTwoStreamsThatTakeTurns) {
  LaunchRun job(
      started({"--quiet", "--redirects", "3", "sh", "-c",
               "seq 100000 199999; seq 200000 299999 >&2; seq 300000 399999; seq 400000 499999 >&2"}));
  ASSERT_EQ(job.exit_code(), 0);
  std::istringstream out(shown({}));
  std::map<std::string, int> last = {{"node0:0:", 0}, {"node0:0 stderr:", 0}};
  int count = 0;
  for (std::string line; std::getline(out, line); ++count) {
    const std::size_t number = line.rfind(' ') + 1;
    int& previous = last.at(line.substr(0, number - 1));
    ASSERT_LT(previous, std::stoi(line.substr(number)));
    previous = std::stoi(line.substr(number));
  }
  EXPECT_EQ(count, 400'000);
}

TEST_F(LaunchLogs, ChooseByTheTimesThatLinesBeginWith) {
  LaunchRun job(started(
      {"sh", "-c", "echo 2020-01-01 00:00:00 old; echo more of it; date -u +%FT%TZ; echo and after"}));
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_THAT(shown({"--since", "10m"}), Not(HasSubstr("old")));
  EXPECT_THAT(shown({"--since", "10m"}), Not(HasSubstr("more of it")));
  EXPECT_THAT(shown({"--since", "10m"}), HasSubstr("and after"));
  EXPECT_THAT(shown({"--since", "2019-12-31"}), HasSubstr("more of it"));
  EXPECT_EQ(shown({"--since", "2090-01-01"}), "");
}

// The worker waits for a signal file between its two lines.
TEST_F(LaunchLogs, FollowAJobOverItsRestartUntilItEnds) {
  const std::string script = fmt::format(
      "echo begins $TORCHELASTIC_RESTART_COUNT; while [ ! -e {0}/go$TORCHELASTIC_RESTART_COUNT ]; do sleep "
      "0.02; done; "
      "printf 'says %s' $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3",
      scratch.path().string());
  LaunchRun job(started({"--gpus-per-node", "2", "--max-restarts", "1", "sh", "-c", script}));
  ASSERT_TRUE(job.printed("node0:0: begins 0") && job.printed("node0:1: begins 0")) << job.err();
  LaunchRun follower({"logs", "-f"}, environment());
  ASSERT_TRUE(follower.printed("node0:0: begins 0") && follower.printed("node0:1: begins 0"));
  touch("go0");
  ASSERT_TRUE(follower.printed("node0:0: begins 1") && follower.printed("node0:1: begins 1")) << job.err();
  touch("go1");
  EXPECT_EQ(job.exit_code(), 0) << job.err();
  EXPECT_EQ(follower.exit_code(), 0) << follower.err();
  EXPECT_THAT(follower.out(), HasSubstr("node0:0: says 1\n")) << "although it wrote no newline";
  EXPECT_THAT(follower.out(), HasSubstr("node0:1: says 1\n"));
}

TEST_F(LaunchLogs, EndWithTheJobAlsoWhenItsLauncherIsKilled) {
  LaunchRun job(started({"--controller-grace", "0", "sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(job.printed("ready"));
  LaunchRun follower({"logs", "-f"}, environment());
  ASSERT_TRUE(follower.printed("ready"));
  job.signal(SIGKILL);
  job.exit_code();
  EXPECT_EQ(follower.exit_code(), 0);
}

TEST_F(LaunchLogs, HaveAllOfAMillionLines) {
  LaunchRun job(started({"--quiet", "--redirects", "3", "sh", "-c", "seq 1000000"}));
  EXPECT_EQ(job.exit_code(), 0);
  const std::string out = shown({});
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1000000);
  EXPECT_TRUE(out.ends_with("node0:0: 1000000\n"));
}

// More files than the command may have open.
TEST_F(LaunchLogs, HaveEveryRankWhateverTheLimitOfOpenFiles) {
  LaunchRun job(started({"sh", "-c", "echo one"}));
  ASSERT_EQ(job.exit_code(), 0);
  const std::filesystem::path attempt = std::filesystem::directory_iterator(logs)->path() / "attempt_1";
  constexpr int kRanks = 60;
  for (int rank = 1; rank < kRanks; ++rank)
    std::filesystem::copy(attempt / "rank_0", attempt / fmt::format("rank_{}", rank));
  LaunchRun run({"-c", fmt::format("ulimit -n 40; exec {} logs", LAUNCH_PROGRAM)}, environment(), "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_THAT(run.out(), HasSubstr(fmt::format(":{}: one\n", rank)));
}

TEST_F(LaunchLogs, SayWhichFileTheyCannotRead) {
  run_four();
  const std::filesystem::path broken =
      std::filesystem::directory_iterator(logs)->path() / "attempt_1/rank_2/stdout.log";
  std::filesystem::remove(broken);
  std::filesystem::create_directory(broken);
  LaunchRun run({"logs", "--grep", "loss"}, environment());
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_EQ(run.err(), fmt::format("launch: job {}\nlaunch: cannot read {}: Is a directory\n",
                                   std::filesystem::directory_iterator(logs)->path().filename().string(),
                                   broken.string()));
  EXPECT_EQ(run.out(), "node0:0: loss 0.0\nnode0:1: loss 0.1\nnode1:3: loss 0.3\n");
}

// The parts of a rank's log, and the size of its directory in bytes.
struct Kept {
  int parts = 0;
  std::uintmax_t bytes = 0;
};
Kept kept_in(const std::filesystem::path& directory) {
  Kept kept;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    kept.parts += file.path().filename().string().starts_with("stdout.") ? 1 : 0;
    kept.bytes += file.file_size();
  }
  return kept;
}

TEST_F(LaunchLogs, KeepTheNewestUnderALimitAndReadThePartsInOrder) {
  LaunchRun job(started({"--quiet", "--redirects", "3", "--log-limit", "1M", "sh", "-c",
                         "seq 1000000 1999999; echo last >&2"}));
  ASSERT_EQ(job.exit_code(), 0) << job.err();
  const auto rank = std::filesystem::directory_iterator(logs)->path() / "attempt_1/rank_0";
  const Kept kept = kept_in(rank);
  EXPECT_LE(kept.bytes, 1U << 20);
  EXPECT_GT(kept.bytes, 700U << 10);
  EXPECT_GT(kept.parts, 5);
  std::istringstream out(shown({}));
  int expected = 0;
  int line_count = 0;
  for (std::string line; std::getline(out, line) && line != "node0:0 stderr: last"; ++line_count) {
    const int number = std::stoi(line.substr(sizeof "node0:0:"));
    if (expected != 0) ASSERT_EQ(number, expected);
    expected = number + 1;
  }
  EXPECT_EQ(expected, 2'000'000);
  EXPECT_GT(line_count, 80'000);
}

TEST_F(LaunchLogs, SayThatAllPartsOfAStreamWereRemoved) {
  LaunchRun job(started({"--quiet", "--redirects", "3", "--log-limit", "512K", "sh", "-c",
                         "seq 100000 111999; seq 1000000 1999999 >&2"}));
  ASSERT_EQ(job.exit_code(), 0) << job.err();
  LaunchRun logs_of_it({"logs", "--grep", "^1....."}, environment());
  EXPECT_EQ(logs_of_it.exit_code(), 0);
  EXPECT_THAT(logs_of_it.out(), HasSubstr("node0:0: 111999\n"));
  EXPECT_THAT(logs_of_it.out(), Not(HasSubstr("node0:0: 100000\n")));
  EXPECT_THAT(logs_of_it.err(), HasSubstr("lines of stdout are missing"));
}

TEST_F(LaunchLogs, FollowALogThatIsCutIntoParts) {
  const std::string script = fmt::format(
      "seq 100000 104999; while [ ! -e {0}/go1 ]; do sleep 0.02; done; seq 105000 119999; "
      "while [ ! -e {0}/go2 ]; do sleep 0.02; done; seq 120000 129999",
      scratch.path().string());
  LaunchRun job(started({"--quiet", "--log-limit", "512K", "sh", "-c", script}));
  ASSERT_TRUE(job.printed("node0:0: 104999"));
  LaunchRun follower({"logs", "-f"}, environment());
  ASSERT_TRUE(follower.printed("node0:0: 104999"));
  touch("go1");
  ASSERT_TRUE(follower.printed("node0:0: 119999"));
  touch("go2");
  EXPECT_EQ(job.exit_code(), 0);
  EXPECT_EQ(follower.exit_code(), 0) << follower.err();
  std::string expected;
  for (int i = 100000; i < 130000; ++i) expected += fmt::format("node0:0: {}\n", i);
  EXPECT_TRUE(follower.out() == expected);
  EXPECT_GT(kept_in(std::filesystem::directory_iterator(logs)->path() / "attempt_1/rank_0").parts, 2);
}

TEST_F(LaunchLogs, AnswerWrongUseInOneLine) {
  run_four();
  const std::pair<Words, std::string> wrong[] = {
      {{"--rank", "0,9"},
       fmt::format("launch: {} has no logs for --rank 0,9: its plan has ranks 0 to 3 on nodes 0 to 1\n",
                   std::filesystem::directory_iterator(logs)->path().filename().string())},
      {{"--tail", "all"}, "launch: --tail: all is not a number of lines: give 0 or more\n"},
      {{"--rank", "x"}, "launch: --rank: x is not a list of numbers: give them as 0,4-7\n"},
      {{"--since", "soon"},
       "launch: --since: soon is neither a duration nor a time: give 90s, 10m, 2h, 1d or "
       "2026-05-01T12:30\n"},
      {{"--previous"},
       fmt::format("launch: --previous: {} has no attempt before its last one\n",
                   std::filesystem::directory_iterator(logs)->path().filename().string())},
      {{"--attempt", "7"},
       fmt::format("launch: --attempt 7: {} has logs of attempt 1\n",
                   std::filesystem::directory_iterator(logs)->path().filename().string())},
      {{"--attempt", "0"}, "launch: --attempt: 0 is not an attempt: give a number from 1\n"},
      {{"--folow"}, "launch: --folow: not a flag of launch logs: did you mean --follow?\n"}};
  for (const auto& [flags, message] : wrong) {
    Words words{"logs"};
    words.insert(words.end(), flags.begin(), flags.end());
    LaunchRun run(words, environment());
    EXPECT_EQ(run.exit_code(), 2);
    EXPECT_EQ(run.err(), message);
  }
}

}  // namespace
}  // namespace muster
