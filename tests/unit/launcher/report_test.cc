#include "launcher/core/view/report.h"

#include <algorithm>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using testing::Not;

class Report : public testing::Test {
 protected:
  Report() {
    plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
    plan.job.job_id = "job-7";
    plan.job.log_directory = "/logs/job-7";
    plan.job.max_restarts = 3;
    AttemptFacts facts;
    facts.world_size = 4;
    WorkerEnd end;
    end.rank = Rank(2);
    end.node = NodeId(1);
    end.exit_code = 75;
    end.message = "ValueError: no";
    for (int line = 0; line < 30; ++line) end.last_lines.push_back("line " + std::to_string(line));
    facts.ends = {end};
    failed = judge(facts);
    attempts = {{.attempt = Attempt(1),
                 .resumed_step = {},
                 .last_step = 57,
                 .committed_step = 40,
                 .repeated_steps = {},
                 .verdict = failed,
                 .world_size = 4,
                 .node_count = 2},
                {.attempt = Attempt(2),
                 .resumed_step = 40,
                 .last_step = 90,
                 .committed_step = 80,
                 .repeated_steps = 17,
                 .verdict = failed,
                 .world_size = 4,
                 .node_count = 2}};
  }
  Outcome outcome(const Verdict& verdict) const {
    return {plan, verdict, attempts, 1, std::chrono::milliseconds(2500), {}, 0, "", plan.names()};
  }

  Plan plan;
  Verdict failed;
  std::vector<AttemptHistory> attempts;
};

TEST_F(Report, NamesTheCulpritOfAJobThatTheUserStoppedBeforeItsRestart) {
  const Verdict stopped = stopped_after(failed, {SIGINT});
  const auto json = nlohmann::json::parse(report_as_json(outcome(stopped)));
  EXPECT_EQ(json.at("exit_code"), 130);
  EXPECT_EQ(json.at("origin"), "user");
  EXPECT_EQ(json.at("culprit").at("rank"), 2);
  EXPECT_EQ(json.at("culprit").at("exit_code"), 75);
  const std::string text = summary(outcome(stopped));
  EXPECT_THAT(text, HasSubstr("launch: stopped after 2.5 s: by SIGINT, after rank 2 (node1) exited with"));
  EXPECT_THAT(text, HasSubstr("              | line 29\n"));
  EXPECT_THAT(text, HasSubstr("  exit code   130\n"));
}

TEST_F(Report, CallsACancelledJobCancelled) {
  AttemptFacts facts;
  facts.interrupted_by = {.signal = SIGINT, .cancelled = true};
  const Verdict cancelled = judge(facts);
  EXPECT_THAT(summary(outcome(cancelled)), HasSubstr("launch: cancelled after 2.5 s: by `launch cancel`\n"));
  const auto json = nlohmann::json::parse(report_as_json(outcome(cancelled)));
  EXPECT_EQ(json.at("class"), "cancelled");
  EXPECT_EQ(json.at("exit_code"), 130);
}

TEST_F(Report, CountsLostSteps) {
  const auto lost = [&] { return nlohmann::json::parse(report_as_json(outcome(failed))).at("lost_steps"); };
  EXPECT_EQ(lost(), 10);
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("committed up to step 80; 10 steps are lost\n"));
  attempts[1].last_step = 81;
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("; 1 step is lost\n"));
  attempts[1].committed_step = 81;
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("; step 81 is saved; no step is lost\n"));
  attempts[1].last_step = 45;
  attempts[1].committed_step.reset();
  EXPECT_EQ(lost(), 17) << "the attempt before was at step 57, and the next begins at 40";
  for (AttemptHistory& each : attempts) each.committed_step = each.resumed_step = std::nullopt;
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("; 57 steps are lost: no Muster checkpoint\n"));
  attempts[0].offered_step = 50;
  EXPECT_EQ(lost(), 7) << "the program has not said where it went on";
  failed.kind = Verdict::Kind::kSucceeded;
  EXPECT_EQ(lost(), 0) << "no launch has to repeat them";
  for (AttemptHistory& each : attempts) each.last_step.reset();
  EXPECT_EQ(lost(), nullptr);
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("lost")));
}

