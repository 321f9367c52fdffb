// OPTUNA_LOG and OPTUNA_JSON may name a journal of Optuna's and what Optuna reads in it:
// tests/python/optuna_test.py. Without them the golden files are read, which it has written. OPTUNA_EXPORT
// may name a file for what the golden file exported.log should be.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "common/base/file.h"
#include "launcher/io/sweep/optuna.h"
#include "tests/scratch_directory.h"

namespace muster::launcher::sweep {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kLimit = std::uint64_t{1} << 24;

History folded(const std::vector<Event>& events) {
  History history;
  for (const Event& event : events) {
    const Status applied = history.apply(event);
    EXPECT_TRUE(applied) << applied.error().message();
  }
  return history;
}

OptunaStudy golden_study() {
  return {.name = "sweep 1",
          .objectives = {{.metric = "val_loss", .mode = Mode::kMin}},
          .space = parse_space("lr=loguniform:1e-5:1e-1,dropout=quniform:0:0.9:0.25,units=int:32:128,"
                               "width=int-log:16:1024,act=choice:relu:gelu,bias=choice:true:false,"
                               "noise=normal:0:1,seed=constant:7")
                       .value(),
          .began_unix = 1'795'000'000.25};
}

// A trial in each state.
std::vector<Event> golden_events() {
  const Point point = {{"lr", 0.0123},
                       {"dropout", 0.25},
                       {"units", std::int64_t{64}},
                       {"width", std::int64_t{100}},
                       {"act", std::string("relu")},
                       {"bias", true},
                       {"noise", -0.5},
                       {"seed", std::int64_t{7}}};
  std::vector<Event> events;
  const auto create = [&](std::int32_t trial) {
    events.emplace_back(TrialCreated{.trial = trial, .point = point, .reason = ""});
  };
  const auto run = [&](std::int32_t trial, const std::vector<double>& losses) {
    create(trial);
    events.emplace_back(RunBegan{.trial = trial});
    for (std::size_t i = 0; i < losses.size(); ++i) {
      std::map<std::string, double> values = {{"val_loss", losses[i]}};
      if (trial == 0) values["accuracy"] = 0.75;
      events.emplace_back(Reported{
          .trial = trial, .step = static_cast<std::int64_t>(i) + 1, .values = values, .at = 10.0 * trial});
    }
  };
  const auto end = [&](std::int32_t trial, RunEnd how, const std::string& text = "") {
    events.emplace_back(RunEnded{.trial = trial, .end = how, .text = text, .at = 10.0 * trial + 65.5});
  };
  run(0, {0.5, 0.25});
  end(0, RunEnd::kFinished);
  run(1, {kNaN, kInfinity});
  end(1, RunEnd::kStopped, "worse than 2 of \"3\"");
  run(2, {});
  end(2, RunEnd::kInfeasible, "out of GPU memory");
  run(3, {0.75});
  end(3, RunEnd::kPaused);
  run(4, {0.625});
  create(5);
  run(6, {kNaN});
  end(6, RunEnd::kFinished);
  return events;
}

TEST(OptunaExport, WritesTheGoldenFile) {
  const std::string text = as_optuna_journal(golden_study(), folded(golden_events()).trials());
  if (const char* const path = std::getenv("OPTUNA_EXPORT")) std::ofstream(path) << text;
  EXPECT_EQ(text, read_file(OPTUNA_GOLDEN "/exported.log", kLimit).value_or(""));
}

TEST(OptunaExport, ReadsBackAsTheSameSweep) {
  const auto before = folded(golden_events()).trials();
  const auto imported = parse_optuna_journal(as_optuna_journal(golden_study(), before), "");
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_EQ(imported->study.name, "sweep 1");
  EXPECT_EQ(imported->study.objectives.at(0).metric, "val_loss");
  EXPECT_EQ(imported->study.space.parameters, golden_study().space.parameters);
  EXPECT_EQ(imported->study.began_unix, golden_study().began_unix);
  const History history = folded(imported->events);
  ASSERT_EQ(history.trials().size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Trial& trial = history.trials()[i];
    const bool was_paused = before[i].state == TrialState::kPaused;
    EXPECT_EQ(trial.state, was_paused ? TrialState::kStopped : before[i].state) << i;
    EXPECT_EQ(trial.point, before[i].point) << i;
    EXPECT_EQ(trial.text, before[i].text) << i;
    EXPECT_EQ(trial.ended_at, before[i].ended_at) << i;
    const auto value = trial.newest("val_loss");
    EXPECT_EQ(value.has_value(), before[i].newest("val_loss").has_value()) << i;
    if (value && !std::isnan(*value)) {
      EXPECT_EQ(*value, before[i].newest("val_loss")) << i;
    }
  }
}

TEST(OptunaExport, OfSeveralObjectivesHasAllValues) {
  OptunaStudy study = golden_study();
  study.objectives.push_back({.metric = "accuracy", .mode = Mode::kMax});
  const std::string text = as_optuna_journal(study, folded(golden_events()).trials());
  EXPECT_THAT(text,
              AllOf(HasSubstr(R"("directions":[1,2])"), HasSubstr(R"("value":null,"values":[0.25,0.75])")));
  const History history = folded(parse_optuna_journal(text, "").value().events);
  EXPECT_EQ(history.trials()[0].newest("accuracy"), 0.75);
  EXPECT_EQ(history.trials()[0].newest("val_loss"), 0.25);
}

TEST(OptunaExport, EndsARangeAtItsLastStep) {
  OptunaStudy study{.name = "s", .objectives = {{"x"}}, .space = {}, .began_unix = 0};
  for (const auto& [given, high] : std::map<std::string, std::string>{
           {"0:0.3:0.1", "0.3"}, {"0:0.35:0.1", "0.3"}, {"0.1:1:0.25", "0.85"}, {"0:1000:0.1", "1000.0"}}) {
    study.space = parse_space("q=quniform:" + given).value();
    const std::vector<Trial> trials = {{.number = 0, .point = {{"q", 0.1}}}};
    EXPECT_THAT(as_optuna_journal(study, trials), HasSubstr(R"(\"high\":)" + high + ",")) << given;
  }
}

TEST(OptunaExport, DoesNotOverwriteAFile) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "study.log";
  ASSERT_TRUE(write_optuna_journal(path, golden_study(), {}));
  EXPECT_EQ(write_optuna_journal(path, golden_study(), {}).error().message(),
            path + " exists already: choose another file");
  EXPECT_EQ(read_optuna_journal(path, "")->events.size(), 0u);
}

// ---- Import ----

std::string file_of(const char* variable, const char* golden) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? given : golden;
}

