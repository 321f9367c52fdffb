#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <regex>

#include "common/base/text.h"
#include "launcher/core/sweep/view/best.h"
#include "launcher/core/sweep/view/forest.h"
#include "launcher/core/sweep/view/importance.h"
#include "launcher/core/sweep/view/pictures.h"
#include "launcher/core/sweep/view/svg.h"
#include "launcher/core/sweep/view/table.h"
#include "launcher/core/text/table.h"

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Objective kLoss{.metric = "val_loss", .mode = Mode::kMin};
const Objective kAccuracy{.metric = "accuracy", .mode = Mode::kMax};

class Told {
 public:
  // A trial with one run and these values at the steps 1, 2, ...; nullopt: it still runs.
  Told& trial(Point point, const std::vector<std::map<std::string, double>>& values,
              std::optional<RunEnd> end = RunEnd::kFinished, std::string text = "") {
    const auto number = static_cast<std::int32_t>(history_.trials().size());
    apply(TrialCreated{.trial = number, .point = std::move(point), .reason = ""});
    apply(RunBegan{.trial = number});
    for (std::size_t i = 0; i < values.size(); ++i)
      apply(Reported{.trial = number,
                     .step = static_cast<std::int64_t>(i) + 1,
                     .values = values[i],
                     .at = 10.0 * (number + 1)});
    if (end) apply(RunEnded{.trial = number, .end = *end, .text = std::move(text), .at = 10.0 * number + 75});
    return *this;
  }
  void apply(const Event& event) {
    const Status applied = history_.apply(event);
    EXPECT_TRUE(applied) << applied.error().message();
  }
  const History& history() const { return history_; }

 private:
  History history_;
};

Told losses(const std::vector<double>& values) {
  Told told;
  for (const double value : values) told.trial({{"lr", 0.1}}, {{{"val_loss", value}}});
  return told;
}

// ---- Tables ----

Told small_sweep() {
  Told told;
  told.trial({{"lr", 0.1 / 3}, {"units", std::int64_t{64}}}, {{{"val_loss", 0.5}}, {{"val_loss", 0.25}}});
  told.trial({{"lr", 1e-5}, {"units", std::int64_t{32}}}, {{{"val_loss", kNaN}}}, RunEnd::kStopped,
             "worse than 2 of 3 at step 1");
  told.trial({{"lr", 0.02}, {"units", std::int64_t{128}}}, {}, RunEnd::kInfeasible,
             "out of GPU memory\nmore");
  told.trial({{"lr", 0.03}, {"units", std::int64_t{32}}}, {{{"val_loss", 1234567.0}}}, std::nullopt);
  told.apply(TrialCreated{.trial = 4, .point = {{"act", std::string("relu")}}, .reason = ""});
  return told;
}

TEST(SweepTable, HasARowForEachTrial) {
  const Told told = small_sweep();
  EXPECT_EQ(
      trials_as_table(told.history().trials(), {kLoss}, {.now = 100}),
      "TRIAL  STATE       PARAMETERS                VAL_LOSS  STEP   TIME  WHY\n"
      "    0  finished    lr=0.0333333 units=64         0.25     2  1m05s\n"
      "    1  stopped     lr=1e-05 units=32              nan     1  1m05s  worse than 2 of 3 at step 1\n"
      "    2  infeasible  lr=0.02 units=128                -     -     0s  out of GPU memory\n"
      "    3  running     lr=0.03 units=32       1.23457e+06     1  1m00s\n"
      "    4  waiting     act=relu                         -     -      -\n");
}

TEST(SweepTable, FitsANarrowTerminal) {
  const Told told = small_sweep();
  const std::string text = trials_as_table(told.history().trials(), {kLoss}, {.now = 100, .width = 72});
  EXPECT_TRUE(fits(text, 72)) << text;
  EXPECT_THAT(text, HasSubstr("VAL_LOSS"));
}

TEST(SweepTable, HasAColumnForEachObjective) {
  Told told;
  told.trial({}, {{{"val_loss", 0.5}, {"accuracy", 0.9}}});
  EXPECT_THAT(trials_as_table(told.history().trials(), {kLoss, kAccuracy}, {}),
              HasSubstr("VAL_LOSS  ACCURACY  STEP"));
}