TEST_F(Report, HoldsTheVerdictAndEveryAttempt) {
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json.at("job_id"), "job-7");
  EXPECT_EQ(json.at("exit_code"), 1);
  EXPECT_EQ(json.at("origin"), "worker");
  EXPECT_EQ(json.at("culprit").at("exit_code"), 75);
  EXPECT_EQ(json.at("restarts"), 1);
  ASSERT_EQ(json.at("attempts").size(), 2U);
  EXPECT_EQ(json.at("attempts").at(0).at("resumed_step"), nullptr);
  EXPECT_EQ(json.at("attempts").at(0).at("culprit").at("rank"), 2);
  EXPECT_EQ(json.at("attempts").at(1).at("repeated_steps"), 17);
  EXPECT_EQ(json.at("attempts").at(1).at("committed_step"), 80);
}

TEST_F(Report, ExplainsWhyAJobGaveUpAndKeepsTheCulpritsClass) {
  const auto gave_up = [&] { return nlohmann::json::parse(report_as_json(outcome(failed))).at("gave_up"); };
  EXPECT_EQ(gave_up(), nullptr);
  failed.gave_up = Verdict::GaveUp::kBudget;
  EXPECT_EQ(gave_up(), "budget");
  failed.gave_up = Verdict::GaveUp::kNoProgress;
  failed.final_because = "the same failure 3 times in a row";
  EXPECT_EQ(gave_up(), "no_progress");
  EXPECT_EQ(nlohmann::json::parse(report_as_json(outcome(failed))).at("class"), "exit");
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("committed up to step 80; 10 steps are lost; "
                                                  "not retried: the same failure 3 times in a row\n"));
}

TEST_F(Report, HasTheTimeAndStepOfTheCulpritsFailure) {
  AttemptFacts facts;
  facts.world_size = 4;
  facts.losses = {{.node = NodeId(1), .at = TimePoint(std::chrono::seconds(100)), .how = "gone"}};
  facts.steps = {{Rank(0), 7}, {Rank(3), 8}};
  const Verdict lost = judge(facts);
  Outcome told = outcome(lost);
  told.now = TimePoint(std::chrono::milliseconds(101'500));
  told.now_unix = 2000;
  const auto culprit = nlohmann::json::parse(report_as_json(told)).at("culprit");
  EXPECT_EQ(culprit.at("time"), 1998.5);
  EXPECT_EQ(culprit.at("step"), 8);
}

TEST_F(Report, ShowsTheFirstLineOfALongError) {
  failed.culprit->message = "RuntimeError: CUDA error\nCUDA kernel errors might be\n";
  const std::string text = summary(outcome(failed));
  EXPECT_THAT(text, HasSubstr("  error       RuntimeError: CUDA error ...\n"));
  EXPECT_THAT(text, Not(HasSubstr("might be")));
  failed.culprit->message = "ValueError: no\n";
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("  error       ValueError: no\n"));
}

TEST_F(Report, DoesNotRepeatTheErrorAsALastLine) {
  for (const char* line : {"RuntimeError: bad sample 17", "rank 2: RuntimeError: bad sample 17"}) {
    failed.culprit->message.clear();
    failed.culprit->exception = "RuntimeError: bad sample 17 (train.py:6)";
    failed.culprit->last_lines = {"RuntimeError", "Traceback", line};
    EXPECT_THAT(summary(outcome(failed)),
                HasSubstr("last lines  | RuntimeError\n              | Traceback\n"));
    EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("sample"))) << line;
  }
  failed.culprit->message = "c10::Error: " + std::string(300, 'x');
  failed.culprit->exception = "c10::Error: xxx...";
  failed.culprit->last_lines = {"rank 2: " + failed.culprit->message, "", "  "};
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("  error       c10::Error: xxxx"));
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("last lines")));
}