double number_of(const ordered_json& json) {
  return json.is_string() ? std::strtod(json.get<std::string>().c_str(), nullptr) : json.get<double>();
}

bool same(double one, double other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

void expect_same(const Trial& trial, const ordered_json& expected, const std::vector<Objective>& objectives) {
  const std::map<std::string, TrialState> states = {{"COMPLETE", TrialState::kFinished},
                                                    {"PRUNED", TrialState::kStopped},
                                                    {"FAIL", TrialState::kFailed},
                                                    {"RUNNING", TrialState::kRunning},
                                                    {"WAITING", TrialState::kWaiting}};
  const std::string state = expected["state"];
  // Attributes of an exported sweep keep what Optuna does not know.
  if (state == "PRUNED" || state == "FAIL") {
    EXPECT_TRUE(trial.is_over() || trial.state == TrialState::kPaused);
  } else {
    EXPECT_EQ(trial.state, states.at(state));
  }
  EXPECT_EQ(trial.point.size(), expected["params"].size());
  for (const auto& [name, value] : expected["params"].items()) {
    EXPECT_EQ(trial.point.at(name), value_from_json(value).value()) << name;
  }
  for (const auto& [step, value] : expected["intermediate"].items()) {
    const auto found = trial.value_at(objectives.front().metric, std::stoll(step));
    ASSERT_TRUE(found) << step;
    EXPECT_TRUE(same(*found, number_of(value))) << step << ": " << *found;
  }
  if (expected["values"].is_null()) return;
  for (std::size_t i = 0; i < objectives.size(); ++i)
    EXPECT_TRUE(same(trial.newest(objectives[i].metric).value(), number_of(expected["values"][i])));
}

TEST(OptunaImport, HasTheTrialsThatOptunaHas) {
  const std::string path = file_of("OPTUNA_LOG", OPTUNA_GOLDEN "/by_optuna.log");
  std::ifstream stream(file_of("OPTUNA_JSON", OPTUNA_GOLDEN "/by_optuna.json"));
  const ordered_json expected = ordered_json::parse(stream);
  const auto imported = read_optuna_journal(path, expected["name"]);
  ASSERT_TRUE(imported) << imported.error().message();
  const History history = folded(imported->events);
  ASSERT_EQ(imported->study.objectives.size(), expected["modes"].size());
  EXPECT_EQ(imported->study.objectives[0].metric, expected["metrics"][0].get<std::string>());
  EXPECT_EQ(imported->study.objectives[0].mode, expected["modes"][0] == "MAXIMIZE" ? Mode::kMax : Mode::kMin);
  ASSERT_EQ(history.trials().size(), expected["trials"].size());
  ASSERT_GT(history.trials().size(), 5u);
  for (std::size_t i = 0; i < history.trials().size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(history.trials()[i], expected["trials"][i], imported->study.objectives);
  }
}

TEST(OptunaImport, HasASpaceForTheDistributions) {
  const auto imported = read_optuna_journal(OPTUNA_GOLDEN "/by_optuna.log", "Lernrate \u03b7");
  ASSERT_TRUE(imported) << imported.error().message();
  std::map<std::string, Parameter> found;
  for (const Parameter& parameter : imported->study.space.parameters) found[parameter.name] = parameter;
  using enum Parameter::Kind;
  EXPECT_EQ(found.size(), 8u);
  EXPECT_EQ(found["lr"], (Parameter{.name = "lr", .kind = kLogUniform, .low = 1e-5, .high = 0.1}));
  EXPECT_EQ(found["momentum"], (Parameter{.name = "momentum", .kind = kUniform, .low = 0, .high = 0.99}))
      << "the wider of its two ranges";
  EXPECT_EQ(found["dropout"],
            (Parameter{.name = "dropout", .kind = kQUniform, .low = 0, .high = 0.5, .step = 0.1}));
  EXPECT_EQ(found["layers"], (Parameter{.name = "layers", .kind = kInt, .low = 1, .high = 4}));
  EXPECT_EQ(found["width"], (Parameter{.name = "width", .kind = kIntLog, .low = 16, .high = 1024}));
  EXPECT_EQ(found["units"].kind, kChoice);
  EXPECT_EQ(found["units"].choices.size(), 8u);
  EXPECT_EQ(found["units"].choices[1], Value(std::int64_t{64}));
  EXPECT_EQ(found["optimizer"].choices, (std::vector<Value>{std::string("sgd"), std::string("adam"),
                                                            std::monostate(), std::int64_t{3}, true, 0.5}));
  EXPECT_EQ(found["nesterov"].choices, (std::vector<Value>{true, false}));
  const auto kept = space_from_json(space_as_json(imported->study.space));  // as sweep.db does
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_EQ(kept->parameters, imported->study.space.parameters);
  const auto trials = folded(imported->events).trials();
  EXPECT_THAT(as_optuna_journal(imported->study, trials),
              testing::HasSubstr(R"({\"choices\":[\"sgd\",\"adam\",null,3,true,0.5]})"));
}

std::string study_line(const std::string& name) {
  return R"({"op_code":0,"worker_id":"w","study_name":")" + name + "\",\"directions\":[2]}\n";
}
std::string trial_line(int study, const std::string& more) {
  return fmt::format(R"({{"op_code":4,"worker_id":"w","study_id":{},"datetime_start":null{}}})", study,
                     more) +
         "\n";
}
std::string changed_line(int operation, int trial, const std::string& more) {
  return fmt::format(R"({{"op_code":{},"worker_id":"w","trial_id":{},{}}})", operation, trial, more) + "\n";
}