TEST(SweepTable, AsJsonHasAllDigitsAndNullForValuesThatAreNotFinite) {
  const Told told = small_sweep();
  const auto json = trials_as_json(told.history().trials());
  ASSERT_EQ(json.size(), 5u);
  EXPECT_EQ(json[0]["parameters"]["lr"], 0.1 / 3);
  EXPECT_EQ(json[0]["metrics"]["val_loss"], 0.25);
  EXPECT_EQ(json[0]["step"], 2);
  EXPECT_EQ(json[0]["began_at"], 10.0);
  EXPECT_EQ(json[0]["ended_at"], 75.0);
  EXPECT_TRUE(json[1]["metrics"]["val_loss"].is_null());
  EXPECT_EQ(json[2]["text"], "out of GPU memory\nmore");
  EXPECT_EQ(json[3]["state"], "running");
  EXPECT_TRUE(json[3]["ended_at"].is_null());
  EXPECT_TRUE(json[4]["step"].is_null());
  EXPECT_EQ(nlohmann::json::parse(json.dump()).size(), 5u);
}

TEST(SweepShow, HasTheParametersTheBestValuesAndAllOthersInATable) {
  Told told;
  told.trial({{"lr", 0.1 / 3}},
             {{{"val_loss", 0.5}, {"time", 7}}, {{"val_loss", 0.25}}, {{"val_loss", 0.375}}},
             RunEnd::kStopped, "worse than the median");
  EXPECT_EQ(trial_as_text(told.history().trials()[0], {kLoss}, {}),
            "trial 0: stopped, 1 run, 1m05s\n"
            "  why: worse than the median\n"
            "  lr = 0.03333333333333333\n"
            "  time 7 at step 1\n"
            "  val_loss 0.375 at step 3, best 0.25 at step 2\n"
            "\n"
            "STEP  TIME  VAL_LOSS\n"
            "   1     7       0.5\n"
            "   2            0.25\n"
            "   3           0.375\n");
  const auto json = trial_as_json(told.history().trials()[0]);
  EXPECT_EQ(json["measured"]["val_loss"][1]["step"], 2);
  EXPECT_EQ(json["measured"]["val_loss"][1]["value"], 0.25);
  EXPECT_EQ(json["parameters"]["lr"], 0.1 / 3);
}

TEST(SweepShow, SaysFromWhichTrialItContinued) {
  Told told;
  told.trial({{"lr", 0.1}}, {{{"val_loss", 0.5}}});
  told.trial({{"lr", 0.2}}, {{{"val_loss", 0.5}}}, RunEnd::kPaused);
  told.apply(Exploited{.trial = 1, .from = 0, .step = 1, .point = {{"lr", 0.12}}});
  EXPECT_THAT(
      trial_as_text(told.history().trials()[1], {kLoss}, {}),
      HasSubstr("  continued from the newest checkpoint of trial 0, which had got to step 1: lr=0.12\n"));
  EXPECT_EQ(trial_as_json(told.history().trials()[1])["exploits"][0]["from"], 0);
}

// ---- The best ----