TEST_F(Report, ShowsACallStackOnlyInTheFullTextAndThereToItsLastLineWhichIsTheError) {
  failed.culprit->message.clear();
  failed.culprit->exception = "RuntimeError: bad sample 17 (train.py:6)";
  failed.culprit->last_lines = {"Traceback (most recent call last):", "  File \"train.py\", line 6, in main",
                                "    raise RuntimeError(sample)", "RuntimeError: bad sample 17"};
  const std::string full = nlohmann::json::parse(report_as_json(outcome(failed))).at("details");
  EXPECT_THAT(full,
              HasSubstr("|     raise RuntimeError(sample)\n              | RuntimeError: bad sample 17\n"));
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("last lines"))) << "the console has just shown it";
  failed.culprit->last_lines = {
      "loss 0.5", "[rank2]: Traceback (most recent call last):", "[rank2]:     raise RuntimeError(sample)",
      "[rank2]: RuntimeError: bad sample 17", "leaving"};
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("last lines  | loss 0.5\n              | leaving\n"));
  failed.culprit->last_lines = {"weights:", "  layer 1: nan", "RuntimeError: bad sample 17"};
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("last lines  | weights:\n              |   layer 1: nan\n"))
      << "the program has indented these lines itself";
  failed.culprit->last_lines = {"    main()", "  File \"train.py\", line 6, in main", "    raise error",
                                "RuntimeError: bad sample 17"};
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("last lines"))) << "the stack's heading is cut off";
}

TEST_F(Report, ShowsACallStackInTheSummaryIfTheConsoleMayNotHaveShownIt) {
  failed.culprit->message.clear();
  failed.culprit->exception = "RuntimeError: bad sample 17 (train.py:6)";
  failed.culprit->last_lines = {"Traceback (most recent call last):", "  File \"train.py\", line 6, in main",
                                "    raise RuntimeError(sample)", "RuntimeError: bad sample 17"};
  const std::string stack =
      "last lines  | Traceback (most recent call last):\n"
      "              |   File \"train.py\", line 6, in main\n"
      "              |     raise RuntimeError(sample)\n              | RuntimeError: bad sample 17\n";
  plan.job.redirects = {1, 0};
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("Traceback"))) << "only stdout is redirected";
  plan.job.redirects = {3, 3};
  EXPECT_THAT(summary(outcome(failed)), HasSubstr(stack));
}

TEST_F(Report, IsValidJsonWhateverTheWorkersWrote) {
  failed.culprit->last_lines = {"\xff\xfe broken \x01"};
  EXPECT_TRUE(nlohmann::json::accept(report_as_json(outcome(failed))));
}

TEST_F(Report, SummarizesAFailure) {
  const std::string text = summary(outcome(failed));
  for (const char* part :
       {"failed after 2.5 s: rank 2 (node1) exited with code 75", "ValueError: no", "line 29",
        "resumed from step 40", "repeated 17 steps", "/logs/job-7", "exit code   1 (the worker's own, 75,"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("line 3\n"))) << "only the last lines";
}