TEST(OptunaImport, KnowsDistributionsOfOldVersions) {
  const auto parameter = [](int trial, const std::string& name, const std::string& distribution) {
    return changed_line(5, trial,
                        fmt::format(R"("param_name":"{}","param_value_internal":2.0,"distribution":"{}")",
                                    name, distribution));
  };
  const std::string text =
      study_line("s") + trial_line(0, "") +
      parameter(0, "a", R"({\"name\":\"UniformDistribution\",\"attributes\":{\"low\":0,\"high\":4}})") +
      parameter(0, "b", R"({\"name\":\"LogUniformDistribution\",\"attributes\":{\"low\":1,\"high\":4}})") +
      parameter(
          0, "c",
          R"({\"name\":\"DiscreteUniformDistribution\",\"attributes\":{\"low\":0,\"high\":4,\"q\":0.5}})") +
      parameter(0, "d",
                R"({\"name\":\"IntUniformDistribution\",\"attributes\":{\"low\":0,\"high\":4,\"step\":1}})") +
      parameter(
          0, "e",
          R"({\"name\":\"IntLogUniformDistribution\",\"attributes\":{\"low\":1,\"high\":4,\"step\":1}})") +
      parameter(0, "f", R"({\"name\":\"UniformDistribution\",\"attributes\":{\"low\":2,\"high\":2}})") +
      changed_line(6, 0, R"("state":1,"values":[3.5],"datetime_complete":"2026-11-30T12:00:00.5+01:00")");
  const auto imported = parse_optuna_journal(text, "s");
  ASSERT_TRUE(imported) << imported.error().message();
  std::vector<Parameter::Kind> kinds;
  for (const Parameter& each : imported->study.space.parameters) kinds.push_back(each.kind);
  using enum Parameter::Kind;
  EXPECT_THAT(kinds, ElementsAre(kUniform, kLogUniform, kQUniform, kInt, kIntLog, kConstant));
  const History history = folded(imported->events);
  EXPECT_EQ(history.trials()[0].newest("value"), 3.5);
  EXPECT_EQ(history.trials()[0].point.at("d"), Value(std::int64_t{2}));
  EXPECT_EQ(history.trials()[0].ended_at, 1'796'036'400.5) << "11:00 UTC";
}

TEST(OptunaImport, IgnoresOperationsThatCameTooLateAndALineThatIsBeingWritten) {
  const std::string over = changed_line(6, 0, R"("state":1,"values":[3.5])");
  const std::string text = study_line("s") + study_line("s") + trial_line(0, "") + trial_line(5, "") + over +
                           changed_line(6, 0, R"("state":3,"values":[4.5])") +
                           changed_line(7, 0, R"("step":1,"intermediate_value":9.0)") +
                           changed_line(7, 3, R"("step":1,"intermediate_value":9.0)");
  const std::string whole = changed_line(7, 0, R"("step":1,"intermediate_value":9.0)");
  for (const std::string& unfinished : {std::string(), std::string("{\"op_co"), std::string("{\"op_co\n"),
                                        whole.substr(0, whole.size() - 1)}) {
    const auto imported = parse_optuna_journal(text + unfinished, "");
    ASSERT_TRUE(imported) << imported.error().message();
    EXPECT_EQ(imported->unfinished_line.value_or(0), unfinished.empty() ? 0 : 9) << unfinished;
    const History history = folded(imported->events);
    ASSERT_EQ(history.trials().size(), 1u);
    EXPECT_EQ(history.trials()[0].state, TrialState::kFinished);
    EXPECT_EQ(history.trials()[0].newest("value"), 3.5);
  }
}

TEST(OptunaImport, NamesWhatItCannotRead) {
  const auto message = [](const std::string& text, const std::string& name) {
    return parse_optuna_journal(text, name).error().message();
  };
  EXPECT_EQ(message("", ""), "has no study");
  EXPECT_EQ(message(study_line("a") + study_line("b"), ""), "has 2 studies: name one of a, b");
  EXPECT_EQ(message(study_line("a") + study_line("b"), "c"), "has no study c, but a, b");
  const std::string no_journal =
      "line 1 is not a record of Optuna's journal: give a file of its JournalFileBackend";
  for (const std::string& text : {"{}\n" + study_line("a"), std::string("lr,loss\n0.1,2\n"),
                                  std::string("lr,loss\n"), std::string("SQLite format 3")})
    EXPECT_EQ(message(text, ""), no_journal);
  const std::string choice = R"({\"name\":\"CategoricalDistribution\",\"attributes\":{\"choices\":[]}})";
  const std::string range = R"({\"name\":\"FloatDistribution\",\"attributes\":{\"low\":0,\"high\":1}})";
  const auto trial_with = [&](const std::string& distribution) {
    return trial_line(0, R"(,"distributions":{"p":")" + distribution + R"("},"params":{"p":0.0})");
  };
  EXPECT_THAT(message(study_line("a") + trial_with(choice) + study_line("b"), ""),
              HasSubstr("line 2 is not"));
  const std::string logarithmic =
      R"({\"name\":\"FloatDistribution\",\"attributes\":{\"low\":1,\"high\":2,\"log\":true}})";
  EXPECT_EQ(message(study_line("a") + trial_with(range) + trial_with(logarithmic), ""),
            "parameter p: two trials have different kinds of it");
  EXPECT_THAT(read_optuna_journal("/nowhere/study.log", "").error().message(),
              HasSubstr("/nowhere/study.log: No such file"));
}

}  // namespace
}  // namespace muster::launcher::sweep
