// The commands that look at jobs, on real ones.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

using Words = std::vector<std::string>;

struct Printed {
  int exit_code;
  std::string out;
  std::string err;
};

// A command that looks at the jobs whose logs lie in one directory of this test's own.
class LaunchCommands : public testing::Test {
 protected:
  Words started(const Words& words) const {
    Words all{"--log-dir", logs};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  Printed command(const Words& words) const {
    LaunchRun run(words, {{"MUSTER_LOG_DIR", logs}});
    const int exit_code = run.exit_code();
    return {exit_code, run.out(), run.err()};
  }
  nlohmann::json jobs() const { return nlohmann::json::parse(command({"ps", "--json"}).out); }
  std::string only_job() const { return jobs().at(0).at("job_id"); }

  ScratchDirectory scratch;
  const std::string logs = scratch / "logs";
};

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
  const std::string table = command({"ps"}).out;
  EXPECT_THAT(table, HasSubstr("failed        3"));
  EXPECT_THAT(table, HasSubstr("lost          -"));
  running.signal(SIGINT);
  EXPECT_EQ(running.exit_code(), 130);
  EXPECT_EQ(jobs()[0]["state"], "stopped");
}

TEST_F(LaunchCommands, ReportWhatTheTerminalShowed) {
  LaunchRun bad(started({"--max-restarts", "0", "--gpus-per-node", "2", "sh", "-c",
                         "if [ $RANK = 1 ]; then echo reason >&2; exit 3; fi; sleep 1000"}));
  EXPECT_EQ(bad.exit_code(), 3);
  const Printed report = command({"report"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(bad.err(), HasSubstr(report.out));
  EXPECT_THAT(report.out, HasSubstr("rank 1 (node0) exited with code 3"));
  const std::string beginning = only_job().substr(0, 12);
  EXPECT_EQ(command({"report", beginning}).out, report.out);
  EXPECT_EQ(nlohmann::json::parse(command({"report", "--json"}).out)["exit_code"], 3);
}

TEST_F(LaunchCommands, AnswerWrongUseInOneLine) {
  const std::pair<Words, std::string> wrong[] = {
      {{"ps", "--jsno"}, "launch: --jsno: not a flag of launch ps: did you mean --json?\n"},
      {{"report"}, fmt::format("launch: no job in {} has ended: `launch ps` lists them\n", logs)},
      {{"report", "x"}, fmt::format("launch: x: no job of that name in {}: `launch ps` lists them\n", logs)},
      {{"completion", "fihs"}, "launch: fihs: no shell that is known here: did you mean fish?\n"},
      {{"ps", "--log-dir", "/etc/passwd"}, "launch: cannot read /etc/passwd: Not a directory\n"},
  };
  for (const auto& [words, message] : wrong) {
    const Printed printed = command(words);
    EXPECT_EQ(printed.exit_code, 2);
    EXPECT_EQ(printed.err, message);
    EXPECT_EQ(printed.out, "");
  }
  const Printed unknown = command({"reprot"});
  EXPECT_EQ(unknown.exit_code, 127);
  EXPECT_EQ(unknown.err, "launch: reprot: not found in PATH; did you mean the command `launch report`?\n");
}

TEST_F(LaunchCommands, LeaveProgramsThatAreNamedLikeThemWithinReach) {
  std::ofstream(scratch / "ps") << "#!/bin/sh\necho a program of that name\n";
  std::filesystem::permissions(scratch / "ps", std::filesystem::perms(0755));
  const std::string path = scratch.path().string() + ":/usr/bin:/bin";
  for (const Words& words : {Words{"run", "ps"}, Words{"--", "ps"}}) {
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
  EXPECT_FALSE(std::filesystem::exists(logs));
}

TEST_F(LaunchCommands, CompleteCommandsFlagsValuesAndJobsInBash) {
  LaunchRun job(started({"true"}));
  EXPECT_EQ(job.exit_code(), 0);
  const std::string script = scratch / "complete.sh";
  std::ofstream(script) << "PATH=" << std::filesystem::path(LAUNCH_PROGRAM).parent_path().string()
                        << ":$PATH\n"
                        << R"SH(source <(launch completion bash)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _launch; echo "${COMPREPLY[*]}"; }
ask launch repor
ask launch ps --js
ask launch --device cu
ask launch report ''
ask launch completion ''
)SH";
  LaunchRun bash({script}, {{"MUSTER_LOG_DIR", logs}}, "/bin/bash");
  EXPECT_EQ(bash.exit_code(), 0) << bash.err();
  EXPECT_THAT(bash.out(),
              MatchesRegex(fmt::format("report[^\n]*\n--json\ncuda\n{}\nbash zsh fish\n", only_job())));
}

}  // namespace
}  // namespace muster