TEST_F(Report, SummarizesTheFullestFailureInTenLinesThatEndWithTheNextCommand) {
  failed.evidence = {"first", "second", "third", "fourth", "fifth"};
  failed.hint = "do this";
  failed.collateral_count = 3;
  const std::string text = summary(outcome(failed));
  EXPECT_EQ(std::ranges::count(text, '\n'), 10) << text;
  for (const char* part :
       {"evidence    first\n", "error       ", "last lines  | line 29\n", "hint        do this",
        "collateral  3 other ranks", "attempts ", "logs ", "exit code "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_TRUE(text.ends_with("  next        launch logs job-7 --rank 2\n"));
  failed.culprit->message.clear();
  EXPECT_THAT(summary(outcome(failed)), HasSubstr("last lines  | line 28\n              | line 29\n"));
  failed.evidence.clear();
  failed.hint.clear();
  failed.collateral_count = 0;
  const std::string lines_only = summary(outcome(failed));
  EXPECT_EQ(std::ranges::count(lines_only, '\n'), 10) << lines_only;
  EXPECT_THAT(lines_only, HasSubstr("last lines  | line 25\n"));
}

TEST_F(Report, HasEverythingThatTheSummaryLeavesOut) {
  failed.evidence = {"first", "second", "third", "fourth", "fifth"};
  failed.hint = "do this";
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json.at("summary"), summary(outcome(failed)));
  const std::string details = json.at("details");
  for (const char* part : {"evidence    first\n", "              fifth\n", "last lines  | line 0\n",
                           "| line 29\n", "hint        do this", "next        "}) {
    EXPECT_THAT(details, HasSubstr(part));
  }
}

TEST_F(Report, DescribesTheEndOfEachAttempt) {
  attempts[0].verdict->cause = "rank 5 (node1) was killed by SIGKILL";
  const auto details_of = [&](const Verdict& verdict) {
    return nlohmann::json::parse(report_as_json(outcome(verdict))).at("details").get<std::string>();
  };
  const std::string line = "  attempt 1   rank 5 (node1) was killed by SIGKILL\n";
  const std::string attempt_2 =
      "  attempt 2   resumed from step 40, repeated 17 steps; rank 2 (node1) exited with code 75\n";
  EXPECT_THAT(details_of(failed), HasSubstr(line + attempt_2));
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr(line)));
  attempts[0].verdict->step = 57;
  Verdict succeeded;
  succeeded.kind = Verdict::Kind::kSucceeded;
  attempts[1].verdict = succeeded;
  EXPECT_THAT(details_of(succeeded),
              HasSubstr("/logs/job-7\n"
                        "  attempt 1   rank 5 (node1) was killed by SIGKILL at step 57\n"
                        "  attempt 2   resumed from step 40, repeated 17 steps; succeeded after step 90\n"));
  EXPECT_THAT(summary(outcome(succeeded)), Not(HasSubstr("attempt 1")));
  attempts.erase(attempts.begin());
  EXPECT_THAT(details_of(succeeded), Not(HasSubstr("attempt "))) << "there is but one";
}

TEST_F(Report, ReportsSuccessInOneLine) {
  Verdict verdict;
  verdict.kind = Verdict::Kind::kSucceeded;
  verdict.exit_code = 0;
  const std::string text = summary(outcome(verdict));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, HasSubstr("4 ranks succeeded in 2.5 s after 1 restart"));
}

TEST_F(Report, HasTheSizeOfTheLastAttempt) {
  attempts.back().world_size = 2;
  attempts.back().node_count = 1;
  Verdict verdict;
  verdict.kind = Verdict::Kind::kSucceeded;
  verdict.exit_code = 0;
  EXPECT_THAT(summary(outcome(verdict)), HasSubstr("2 ranks succeeded"));
  EXPECT_EQ(nlohmann::json::parse(report_as_json(outcome(verdict))).at("world_size"), 2);
}

TEST_F(Report, GivesClassEvidenceHintAndCollateral) {
  failed.culprit->last_lines.clear();
  failed.evidence = {"first", "second"};
  failed.hint = "do this";
  failed.collateral = {Rank(0), Rank(3)};
  failed.collateral_count = 2;
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json.at("class"), "exit");
  EXPECT_EQ(json.at("evidence").size(), 2U);
  EXPECT_EQ(json.at("hint"), "do this");
  EXPECT_EQ(json.at("collateral"), nlohmann::json::array({0, 3}));
  EXPECT_EQ(json.at("culprit").at("class"), "exit");
  const std::string text = summary(outcome(failed));
  EXPECT_THAT(text, HasSubstr("  evidence    first\n              second\n"));
  EXPECT_THAT(text, HasSubstr("  hint        do this\n"));
}