TEST(BestTrials, AreSortedByTheirNewestValue) {
  const Told told = losses({0.5, 0.25, 0.75, 0.25});
  EXPECT_THAT(best_trials(told.history(), {kLoss}), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(best_trials(told.history(), {{.metric = "val_loss", .mode = Mode::kMax}}),
              ElementsAre(2, 0, 1, 3));
  Told worse;
  worse.trial({}, {{{"val_loss", 0.1}}, {{"val_loss", 0.9}}}).trial({}, {{{"val_loss", 0.5}}});
  EXPECT_THAT(best_trials(worse.history(), {kLoss}), ElementsAre(1, 0));
}

TEST(BestTrials, LeaveOutFailedTrialsAndValuesThatAreNotFinite) {
  Told told = losses({kNaN, -kInfinity, 0.5});
  told.trial({}, {{{"val_loss", 0.1}}}, RunEnd::kFailed);
  told.trial({}, {{{"val_loss", 0.1}}}, RunEnd::kInfeasible);
  told.trial({}, {});
  told.trial({}, {{{"val_loss", 0.4}}}, std::nullopt);
  told.trial({}, {{{"val_loss", 0.3}}}, RunEnd::kStopped);
  EXPECT_THAT(best_trials(told.history(), {kLoss}), ElementsAre(7, 6, 2));
  EXPECT_THAT(best_trials(told.history(), {kAccuracy}), IsEmpty());
  EXPECT_THAT(best_trials(told.history(), {}), IsEmpty());
}

TEST(BestTrials, OfTwoObjectivesAreTheParetoFront) {
  Told told;
  for (const auto& [loss, accuracy] : std::vector<std::pair<double, double>>{
           {0.5, 0.90}, {0.25, 0.80}, {0.6, 0.85}, {0.25, 0.80}, {0.125, 0.5}, {0.125, 0.4}})
    told.trial({}, {{{"val_loss", loss}, {"accuracy", accuracy}}});
  told.trial({}, {{{"val_loss", 0.0}}});  // has no accuracy
  EXPECT_THAT(best_trials(told.history(), {kLoss, kAccuracy}), ElementsAre(4, 1, 3, 0));
  EXPECT_THAT(best_trials(told.history(), {kAccuracy, kLoss}), ElementsAre(0, 1, 3, 4));
}

TEST(BestTrials, HaveAParetoFrontThatCoversAllOthers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Told told;
    std::vector<std::array<double, 3>> values;
    for (int i = 0; i < 40; ++i) {
      values.push_back({static_cast<double>(random() % 8), static_cast<double>(random() % 8),
                        static_cast<double>(random() % 8)});
      told.trial({}, {{{"a", values.back()[0]}, {"b", values.back()[1]}, {"c", values.back()[2]}}});
    }
    const auto front = best_trials(told.history(), {{"a"}, {"b"}, {"c"}});
    const auto covers = [&](std::size_t one, std::size_t other) {
      bool all = true;
      for (std::size_t i = 0; i < 3; ++i) all = all && values[one][i] <= values[other][i];
      return all;
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool in_front = std::ranges::find(front, static_cast<std::int32_t>(i)) != front.end();
      std::size_t covering = 0;
      for (const std::int32_t each : front)
        covering +=
            covers(static_cast<std::size_t>(each), i) && values[static_cast<std::size_t>(each)] != values[i]
                ? 1U
                : 0U;
      EXPECT_EQ(in_front, covering == 0) << "seed " << seed << ", trial " << i;
    }
  }
}

TEST(BestTrials, TrainAgainWithACommandForAShell) {
  const auto space = parse_space("lr=loguniform:1e-5:1e-1,name=choice:a:b").value();
  const Point point = {{"lr", 0.001}, {"name", std::string("it's $HOME")}};
  EXPECT_EQ(
      training_command({"train me", "--lr={lr}", "--name", "{name}", "{\"x\": 1}"}, space, point).value(),
      R"('train me' --lr=0.001 --name 'it'\''s $HOME' '{"x": 1}')");
  EXPECT_EQ(training_command({"t", "{trial}"}, space, point, {7, "", 0}).value(), "t 7");
  EXPECT_THAT(training_command({"t", "{lt}"}, space, point).error().message(), HasSubstr("lr"));
  EXPECT_EQ(training_command({"t", "--lr", "{lr}", "--name={name}"}, space, {}).value(), "t")
      << "parameters that do not exist in this point";
}

