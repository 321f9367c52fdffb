// The commands about jobs, on real jobs.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/job_commands.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const std::string kLaunchFolder = std::filesystem::path(LAUNCH_PROGRAM).parent_path();

class LaunchCommands : public JobCommands {
 protected:
  // The output on a terminal that runs this command line.
  std::string in_terminal(const std::string& line) const {
    LaunchRun run({"-qec", line, "/dev/null"}, environment(), "/usr/bin/script");
    run.exit_code();
    return run.out();
  }
  // Connects to the launcher of the only job.
  UniqueFd connected() const {
    const std::string path = logs + "/" + only_job() + "/control.sock";
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0) << path;
    return fd;
  }
};

TEST_F(LaunchCommands, LetOnlyTextAndColoursOfAWorkerReachATerminal) {
  if (!std::filesystem::exists("/usr/bin/script"))
    GTEST_SKIP() << "/usr/bin/script is missing, which makes a terminal";
  const std::string job =
      R"(--max-restarts 0 sh -c 'printf "\033]0;title\007\033[31mbad\033[0m\033[2J news\n" >&2; exit 3')";
  for (const std::string& arguments : {job, std::string("logs"), std::string("report")}) {
    const std::string shown = in_terminal(LAUNCH_PROGRAM " " + arguments);
    EXPECT_THAT(shown, HasSubstr("\033[31mbad\033[0m news")) << arguments;
    EXPECT_THAT(shown, Not(HasSubstr("\033]"))) << arguments;
    EXPECT_THAT(shown, Not(HasSubstr("\033[2J"))) << arguments;
  }
  EXPECT_THAT(command({"logs"}).out, HasSubstr("\033[2J")) << "a file or a pipe gets it as it is";
}

TEST_F(LaunchCommands, TopIsDrawnInPlace) {
  if (!std::filesystem::exists("/usr/bin/script"))
    GTEST_SKIP() << "/usr/bin/script is missing, which makes a terminal";
  LaunchRun job(started({"sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(job.printed("ready")) << job.err();
  const std::string pid_file = scratch / "pid";
  LaunchRun top({"-qec", fmt::format("echo $$ >{}; exec " LAUNCH_PROGRAM " top", pid_file), "/dev/null"},
                environment(), "/usr/bin/script");
  EXPECT_TRUE(eventually([&] { return top.out().contains("\033[J\033[H"); }))
      << "drawn a second time: " << top.out();
  EXPECT_EQ(kill(std::atoi(read_file(pid_file, 64).value_or("").c_str()), SIGINT), 0);
  top.exit_code();
  const std::string shown = top.out();
  EXPECT_TRUE(shown.starts_with("\033[?25l\033[2J\033[H")) << "the screen is cleared first: " << shown;
  EXPECT_THAT(shown, HasSubstr("\033[K\r\n")) << "what stood in a line before goes";
  EXPECT_TRUE(shown.ends_with("\033[?25h")) << "the cursor is shown again: " << shown;
  job.signal(SIGINT);
  job.exit_code();
}

TEST_F(LaunchCommands, ListNothingWhereNoJobHasBeen) {
  EXPECT_EQ(command({"ps"}).out, fmt::format("no jobs in {}\n", logs));
  EXPECT_EQ(command({"ps", "--json"}).out, "[]\n");
}

TEST_F(LaunchCommands, ListJobsThatRunEndedAndWereLost) {
  LaunchRun good(started({"--gpus-per-node", "2", "true"}));
  EXPECT_EQ(good.exit_code(), 0) << good.err();
  LaunchRun bad(started({"--max-restarts", "0", "sh", "-c", "exit 3"}));
  EXPECT_EQ(bad.exit_code(), 3);
  LaunchRun lost(started({"--controller-grace", "0", "sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(lost.printed("ready"));
  lost.signal(SIGKILL);
  lost.exit_code();
  LaunchRun running(started({"sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(running.printed("ready"));

  const nlohmann::json list = jobs();
  ASSERT_EQ(list.size(), 4U);
  const char* states[] = {"running", "lost", "failed", "succeeded"};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(list[i]["state"], states[i]);
  EXPECT_EQ(list[0]["pid"], running.pid());
  EXPECT_EQ(list[2]["exit_code"], 3);
  EXPECT_EQ(list[3]["world_size"], 2);
  const std::string runs = list[0]["job_id"];
  const Printed unended = command({"report"});
  EXPECT_EQ(unended.exit_code, 1);
  EXPECT_EQ(unended.err, fmt::format("launch: {} is still running: see `launch status {}`\n", runs, runs));
  const Printed replayed = command({"replay"});
  EXPECT_EQ(replayed.exit_code, 0);
  EXPECT_EQ(replayed.err, fmt::format("launch: job {}\n", runs));
  const nlohmann::json newest = nlohmann::json::parse(command({"ps", "-n", "2", "--json"}).out);
  ASSERT_EQ(newest.size(), 2U);
  EXPECT_EQ(newest[1], list[1]);
  const nlohmann::json failed = nlohmann::json::parse(command({"ps", "--state", "failed", "--json"}).out);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0], list[2]);
  EXPECT_EQ(command({"ps", "--state", "stopped"}).out, fmt::format("no stopped jobs in {}\n", logs));
  EXPECT_THAT(
      command({"ps", "--state", "dead"}).err,
      HasSubstr(
          "--state: dead is not one of running, succeeded, failed, stopped, cancelled, lost, elsewhere\n"));
  EXPECT_EQ(command({"ps", "-n", "few"}).err, "launch: -n: few is not a number of jobs: give 0 or more\n");
  const Printed report = command({"report", list[1]["job_id"]});
  EXPECT_EQ(report.exit_code, 1);
  EXPECT_THAT(report.err, HasSubstr(fmt::format(" is lost: "
                                                "its launcher (process {}) is gone and left no report; ",
                                                lost.pid())));
  const std::string table = command({"ps"}).out;
  EXPECT_THAT(table, HasSubstr("failed        3 "));
  EXPECT_THAT(table, HasSubstr("lost          - "));
  running.signal(SIGINT);
  EXPECT_EQ(running.exit_code(), 130);
  EXPECT_EQ(jobs()[0]["state"], "stopped");
}

TEST_F(LaunchCommands, TellWhatOfAJobStillRunsWhoseLauncherIsGone) {
  LaunchRun lost(started({"--gpus-per-node", "2", "sh", "-c", "echo pid $$; exec sleep 1000"}));
  for (const char* line : {"0: pid ", "1: pid "}) ASSERT_TRUE(lost.printed(line));
  lost.signal(SIGKILL);
  lost.exit_code();
  const std::string name = only_job();
  const Printed unnamed = command({"status"});
  EXPECT_EQ(unnamed.exit_code, 2);
  EXPECT_THAT(unnamed.err, HasSubstr(fmt::format("; {} is lost: see `launch status {}`\n", name, name)));
  const std::string running = "; 2 of its processes still run on this machine, until --controller-grace";
  EXPECT_THAT(command({"status", name}).out, HasSubstr(running));
  EXPECT_THAT(command({"cancel", name}).err, HasSubstr(running));
  EXPECT_THAT(command({"report"}).err, HasSubstr(running));
  const std::string out = lost.out();
  for (std::size_t at = 0; (at = out.find("pid ", at)) != std::string::npos; at += 4)
    kill(std::stoi(out.substr(at + 4)), SIGKILL);
  EXPECT_TRUE(eventually([&] {
    return command({"status", name}).out.ends_with("; none of its processes runs on this machine\n");
  }));
}

TEST_F(LaunchCommands, ReportWhatTheTerminalShowed) {
  LaunchRun bad(started({"--max-restarts", "0", "--gpus-per-node", "2", "sh", "-c",
                         "if [ $RANK = 1 ]; then echo reason >&2; exit 3; fi; sleep 1000"}));
  EXPECT_EQ(bad.exit_code(), 3);
  const Printed report = command({"report"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(bad.err(), HasSubstr(report.out));
  EXPECT_THAT(report.out, HasSubstr("rank 1 (node0) exited with code 3"));
  // The command at the end of the summary finds the job, though it is not in the usual directory.
  const std::size_t next = bad.err().find("  next        launch ");
  ASSERT_NE(next, std::string::npos) << bad.err();
  Words words;
  std::istringstream rest(bad.err().substr(next + std::string("  next        launch ").size()));
  for (std::string word; rest >> word;) words.push_back(word);
  LaunchRun advised(words);
  EXPECT_EQ(advised.exit_code(), 0) << advised.err();
  EXPECT_EQ(advised.out(), "node0:1 stderr: reason\n");
  const Printed none = command({"logs", "--rank", "7"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err,
            fmt::format("launch: {} has no logs for --rank 7: its plan has ranks 0 to 1 on nodes 0 to 0\n",
                        only_job()));
  EXPECT_EQ(report.err, fmt::format("launch: job {}\n", only_job()));
  EXPECT_EQ(command({"report", only_job()}).err, "");
  const std::string beginning = only_job().substr(0, 12);
  EXPECT_EQ(command({"report", beginning}).out, report.out);
  EXPECT_EQ(nlohmann::json::parse(command({"report", "--json"}).out)["exit_code"], 3);
}

// Two nodes with two ranks each, all running.
constexpr const char* kSleeper = "echo ready; trap 'exit 0' INT; while :; do sleep 0.02; done";

TEST_F(LaunchCommands, ShowTheRanksOfARunningJob) {
  LaunchRun job(started({"--nodes", "2", "--gpus-per-node", "2", "sh", "-c", kSleeper}));
  for (const char* rank : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(job.printed(rank)) << job.err();
  const Printed shown = command({"status"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr(": 4 ranks on 2 nodes\n"));
  const auto status = nlohmann::json::parse(command({"status", only_job().substr(0, 10), "--json"}).out);
  EXPECT_EQ(status["phase"], "running");
  EXPECT_EQ(status["attempt"], 1);
  ASSERT_EQ(status["ranks"].size(), 4U);
  EXPECT_THAT(shown.out, HasSubstr("     -        -          -  -        running\n"))
      << "it has reported nothing";
  for (const auto& rank : status["ranks"]) {
    EXPECT_EQ(rank["node"], rank["rank"].get<int>() / 2);
    EXPECT_TRUE(is_running(rank["pid"].get<int>()));
  }
  job.signal(SIGINT);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_THAT(command({"status", only_job()}).out, HasSubstr("stopped with exit code 130"));
}

TEST_F(LaunchCommands, ShowStepsThatWorkersReport) {
  std::ofstream(scratch / "steps.py") << R"PY(import json, os, socket, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ["MUSTER_SOCKET"])
def report(kind, **more):
    agent.send(json.dumps({"v": 1, "type": kind, "rank": int(os.environ["RANK"]), "pid": os.getpid(),
                           "attempt": int(os.environ["MUSTER_ATTEMPT"]), **more}).encode())
report("step", step=41, loss=0.125, samples=32)
report("heartbeat", step=41, section="eval")
print("ready", flush=True)
time.sleep(1000)
)PY";
  LaunchRun job(started({scratch / "steps.py"}));
  ASSERT_TRUE(job.printed("ready")) << job.err();
  nlohmann::json rank;
  EXPECT_TRUE(eventually([&] {
    rank = nlohmann::json::parse(command({"status", "--json"}).out)["ranks"][0];
    return rank["step"] == 41 && rank["section"] == "eval";
  })) << rank;
  EXPECT_LT(rank["last_sign_seconds"].get<double>(), 10);
  EXPECT_EQ(rank["loss"], 0.125);
  EXPECT_TRUE(rank["usage"].is_null()) << "nobody has asked for it";

  // Agents measure usage only while somebody watches.
  const Printed watched = command({"top", "--json"});
  EXPECT_EQ(watched.exit_code, 0) << watched.err;
  rank = nlohmann::json::parse(watched.out)["ranks"][0];
  EXPECT_EQ(rank["step"], 41);
  EXPECT_GT(rank["usage"]["memory_bytes"].get<std::int64_t>(), 1 << 20);
  EXPECT_GT(rank["usage"]["cpu_seconds"].get<double>(), 0);
  EXPECT_LT(rank["cpu_percent"].get<double>(), 100) << "it sleeps";
  EXPECT_TRUE(rank["usage"]["gpu"].is_null());
  const Printed table = command({"top"});  // to a pipe it prints one table
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr(" 0.125 "));
  EXPECT_THAT(table.out, HasSubstr("RANK  NODE"));
  EXPECT_THAT(table.out, Not(HasSubstr("\033")));
  job.signal(SIGINT);
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_THAT(command({"top", only_job()}).out, HasSubstr("stopped with exit code 130"));
}

TEST_F(LaunchCommands, CancelAJobAndTellHowItEnded) {
  LaunchRun job(started({"--gpus-per-node", "2", "sh", "-c", kSleeper}));
  ASSERT_TRUE(job.printed("node0:0: ready") && job.printed("node0:1: ready"));
  const Printed cancelled = command({"cancel"});
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.err;
  EXPECT_THAT(cancelled.out, HasSubstr(" was cancelled with exit code 130: by `launch cancel`"));
  EXPECT_EQ(job.exit_code(), 130);
  EXPECT_TRUE(std::filesystem::exists(logs + "/" + only_job() + "/report.json"));
  const Printed again = command({"cancel", only_job()});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("is not running: it was cancelled with exit code 130"));
}

TEST_F(LaunchCommands, CancelNowWithoutWaitingForTheGrace) {
  LaunchRun job(
      started({"--grace", "1000", "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.02; done"}));
  ASSERT_TRUE(job.printed("ready"));
  const auto cancelled = nlohmann::json::parse(command({"cancel", "--now", "--json"}).out);
  EXPECT_EQ(cancelled[0]["state"], "cancelled");
  EXPECT_EQ(job.exit_code(), 130);
}

TEST_F(LaunchCommands, DumpWhereEveryRankIs) {
  LaunchRun job(started({"--nodes", "2", "--gpus-per-node", "2", "sh", "-c", kSleeper}));
  for (const char* rank : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(job.printed(rank)) << job.err();
  const Printed dumped = command({"dump"});
  EXPECT_EQ(dumped.exit_code, 0) << dumped.err;
  for (const char* head : {"---- rank 0 (node0) ----\n", "---- rank 1 (node0) ----\n",
                           "---- rank 2 (node1) ----\n", "---- rank 3 (node1) ----\n"})
    EXPECT_THAT(dumped.out, HasSubstr(head));
  std::istringstream lines(command({"dump", "--json"}).out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_FALSE(nlohmann::json::parse(line)["text"].get<std::string>().empty());
  EXPECT_EQ(count, 4);
  const Printed some = command({"dump", "--rank", "1,3"});
  EXPECT_EQ(some.exit_code, 0) << some.err;
  for (const char* head : {"---- rank 1 ", "---- rank 3 "}) EXPECT_THAT(some.out, HasSubstr(head));
  for (const char* head : {"---- rank 0 ", "---- rank 2 "}) EXPECT_THAT(some.out, Not(HasSubstr(head)));
  const pid_t agent = job.agent_of(1);
  ASSERT_GT(agent, 0);
  kill(agent, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(command({"dump", "--rank", "0-1"}).exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << "the others are not needed";
  kill(agent, SIGCONT);
  EXPECT_THAT(command({"dump", "--rank", "4"}).err, HasSubstr(" has ranks 0 to 3, and not 4\n"));
}

TEST_F(LaunchCommands, NameTheRanksWhoseAgentDoesNotAnswer) {
  LaunchRun job(started({"--silence-limit", "60", "sh", "-c", kSleeper}));
  ASSERT_TRUE(job.printed("ready"));
  const auto agents = job.agents();
  ASSERT_FALSE(agents.empty());
  for (const pid_t agent : agents) kill(agent, SIGSTOP);
  const Printed dumped = command({"dump"});
  for (const pid_t agent : agents) kill(agent, SIGCONT);
  EXPECT_EQ(dumped.exit_code, 1);
  EXPECT_EQ(dumped.err, "launch: no answer within 3 s from rank 0\n");
}

TEST_F(LaunchCommands, ReachALauncherWhosePathIsLongerThanASocketsName) {
  const std::string deep = logs + "/" + std::string(150, 'x');
  LaunchRun job({"--log-dir", deep, "sh", "-c", kSleeper});
  ASSERT_TRUE(job.printed("ready"));
  EXPECT_EQ(command({"status", "--log-dir", deep}).exit_code, 0);
  EXPECT_EQ(command({"cancel", "--log-dir", deep}).exit_code, 0);
}

// This process does not see the launcher's process, but its files and its socket.
TEST_F(LaunchCommands, ReachALauncherInAnotherContainerOfTheMachine) {
  LaunchRun job(started({"sh", "-c", kSleeper}));
  ASSERT_TRUE(job.printed("ready"));
  const std::string name = only_job();
  const std::string path = logs + "/" + name + "/job.json";
  auto record = nlohmann::json::parse(read_file(path, 1 << 20).value());
  record["pid_namespace"] = "pid:[1]";
  std::ofstream(path) << record;
  EXPECT_EQ(jobs()[0]["state"], "elsewhere");
  EXPECT_EQ(command({"status", name}).exit_code, 0);
  EXPECT_THAT(command({"cancel", name}).out, HasSubstr("was cancelled with exit code 130"));
  EXPECT_EQ(job.exit_code(), 130);
}

// Callers that send nothing, nonsense, or too much do no harm.
TEST_F(LaunchCommands, SurviveCallersThatMisbehave) {
  LaunchRun job(started({"sh", "-c", kSleeper}));
  ASSERT_TRUE(job.printed("ready"));
  const auto answer_to = [&](const std::string& said) {
    const UniqueFd fd = connected();
    EXPECT_TRUE(write_all(fd.get(), said, "control.sock"));
    std::string answer(4096, '\0');
    const ssize_t got = read(fd.get(), answer.data(), answer.size());
    return answer.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  };
  EXPECT_THAT(answer_to("nonsense\n"), HasSubstr("error"));
  EXPECT_THAT(answer_to("{\"command\": \"fly\"}\n"),
              HasSubstr("give status, top, nodes, add_nodes, cancel or dump"));
  EXPECT_EQ(answer_to(std::string(5000, 'x')), "") << "cut off";
  {
    const UniqueFd gone = connected();
  }
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(connected());
  EXPECT_EQ(command({"status"}).exit_code, 0);
  job.signal(SIGINT);
  EXPECT_EQ(job.exit_code(), 130);
}

// The second cancel counts as the third interrupt: the launcher exits while it serves other callers.
TEST_F(LaunchCommands, LetALauncherLeaveThatManyTellToStopAtOnce) {
  LaunchRun job(started({"sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 0.1; done"}));
  ASSERT_TRUE(job.printed("ready"));
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 8; ++i) callers.push_back(connected());
  job.signal(SIGSTOP);
  for (const UniqueFd& caller : callers)
    EXPECT_TRUE(write_all(caller.get(), "{\"command\": \"cancel\", \"now\": true}\n", "control.sock"));
  job.signal(SIGCONT);
  EXPECT_EQ(job.exit_code(), 130) << job.err();
}

TEST_F(LaunchCommands, AnswerWrongUseInOneLine) {
  const std::pair<Words, std::string> wrong[] = {
      {{"ps", "--jsno"}, "launch: --jsno: not a flag of launch ps: did you mean --json?\n"},
      {{"report"}, fmt::format("launch: no job found in {}: `launch ps` lists the jobs\n", logs)},
      {{"report", "x"}, fmt::format("launch: x: no such job in {}: `launch ps` lists the jobs\n", logs)},
      {{"status"}, fmt::format("launch: no job is running in {}: `launch ps` lists the jobs\n", logs)},
      {{"completion", "fihs"}, "launch: fihs: unknown shell: give bash, zsh or fish; did you mean fish?\n"},
      {{"reprot"}, "launch: reprot: not found in PATH; did you mean the command `launch report`?\n"},
      {{"ui"}, "launch: there is no `ui` command; to run a program named ui: `launch -- ui`, or its path\n"},
      {{"top"}, fmt::format("launch: no job is running in {}: `launch ps` lists the jobs\n", logs)},
      {{"attach", "job"},
       "launch: there is no `attach` command; to see what a running job prints: `launch logs -f`; to run a program named attach: `launch -- attach`, or its path\n"},
      {{"help", "recovry"}, "launch: recovry: not a help topic: did you mean recovery?\n"},
      {{"statsu", "x"}, "launch: statsu: not found in PATH; did you mean the command `launch status`?\n"},
      {{"ps", "--log-dir", "/etc/passwd"}, "launch: cannot read /etc/passwd: Not a directory\n"},
  };
  for (const auto& [words, message] : wrong) {
    const Printed printed = command(words);
    EXPECT_EQ(printed.exit_code, 2);
    EXPECT_EQ(printed.err, message);
    EXPECT_EQ(printed.out, "");
  }
  EXPECT_EQ(command({"run", "statsu"}).exit_code, 127) << "it is said to be a program";
}

TEST_F(LaunchCommands, NameTheVariableOfAPythonThatIsMissing) {
  std::ofstream(scratch / "train.py") << "";
  LaunchRun run({scratch / "train.py"}, {{"MUSTER_LOG_DIR", logs}, {"PYTHON_EXEC", "/no/such/python"}});
  EXPECT_EQ(run.exit_code(), 127);
  EXPECT_EQ(run.err(), "launch: PYTHON_EXEC: /no/such/python: not found\n");
  LaunchRun no_script({scratch / "trian.py"}, {{"MUSTER_LOG_DIR", logs}, {"PYTHON_EXEC", "/bin/sh"}});
  EXPECT_EQ(no_script.exit_code(), 127);
  EXPECT_EQ(no_script.err(), fmt::format("launch: {0}/trian.py: not found: did you mean {0}/train.py?\n",
                                         scratch.path().string()));
}

TEST_F(LaunchCommands, TakeNoFlagAndNoFileForAMistypedCommand) {
  std::ofstream(scratch / "repot") << "#!/bin/sh\n";
  std::filesystem::permissions(scratch / "repot", std::filesystem::perms(0755));
  const std::string too_long(300, 'a');  // too long for a file's name
  const std::pair<Words, std::string> wrong[] = {
      {{"--nodes", "2", "./nothere"}, "launch: ./nothere: not found\n"},
      {{"--nodes", "2", "nothere"}, "launch: nothere: not found in PATH\n"},
      {{"qsub", "x"}, "launch: qsub: not found in PATH; launch takes its place: `launch PROGRAM`\n"},
      {{"./statsu"}, "launch: ./statsu: not found\n"},
      {{"status.py"}, "launch: status.py: not found\n"},
      {{"--nodes", "2", "repot"}, "launch: repot: not found in PATH: did you mean ./repot?\n"},
      {{too_long}, "launch: " + too_long + ": not found in PATH\n"},
  };
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  for (const auto& [words, message] : wrong) {
    const Printed printed = command(words);
    EXPECT_EQ(printed.exit_code, 127);
    EXPECT_EQ(printed.err, message);
  }
  std::filesystem::current_path(before);
}

TEST_F(LaunchCommands, AreExplainedByHelp) {
  const Printed help = command({"help", "status"});
  EXPECT_EQ(help.exit_code, 0) << help.err;
  EXPECT_THAT(help.out, HasSubstr("Usage: launch status [FLAGS] [JOB]"));
  EXPECT_EQ(help.out, command({"status", "--help"}).out);
  const std::string of_ps = command({"ps", "--help"}).out;
  for (const char* state : {"running", "succeeded", "failed", "cancelled", "stopped", "lost", "elsewhere"})
    EXPECT_THAT(of_ps, HasSubstr(state));
}

TEST_F(LaunchCommands, LeaveProgramsThatAreNamedLikeThemWithinReach) {
  for (const char* name : {"ps", "top"}) {
    std::ofstream(scratch / name) << "#!/bin/sh\necho a program of that name\n";
    std::filesystem::permissions(scratch / name, std::filesystem::perms(0755));
  }
  const std::string path = scratch.path().string() + ":/usr/bin:/bin";
  for (const Words& words : {Words{"run", "ps"}, Words{"--", "ps"}, Words{"run", "top"}, Words{"--", "top"},
                             Words{scratch / "top"}}) {
    LaunchRun run(words, {{"MUSTER_LOG_DIR", logs}, {"PATH", path}});
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr("a program of that name"));
  }
}

TEST_F(LaunchCommands, PrintAPlanAndTouchNothing) {
  const Printed plan = command({"plan", "--nodes", "2", "sh", "-c", "echo started"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("node1"));
  EXPECT_THAT(plan.out, Not(HasSubstr("started\n")));
  LaunchRun bare({"-i", "PATH=/usr/bin:/bin", LAUNCH_PROGRAM, "plan", "true"}, {}, "/usr/bin/env");
  EXPECT_EQ(bare.exit_code(), 0) << bare.err();
  EXPECT_THAT(bare.out(), HasSubstr(std::string(getpwuid(geteuid())->pw_dir) + "/.local/state/muster/"))
      << "without HOME";
  EXPECT_FALSE(std::filesystem::exists(logs));
}

TEST_F(LaunchCommands, CompleteProgramsOnceAndNoWordsOfTheShellInBash) {
  for (const char* folder : {"one", "two"}) {
    std::filesystem::create_directory(scratch / folder);
    for (const char* name : {"iffy", "reporter"}) {
      std::ofstream(scratch / folder + "/" + name) << "";
      std::filesystem::permissions(scratch / folder + "/" + name, std::filesystem::perms(0755));
    }
    std::ofstream(scratch / folder + "/ifnot") << "";
  }
  const std::string script = scratch / "ask.sh";
  std::ofstream(script) << "PATH=" << kLaunchFolder << ":$PATH; source <(launch completion bash)\n"
                        << "alias ifalias=true; iffunction() { :; }; PATH=" << scratch / "one" << ":"
                        << scratch / "two" << ":/usr/bin:/bin; cd " << scratch.path() << R"SH(
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _launch; echo "${COMPREPLY[*]}"; }
ask launch if
ask launch run iff
ask launch reporte
ask launch whil
ask launch '[['
ask launch on
)SH";
  LaunchRun bash({script}, environment(), "/bin/bash");
  EXPECT_EQ(bash.exit_code(), 0) << bash.err();
  EXPECT_THAT(bash.out(), MatchesRegex("([^ \n]+ )*iffy( [^ \n]+)*\niffy\nreporter\n\n\none\n"));
  for (const char* other : {"ifalias", "iffunction", "ifnot", "iffy iffy"})
    EXPECT_THAT(bash.out(), Not(HasSubstr(other)));
}

TEST_F(LaunchCommands, CompleteJobsThatRunInBash) {
  LaunchRun ended(started({"true"}));
  EXPECT_EQ(ended.exit_code(), 0);
  LaunchRun running(started({"sh", "-c", "echo ready; sleep 1000"}));
  ASSERT_TRUE(running.printed("ready"));
  const std::string name = jobs().at(0).at("job_id");
  const std::string script = scratch / "ask.sh";
  std::ofstream(script) << "PATH=" << kLaunchFolder << ":$PATH\n"
                        << R"SH(source <(launch completion bash)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _launch; echo "${COMPREPLY[*]}"; }
ask launch status ''
ask launch cancel --now ''
ask launch dump ''
ask launch logs -f ''
ask launch logs ''
)SH";
  LaunchRun bash({script}, environment(), "/bin/bash");
  EXPECT_EQ(bash.exit_code(), 0) << bash.err();
  EXPECT_THAT(bash.out(), MatchesRegex(fmt::format("({0}\n){{4}}{0} [^\n]+\n", name)));
}

TEST_F(LaunchCommands, CompleteCommandsFlagsValuesAndJobsInBash) {
  LaunchRun job(started({"true"}));
  EXPECT_EQ(job.exit_code(), 0);
  const std::string script = scratch / "complete.sh";
  std::ofstream(script) << "PATH=" << kLaunchFolder << ":$PATH\n"
                        << R"SH(source <(launch completion bash)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _launch; echo "${COMPREPLY[*]}"; }
ask launch repor
ask launch ps --js
ask launch --device cu
ask launch report ''
ask launch completion ''
ask launch help reco
)SH";
  LaunchRun bash({script}, environment(), "/bin/bash");
  EXPECT_EQ(bash.exit_code(), 0) << bash.err();
  EXPECT_THAT(bash.out(), MatchesRegex(fmt::format(
                              "report[^\n]*\n--json\ncuda\n{}\nbash zsh fish\nrecovery\n", only_job())));
}

}  // namespace
}  // namespace muster