TEST_F(Report, EndsWithTheNextCommand) {
  EXPECT_TRUE(summary(outcome(failed)).ends_with("  next        launch logs job-7 --rank 2\n"));
  const std::vector<std::string> lines = std::exchange(failed.culprit->last_lines, {});
  EXPECT_TRUE(summary(outcome(failed)).ends_with("  next        launch report job-7\n"))
      << "it printed nothing";
  failed.culprit->last_lines = lines;
  failed.rank.reset();
  EXPECT_TRUE(summary(outcome(failed)).ends_with("  next        launch report job-7\n"));
  const std::string details = nlohmann::json::parse(report_as_json(outcome(failed))).at("details");
  EXPECT_THAT(details, HasSubstr("  next        launch logs job-7\n")) << "it is the report";
  Outcome silent = outcome(failed);
  silent.has_output = false;
  EXPECT_THAT(nlohmann::json::parse(report_as_json(silent)).at("details").get<std::string>(),
              Not(HasSubstr("  next  ")))
      << "nothing is more";
}

TEST_F(Report, NamesTheHostsOfAJobThatHasThem) {
  EXPECT_EQ(nlohmann::json::parse(report_as_json(outcome(failed)))["culprit"]["host"], nullptr);
  plan.hosts = {{.name = "h0"}, {.name = "h1"}};
  attempts[1].stragglers = {{.rank = Rank(0), .node = NodeId(0)}};
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json["culprit"]["host"], "h1");
  EXPECT_EQ(json["attempts"][1]["stragglers"][0]["host"], "h0");
}

TEST_F(Report, NamesStragglers) {
  using namespace std::chrono_literals;
  attempts[1].stragglers = {{Rank(3), NodeId(1), 50, 130500us, 100ms, {}},
                            {Rank(0), NodeId(0), 60, 2s, 1s, 200}};
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json["attempts"][0]["stragglers"], nlohmann::json::array());
  const nlohmann::json expected{
      {"rank", 3},         {"node", 1},        {"host", nullptr},      {"busy_ms", 130.5},
      {"usual_ms", 100.0}, {"since_step", 50}, {"until_step", nullptr}};
  EXPECT_EQ(json["attempts"][1]["stragglers"][0], expected);
  EXPECT_EQ(json["attempts"][1]["stragglers"][1]["until_step"], 200);
}

TEST_F(Report, ShowsHowTheTimeOfStepsWasSpent) {
  constexpr std::int64_t kMs = 1'000'000;
  attempts[1].profiles = {{Rank(0), {0, 10, {{"compute", 60 * kMs}, {"communicate", 40 * kMs}}}},
                          {Rank(3), {3, 10, {{"compute", 90 * kMs}, {"data", 10 * kMs}}}}};
  const auto json = nlohmann::json::parse(report_as_json(outcome(failed)));
  EXPECT_EQ(json["attempts"][0]["profile"], nullptr);
  const auto profile = json["attempts"][1]["profile"];
  EXPECT_EQ(profile["steps"], 10);
  EXPECT_EQ(profile["step_ms"], 10.0);
  const nlohmann::json compute{{"mean_ms", 7.5}, {"share", 0.75}, {"longest_ms", 9.0}, {"longest_rank", 3}};
  EXPECT_EQ(profile["parts"]["compute"], compute);
  const nlohmann::json last{
      {"rank", 3}, {"steps", 10}, {"step_ms", 10.0}, {"parts_ms", {{"compute", 9.0}, {"data", 1.0}}}};
  EXPECT_EQ(profile["ranks"][1], last);
  EXPECT_THAT(json["details"].get<std::string>(),
              HasSubstr("  compute          7.50   75.0 %      9.00 ms on rank 3\n"));
  EXPECT_THAT(summary(outcome(failed)), Not(HasSubstr("compute"))) << "a failure has more to say";
  Verdict verdict;
  verdict.kind = Verdict::Kind::kSucceeded;
  EXPECT_THAT(
      summary(outcome(verdict)),
      HasSubstr(
          "restart; logs: /logs/job-7\nlaunch: 10.0 ms a step: compute 75 %, communicate 20 %, data 5 %\n"));
}

}  // namespace
}  // namespace muster::launcher