TEST(BestTrials, TrainAgainWithTheFlagsOfTheirJobs) {
  const Settings settings = {{"env", {"--env", {"A=1", "B=it's 2"}}},
                             {"device", {"device in sweep.yaml", {"cpu"}}},
                             {"hang-limit", {"--hang-limit", {"5", "20"}}},
                             {"warm", {"--warm", {"1"}}},
                             {"fold", {"fold in sweep.yaml", {"0"}}},
                             {"wrap", {"--wrap", {"0:nice -n 5"}}},
                             {"master-port", {"--master-port", {"29500"}}},
                             {"checkpoint-dir", {"--checkpoint-dir", {"ckpt"}}},
                             {"memory-tier", {"--memory-tier", {"1G"}}},
                             {"connect-timeout", {"MUSTER_CONNECT_TIMEOUT", {"3"}}},
                             {"json", {"--json", {"1"}}},
                             {"space", {"--space", {"x=int:1:2"}}},
                             {"seed", {"--seed", {"7"}}}};
  EXPECT_EQ(launch_command(settings, {}),
            R"(launch --device cpu --env A=1 --env 'B=it'\''s 2' --hang-limit 20 --master-port 29500 --warm )"
            "--wrap '0:nice -n 5'");
  SweepOptions large;
  large.nodes_per_trial = 2;
  large.gpus_per_trial = 4;
  EXPECT_EQ(launch_command({{"role", {"--role", {"-a"}}}}, large),
            "launch --nodes 2 --gpus-per-node 4 --role=-a");
  EXPECT_EQ(launch_command({{"hosts", {"--hosts", {"a:8", "b:8"}}}}, {}),
            "launch --nodes 1 --gpus-per-node 1 --hosts a:8 --hosts b:8");
}

// ---- Importance ----

// All points of a grid in [0, 1] x [0, 1] x a choice of 3, `side` numbers on each side.
template <class Function>
ForestData grid(int side, Function function) {
  ForestData data{.features = {0, 0, 3}, .rows = {}, .targets = {}};
  for (int x = 0; x < side; ++x) {
    for (int y = 0; y < side; ++y) {
      for (int z = 0; z < 3; ++z) {
        data.rows.push_back({(x + 0.5) / side, (y + 0.5) / side, static_cast<double>(z)});
        data.targets.push_back(function(data.rows.back()[0], data.rows.back()[1], z));
      }
    }
  }
  return data;
}

TEST(Forest, GivesTheWholeVarianceToTheOnlyFeatureThatCounts) {
  const auto effects = main_effects(grid(8, [](double x, double, int) { return x * x; }), {});
  ASSERT_TRUE(effects);
  EXPECT_NEAR(effects->at(0).share, 1, 1e-9);
  EXPECT_NEAR(effects->at(1).share, 0, 1e-9);
  EXPECT_NEAR(effects->at(2).share, 0, 1e-9);
  EXPECT_NEAR(effects->at(0).deviation, 0, 1e-9);
}

TEST(Forest, SharesTheVarianceOfASumByItsParts) {
  // The variances of x, 2 y and the choices 0, 1, 2: 1/12, 4/12 and 2/3.
  const auto effects = main_effects(grid(16, [](double x, double y, int z) { return x + 2 * y + z; }), {});
  ASSERT_TRUE(effects);
  const double all = 5.0 / 12 + 2.0 / 3;
  EXPECT_NEAR(effects->at(0).share, 1.0 / 12 / all, 0.02);
  EXPECT_NEAR(effects->at(1).share, 4.0 / 12 / all, 0.02);
  EXPECT_NEAR(effects->at(2).share, 2.0 / 3 / all, 0.02);
}

TEST(Forest, GivesNothingToFeaturesThatCountOnlyTogether) {
  const auto effects =
      main_effects(grid(8, [](double x, double y, int) { return (x < 0.5) == (y < 0.5) ? 1.0 : 0.0; }), {});
  ASSERT_TRUE(effects);
  for (const MainEffect& effect : *effects) EXPECT_LT(effect.share, 0.1);
}

TEST(Forest, IntegratesOverTheSpaceAndNotOverTheSamples) {
  // Nine of ten samples are in the lower tenth of the space, but the step at 0.5 halves the space.
  ForestData data{.features = {0, 0}, .rows = {}, .targets = {}};
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const double y = static_cast<double>(random() % 1000) / 1000;
    const double x = static_cast<double>(random() % 1000) / (i % 10 == 0 ? 1000 : 10'000);
    data.rows.push_back({x, y});
    data.targets.push_back((x < 0.5 ? 0 : 1) + (y < 0.5 ? 0 : 1));
  }
  const auto effects = main_effects(data, {});
  ASSERT_TRUE(effects);
  EXPECT_NEAR(effects->at(0).share, 0.5, 0.1);
  EXPECT_NEAR(effects->at(1).share, 0.5, 0.1);
}

