// `launch --trace` and `launch trace` with programs that do not use the runtime: the variables that they get,
// and the merged file. tests/train has real trainings.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/trace_rules.h"

namespace muster {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// Writes one event, and the half of another.
constexpr const char* kScript =
    "mkdir -p ${MUSTER_TRACE_FILE%/*}; echo '[' > $MUSTER_TRACE_FILE; "
    "echo '{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":5.5,\"dur\":2,\"name\":\"step 1\"},' >> "
    "$MUSTER_TRACE_FILE; "
    "printf '{\"ph\":\"X\",\"pid\"' >> $MUSTER_TRACE_FILE";

class LaunchTrace : public testing::Test {
 protected:
  // Runs `launch trace` for the only job with these words. Returns its exit code and output.
  std::string trace(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"trace", "--log-dir", logs_};
    words.insert(words.end(), more.begin(), more.end());
    LaunchRun run(words);
    const int exit_code = run.exit_code();
    return fmt::format("{} {}{}", exit_code, run.out(), run.err());
  }
  ScratchDirectory scratch_;
  const std::string logs_ = scratch_ / "logs";
  const std::string file_ = scratch_ / "trace.json";
};

TEST_F(LaunchTrace, OfProgramsThatLeaveNoneSaysSoInOneLine) {
  EXPECT_EQ(LaunchRun({"--log-dir", logs_, "--trace", "true"}).exit_code(), 0);
  const std::string said = trace({"-o", file_});
  EXPECT_THAT(said, StartsWith("1 launch: "));
  EXPECT_THAT(said, HasSubstr(" has no trace: only programs that use the runtime write one"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(LaunchTrace, AnswersWrongUseInOneLine) {
  EXPECT_THAT(trace({"-o", file_}), StartsWith("2 launch: "));  // without any job
  ASSERT_EQ(LaunchRun({"--log-dir", logs_, "--trace", "sh", "-c", kScript}).exit_code(), 0);
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{}, "--output is missing: say where to write the trace, as in -o trace.json, or -o -"},
      {{"-o", "-", "--json"}, "--output - and --json both go to stdout: give one of them"},
      {{"-o", file_, "--attempt", "x"}, "--attempt: x is not an attempt: give a number from 1"},
      {{"-o", file_, "--attempt", "2"}, "has no trace of that attempt"},
      {{"-o", file_, "nobody"}, "nobody"},
      {{"-o", scratch_ / "no/such/file"}, "cannot write " + (scratch_ / "no/such/file") + ": No such file"}};
  for (const auto& [words, text] : wrong) {
    const std::string said = trace(words);
    EXPECT_THAT(said, StartsWith("2 launch: "));
    EXPECT_THAT(said, HasSubstr(text));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(LaunchTrace, GathersWhatEachRankHasWritten) {
  LaunchRun run({"--log-dir", logs_, "--nodes", "2", "sh", "-c", kScript}, {{"MUSTER_TRACE", "1"}});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  const std::string said = trace({"-o", file_});
  EXPECT_THAT(said, StartsWith("0 launch: "));
  EXPECT_THAT(said, EndsWith(": " + file_ + "; open it in ui.perfetto.dev\n"));
  const ReadTrace read(read_file(file_, 1 << 20).value());
  EXPECT_THAT(read.processes(), testing::ElementsAre("rank 0 (node0)", "rank 1 (node1)", "launcher"));
  EXPECT_THAT(read.spans(1, "step"), SizeIs(1));
  EXPECT_THAT(read.named(ReadTrace::kLauncher, "attempts", "attempt 1"), SizeIs(1));
  EXPECT_THAT(read.named(ReadTrace::kLauncher, "events", "worker_exited"), SizeIs(2));

  const auto json = nlohmann::json::parse(trace({"-o", file_, "--json"}).substr(2));
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["file"], file_);
  EXPECT_TRUE(json["remarks"].empty()) << json;

  LaunchRun to_stdout({"trace", "--log-dir", logs_, "-o", "-"});
  EXPECT_EQ(to_stdout.exit_code(), 0);
  EXPECT_EQ(to_stdout.out(), read_file(file_, 1 << 20).value());
}

TEST_F(LaunchTrace, LeavesAFileAsItWasWhenOneOfTheRanksCannotBeRead) {
  LaunchRun run({"--log-dir", logs_, "--nodes", "2", "sh", "-c", kScript}, {{"MUSTER_TRACE", "1"}});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  const std::string link = scratch_ / "link.json";
  ASSERT_THAT(trace({"-o", file_}), StartsWith("0 launch: "));
  std::filesystem::create_symlink(file_, link);
  ASSERT_THAT(trace({"-o", link}), StartsWith("0 launch: "));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  const std::string before = read_file(file_, 1 << 20).value();
  EXPECT_THAT(trace({"-o", "/dev/stdout"}), HasSubstr("\n" + before.substr(before.rfind('{'))));

  const std::string job = std::filesystem::directory_iterator(logs_)->path();
  const std::string bad = job + "/attempt_1/rank_1/trace.json";
  std::filesystem::remove(bad);
  std::filesystem::create_directory(bad);
  const std::string said = trace({"-o", file_});
  EXPECT_THAT(said, StartsWith("1 launch: "));
  EXPECT_THAT(said, HasSubstr("cannot read " + bad + ": not a regular file"));
  EXPECT_TRUE(read_file(file_, 1 << 20).value() == before);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    EXPECT_THAT((std::vector<std::string>{"logs", "trace.json", "link.json"}),
                testing::Contains(entry.path().filename().string()));
}

TEST_F(LaunchTrace, OnlyRanksOfATracedJobAreToldOfAFile) {
  const std::vector<std::string> ask{"sh", "-c", "echo file=$MUSTER_TRACE_FILE."};
  const std::map<std::string, std::string> outer{{"MUSTER_TRACE_FILE", "/outer/trace.json"}};
  for (const std::string choice : {"0", "1", ""}) {
    auto environment = outer;
    environment["MUSTER_TRACE"] = choice;
    LaunchRun run(ask, environment);
    ASSERT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_THAT(run.out(),
                HasSubstr(choice == "1" ? "file=" + run.job_directory() + "/attempt_1/rank_0/trace.json."
                                        : "file=."));
  }
}

// Two ranks that wait for each other again and again, and write down the times by their own clocks.
constexpr const char* kMeetings = R"(
import os, sys, time
rank, scratch = int(os.environ["RANK"]), sys.argv[1]
path = os.environ["MUSTER_TRACE_FILE"]
os.makedirs(os.path.dirname(path), exist_ok=True)
trace = open(path, "w")
trace.write("[\n")
for i in range(100):
    begin = time.monotonic_ns()
    os.close(os.open(f"{scratch}/{i}.{rank}", os.O_CREAT | os.O_WRONLY))
    while not os.path.exists(f"{scratch}/{i}.{1 - rank}"):
        time.sleep(0.0002)
    end = time.monotonic_ns()
    trace.write('{"ph":"X","pid":%d,"tid":3,"ts":%.3f,"dur":%.3f,"name":"meeting %d"},\n'
                % (rank, begin / 1000, (end - begin) / 1000, i))
)";

// The shorter the round trip to a node, the better the launcher knows the node's clock.
std::int64_t shortest_round_trip_ns(const std::string& logs, int node) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max() / 2;
  for (const auto& job : std::filesystem::directory_iterator(logs)) {
    std::ifstream lines(job.path() / "events.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (!event.is_object() || event["event"] != "clock" || event["node"] != node) continue;
      shortest = std::min<std::int64_t>(shortest, event["round_trip_ns"]);
    }
  }
  return shortest;
}