TEST(Forest, HasNoEffectsIfAllTargetsAreEqual) {
  EXPECT_FALSE(main_effects(grid(2, [](double, double, int) { return 3.0; }), {}));
  EXPECT_FALSE(main_effects({}, {}));
}

TEST(Forest, HasSharesOfAtMostOneInAllForAnySeed) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::mt19937_64 random(seed);
    ForestData data{.features = {0, 4, 0}, .rows = {}, .targets = {}};
    for (int i = 0; i < 30; ++i) {
      data.rows.push_back({static_cast<double>(random() % 100) / 100, static_cast<double>(random() % 4),
                           static_cast<double>(random() % 3) / 3});
      data.targets.push_back(static_cast<double>(random() % 1000));
    }
    const auto effects = main_effects(data, {.seed = seed});
    ASSERT_TRUE(effects);
    double sum = 0;
    for (const MainEffect& effect : *effects) sum += effect.share;
    EXPECT_LE(sum, 1 + 1e-9);
    EXPECT_GT(sum, 0);
    const auto again = main_effects(data, {.seed = seed});
    EXPECT_EQ(effects->at(0).share, again->at(0).share);
  }
}

TEST(Importance, WeighsTheDecadesOfALogarithmicParameterAlike) {
  const auto space = parse_space("lr=loguniform:1e-5:1e-1,x=uniform:0:1").value();
  Told told;
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const double lr = std::pow(10, -5 + static_cast<double>(random() % 4000) / 1000);
    const double x = static_cast<double>(random() % 1000) / 1000;
    told.trial({{"lr", lr}, {"x", x}}, {{{"val_loss", (lr < 1e-3 ? 1 : 0) + 0.25 * x}}});
  }
  const auto all = importances(space, told.history(), "val_loss");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->parameters.at(0).parameter, "lr");
  EXPECT_NEAR(all->parameters.at(0).share, 0.98, 0.02);  // 1/4 and 1/192
  EXPECT_NEAR(all->parameters.at(1).share, 0.02, 0.02);
  const std::string table = importances_as_text(*all, "val_loss", 0);
  EXPECT_THAT(table, HasSubstr("PARAMETER  IMPORTANCE"));
  EXPECT_LT(table.find("\nlr "), table.find("\nx "));
}

TEST(Importance, LearnsOnlyFromFinishedTrialsAndParametersThatAllOfThemHave) {
  const auto space = parse_space("a=uniform:0:1,b=choice:x:y,c=constant:3,d=uniform:0:1").value();
  Told told;
  for (int i = 0; i < 32; ++i) {
    Point point = {{"a", (i + 0.5) / 32}, {"b", std::string(i % 2 == 0 ? "x" : "y")}, {"c", std::int64_t{3}}};
    if (i > 0) point["d"] = 0.5;
    told.trial(point, {{{"val_loss", i / 32.0}}});
    told.trial(point, {{{"val_loss", i % 2 == 0 ? 1000.0 : -1000.0}}}, RunEnd::kStopped);
    told.trial(point, {{{"val_loss", kNaN}}});
  }
  const auto all = importances(space, told.history(), "val_loss");
  ASSERT_TRUE(all) << all.error().message();
  ASSERT_EQ(all->parameters.size(), 3u);
  EXPECT_EQ(all->parameters.at(0).parameter, "a");
  EXPECT_GT(all->parameters.at(0).share, 0.9);
  EXPECT_EQ(all->parameters.at(2).parameter, "c");
  EXPECT_EQ(all->parameters.at(2).share, 0);
}

// ASHA: all trials report step 1, the best ones also 2 and 3, and only one finishes.
TEST(Importance, ComparesAtTheHighestRungThatHalfOfTheTrialsReached) {
  const auto space = parse_space("a=uniform:0:1,b=uniform:0:1").value();
  const std::vector<std::int64_t> rungs = {1, 2, 3};
  const auto told = [](int of_thirty) {
    Told told;
    for (int i = 0; i < 30; ++i) {
      const double a = (i + 0.5) / 30;
      std::vector<std::map<std::string, double>> values = {{{"val_loss", a}}};
      if (i < of_thirty) values.resize(i == 0 ? 3 : 2, {{"val_loss", a - 1}});
      told.trial({{"a", a}, {"b", 0.5}}, values, i == 0 ? RunEnd::kFinished : RunEnd::kPaused);
    }
    return told;
  };
  const auto low = importances(space, told(10).history(), "val_loss", rungs);
  ASSERT_TRUE(low) << low.error().message();
  EXPECT_EQ(low->step, 1);
  EXPECT_EQ(low->trial_count, 30U);
  EXPECT_EQ(low->parameters.front().parameter, "a");
  EXPECT_THAT(importances_as_text(*low, "val_loss", 0),
              testing::StartsWith("val_loss at step 1, of 30 trials\n"));
  const auto high = importances(space, told(20).history(), "val_loss", rungs);
  ASSERT_TRUE(high) << high.error().message();
  EXPECT_EQ(high->step, 2);
  EXPECT_EQ(high->trial_count, 20U);
}

TEST(Importance, SaysWhichTrialsItNeeds) {
  const auto space = parse_space("lr=uniform:0:1").value();
  EXPECT_EQ(importances(space, losses({0.5, 0.5}).history(), "val_loss").error().message(),
            "importance needs two finished trials with different values of val_loss; 2 have a value");
  EXPECT_THAT(importances(space, losses({0.5}).history(), "val_loss").error().message(),
              testing::EndsWith("; 1 has a value"));
  EXPECT_FALSE(importances(space, History(), "val_loss"));
  EXPECT_EQ(importances(space, losses({0.5}).history(), "val_loss", std::vector<std::int64_t>{1, 3})
                .error()
                .message(),
            "importance needs two trials with different values of val_loss at step 1; 1 has a value");
}

// ---- Pictures ----

// Whether the text is an XML document without a prologue: one element, tags that match, quoted attributes,
// and only predefined entities. Returns what is wrong, or nothing.
std::string xml_fault(const std::string& text) {
  static const std::regex kTag(R"(<(/?)([a-zA-Z]+)((?: [a-zA-Z0-9-]+="[^"<]*")*)(/?)>)");
  static const std::regex kEntity("&(?!(?:amp|lt|gt|quot);)");
  if (std::regex_search(text, kEntity)) return "a bare &";
  for (const char letter : text) {
    if (static_cast<unsigned char>(letter) < ' ' && letter != '\n') return "a control character";
  }
  if (!is_utf8(text)) return "not UTF-8";
  std::vector<std::string> open;
  bool closed = false;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '<') {
      if (open.empty() && text[at] != '\n') return "text outside of the element";
      ++at;
      continue;
    }
    std::smatch match;
    const std::string rest = text.substr(at, 100'000);
    if (!std::regex_search(rest, match, kTag, std::regex_constants::match_continuous))
      return "not a tag: " + rest.substr(0, 80);
    at += static_cast<std::size_t>(match.length());
    if (closed) return "a second element";
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "unexpected </" + match[2].str();
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    closed = open.empty();
  }
  return closed ? "" : "an open element";
}

std::size_t count_of_text(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(XmlFault, SeesFaults) {
  EXPECT_EQ(xml_fault("<svg a=\"1\"><g/>x &amp; y</svg>\n"), "");
  for (const char* wrong : {"<svg>", "<svg></g></svg>", "<svg a=1/>", "<svg>&</svg>", "<svg/><svg/>",
                            "x<svg/>", "<svg>\x01</svg>", "<svg>\xff</svg>", "<svg><</svg>"})
    EXPECT_NE(xml_fault(wrong), "") << wrong;
}

Told drawn_sweep(const Space& space, int count) {
  Told told;
  std::mt19937 random(5);
  for (int i = 0; i < count; ++i) {
    std::vector<double> unit;
    for (std::size_t k = 0; k < space.parameters.size(); ++k)
      unit.push_back(static_cast<double>(random() % 1000) / 1000);
    told.trial(point_at(space, unit), {{{"val_loss", unit[0] + 0.1}}},
               i % 3 == 0 ? RunEnd::kStopped : RunEnd::kFinished);
  }
  return told;
}

Space drawn_space() {
  return space_from_json({{"space",
                           {{"lr", "loguniform:1e-5:1e-1"},
                            {"optimizer", {"sgd", "adam"}},
                            {"momentum", {{"uniform", {0, 1}}, {"when", {{"optimizer", "sgd"}}}}},
                            {"layers", "int:1:4"},
                            {"noise", "normal:0:1"},
                            {"width", "int-log:16:1024"},
                            {"fixed", 3}}}})
      .value();
}

TEST(ParallelCoordinates, HaveALineForEachTrialAndAnAxisForEachParameterThatVaries) {
  const Space space = drawn_space();
  const Told told = drawn_sweep(space, 20);
  const std::string svg = parallel_coordinates(space, told.history(), kLoss);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count_of_text(svg, "<polyline"), 20u);
  for (const char* text : {">lr<", ">optimizer<", ">sgd<", ">momentum<", ">none<", ">1e-05<", ">0.1<", ">4<",
                           ">1024<", ">val_loss<", "trial 7: val_loss "})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr(">fixed<")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count_of_text(svg, "stroke-width=\"4\" stroke-opacity"), 1u) << "the best trial";
}