// Host h1 has another disk at the path of the log directory, and a clock that is 5000 s ahead.
TEST_F(LaunchTrace, OfHostsWithOtherDisksAndOtherClocksIsOnOneClock) {
  const std::string shifted = "unshare -m -T --monotonic 5000 --fork";
  if (std::system((shifted + " true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "only root, of a kernel with time namespaces, gives a host a clock of its own";
  const std::string disk = scratch_ / "disk", command = scratch_ / "on", script = scratch_ / "meet.py";
  for (const std::string& directory : {logs_, disk, scratch_ / "meetings"})
    std::filesystem::create_directory(directory);
  std::ofstream(command) << fmt::format(
      "#!/bin/sh\nhost=$1; shift\nexport HOME={}/home.$host\nmkdir -p $HOME\n[ $host = h0 ] && exec \"$@\"\n"
      "exec {} sh -c 'mount --bind {} {} && exec \"$@\"' sh \"$@\"\n",
      scratch_.path().string(), shifted, disk, logs_);
  std::filesystem::permissions(command, std::filesystem::perms::owner_all);
  std::ofstream(script) << kMeetings;
  LaunchRun run({"--hosts", "h0,h1", "--exec", command + " {host}", "--log-dir", logs_, "--trace", "python3",
                 script, scratch_ / "meetings"});
  ASSERT_EQ(run.exit_code(), 0) << run.err();
  ASSERT_THAT(trace({"-o", file_}), StartsWith("0 launch: "));
  const ReadTrace read(read_file(file_, 1 << 20).value());
  EXPECT_THAT(read.processes(), testing::ElementsAre("rank 0 (node0, h0)", "rank 1 (node1, h1)", "launcher"));
  const auto zero = read.spans(0, "communication"), one = read.spans(1, "communication");
  ASSERT_THAT(zero, SizeIs(100));
  ASSERT_THAT(one, SizeIs(100));
  // On a busy machine all answers may be slow; then the launcher does not know the clocks any better.
  const std::int64_t round_trips = shortest_round_trip_ns(logs_, 0) + shortest_round_trip_ns(logs_, 1);
  ASSERT_LT(round_trips, 1'000'000'000) << "both have been asked";
  const std::int64_t known_to = std::max<std::int64_t>(1'000'000, round_trips / 2);
  for (std::size_t i = 0; i < zero.size(); ++i) {
    EXPECT_LE(std::max(zero[i].begin_ns, one[i].begin_ns), std::min(zero[i].end_ns, one[i].end_ns) + known_to)
        << "nobody leaves a meeting before the other has come: " << zero[i].name;
  }
}

}  // namespace
}  // namespace muster