TEST(CourseOfBest, HasAPointForEachTrialAndStepsForTheBest) {
  Told told = losses({0.5, 0.75, 0.25});
  told.trial({}, {{{"val_loss", 0.6}}}, RunEnd::kStopped);
  told.trial({}, {}, RunEnd::kFailed);
  const std::string svg = course_of_best(told.history(), kLoss);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(count_of_text(svg, "<circle"), 2u + 4u) << "two of the legend";
  EXPECT_EQ(count_of_text(svg, "(stopped)"), 1u);
  // 0.25 is the lowest value, 0.75 the highest; five trials share the width.
  EXPECT_THAT(svg, HasSubstr("<polyline points=\"96.0,210.0 412.0,210.0 412.0,364.0 728.0,364.0\""));
  EXPECT_THAT(svg, HasSubstr("best: trial 2, 0.25"));
}

TEST(Pictures, OfASweepWithoutValuesSaySo) {
  for (const auto& told : {Told(), losses({kNaN})}) {
    EXPECT_THAT(course_of_best(told.history(), kLoss), HasSubstr("no trial has a value yet"));
    const std::string svg = parallel_coordinates(drawn_space(), told.history(), kLoss);
    EXPECT_THAT(svg, HasSubstr("no trial has a value yet"));
    EXPECT_EQ(xml_fault(svg), "");
  }
}

TEST(Pictures, AreWellFormedForAnyTextAndValue) {
  const std::string nasty = "<&\"'>\x01\xff]]>";
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {1}, {2, 2}, {1e-300, 1e300}, {-1e308, 1e308}, {0, 5e-324}, {1e9, 1e-3}}) {
    Told told;
    Space space;
    space.parameters.push_back(
        {.name = "act", .kind = Parameter::Kind::kChoice, .choices = {nasty, std::string("b")}});
    for (const double value : values) told.trial({{"act", nasty}}, {{{nasty, value}}});
    const Objective objective{.metric = nasty, .mode = Mode::kMax};
    for (const std::string& svg : {parallel_coordinates(space, told.history(), objective),
                                   course_of_best(told.history(), objective)}) {
      EXPECT_EQ(xml_fault(svg), "");
      EXPECT_FALSE(std::regex_search(svg, std::regex(R"re([xy12rc]="[^"]*(nan|inf))re"))) << svg;
    }
  }
}

TEST(Scale, HasRoundTicksWithinItsRange) {
  EXPECT_THAT(Scale({0, 10}).ticks(), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(Scale({0.13, 0.87}).ticks(), ElementsAre(0.2, 0.4, 0.6000000000000001, 0.8));
  EXPECT_THAT(Scale({7}).ticks(), ElementsAre(7));
  const Scale wide({0.001, 100});
  EXPECT_TRUE(wide.is_logarithmic());
  EXPECT_THAT(wide.ticks(), ElementsAre(testing::DoubleEq(0.001), testing::DoubleEq(0.01),
                                        testing::DoubleEq(0.1), 1, 10, 100));
  EXPECT_NEAR(wide.position(1), 0.6, 1e-12);
  EXPECT_FALSE(Scale({-1, 1e6}).is_logarithmic());
}

}  // namespace
}  // namespace muster::launcher::sweep
