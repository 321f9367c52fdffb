#include "launcher/core/sweep/search/search.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <string>

#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/search/parzen.h"
#include "launcher/core/sweep/search/ranking.h"
#include "launcher/core/sweep/search/sobol.h"

namespace muster::launcher::sweep {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::StartsWith;
using Kind = SearchSettings::Kind;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Space space_of(const std::string& text, const std::vector<std::string>& constraints = {}) {
  Space space = parse_space(text).value();
  for (const std::string& each : constraints) space.constraints.push_back(Constraint::parse(each).value());
  return space;
}
// `child` exists only if `of` is `value`.
void put_under(Space& space, const std::string& child, const std::string& of, const Value& value) {
  for (Parameter& parameter : space.parameters)
    if (parameter.name == child) parameter.when = Condition{of, {value}};
}

SearchSettings settings_of(Kind kind, std::uint64_t seed = 0) {
  return {.kind = kind, .objectives = {{.metric = "loss"}}, .rungs = {}, .seed = seed};
}

class SearchTest : public testing::Test {
 protected:
  void apply(const Event& event) {
    const auto applied = history_.apply(event);
    ASSERT_TRUE(applied.has_value()) << applied.error().message();
  }
  // The number of the new trial, whose run goes on.
  std::int32_t run(const Point& point, const std::vector<Measurement>& measured = {},
                   std::int64_t until = 0) {
    const auto trial = static_cast<std::int32_t>(history_.trials().size());
    apply(TrialCreated{.trial = trial, .point = point, .bracket = 0, .reason = "a test"});
    apply(RunBegan{.trial = trial, .run = 0, .until = until});
    for (const auto& [step, value] : measured)
      apply(Reported{.trial = trial, .step = step, .values = {{"loss", value}}});
    return trial;
  }
  std::int32_t end(RunEnd end, const Point& point, const std::vector<Measurement>& measured = {},
                   std::int64_t until = 0) {
    const std::int32_t trial = run(point, measured, until);
    apply(RunEnded{.trial = trial, .run = 0, .end = end});
    return trial;
  }
  std::int32_t finish(const Point& point, double value) {
    return end(RunEnd::kFinished, point, {{1, value}});
  }

  std::vector<std::string> texts(const SearchSettings& settings, const Space& space, int count) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) {
      const auto suggestion = suggest(settings, space, history_);
      if (!suggestion) break;
      all.push_back(point_as_json(suggestion->point).dump());
      finish(suggestion->point, i);
    }
    return all;
  }

  History history_;
};

double real(const Point& point, const std::string& name) {
  return std::get<double>(point.at(name));
}

TEST(IsBetter, NaNIsWorseThanEverything) {
  EXPECT_TRUE(is_better(Mode::kMin, 1, 2));
  EXPECT_TRUE(is_better(Mode::kMax, 2, 1));
  EXPECT_FALSE(is_better(Mode::kMin, 1, 1));
  EXPECT_TRUE(is_better(Mode::kMin, std::numeric_limits<double>::infinity(), kNaN));
  EXPECT_FALSE(is_better(Mode::kMax, kNaN, 1));
  EXPECT_FALSE(is_better(Mode::kMax, kNaN, kNaN));
}

// ---- Grid ----

TEST_F(SearchTest, GridChangesTheLastParameterFastestAndEnds) {
  const Space space = space_of("layers=int:1:2,act=choice:relu:gelu");
  EXPECT_EQ(point_count(space), 4);
  EXPECT_THAT(texts(settings_of(Kind::kGrid), space, 10),
              ElementsAre(R"({"act":"relu","layers":1})", R"({"act":"gelu","layers":1})",
                          R"({"act":"relu","layers":2})", R"({"act":"gelu","layers":2})"));
}

TEST_F(SearchTest, GridHasEachPointOnceWhereParametersAreConditional) {
  Space space = space_of("opt=choice:sgd:adam,momentum=quniform:0:1:0.5,beta=choice:1:2,seed=int-log:7:8");
  put_under(space, "momentum", "opt", "sgd");
  put_under(space, "beta", "opt", "adam");
  EXPECT_EQ(point_count(space), 3 * 2 + 2 * 2);
  const auto points = texts(settings_of(Kind::kGrid), space, 20);
  EXPECT_EQ(points.size(), 10);
  EXPECT_EQ(std::set(points.begin(), points.end()).size(), 10);
  EXPECT_EQ(points[2], R"({"momentum":0.5,"opt":"sgd","seed":7})");
  EXPECT_EQ(points[9], R"({"beta":2,"opt":"adam","seed":8})");
}

TEST_F(SearchTest, GridLeavesOutWhatConstraintsForbid) {
  const Space space = space_of("a=int:1:3,b=int:1:3", {"a < b"});
  EXPECT_EQ(point_count(space), 3);
  EXPECT_THAT(texts(settings_of(Kind::kGrid), space, 10),
              ElementsAre(R"({"a":1,"b":2})", R"({"a":1,"b":3})", R"({"a":2,"b":3})"));
}

TEST(PointCount, OfASpaceThatIsNotFiniteOrTooLargeIsUnknown) {
  EXPECT_EQ(point_count(space_of("a=int:1:3,lr=uniform:0:1")), std::nullopt);
  EXPECT_EQ(point_count(space_of("a=int:1:1000000000,b=int:1:1000000000")), std::nullopt);
  EXPECT_EQ(point_count(space_of("a=int:1:1000000000")), 1000000000);
}

TEST(CheckSearch, NamesTheParameterThatDoesNotFit) {
  const auto grid = check_search(settings_of(Kind::kGrid), space_of("a=int:1:3,lr=loguniform:0.1:1"));
  ASSERT_FALSE(grid.has_value());
  EXPECT_EQ(grid.error().message(),
            "--search grid: lr is loguniform, with infinitely many values; use choice, int or quniform");
  std::string many = "fixed=constant:1";
  for (std::size_t i = 0; i < kSobolDimensions; ++i) many += fmt::format(",p{}=uniform:0:1", i);
  EXPECT_TRUE(check_search(settings_of(Kind::kSobol), space_of(many)).has_value());
  const auto sobol = check_search(settings_of(Kind::kSobol), space_of(many + ",last=uniform:0:1"));
  ASSERT_FALSE(sobol.has_value());
  EXPECT_THAT(sobol.error().message(), HasSubstr("last"));
  SearchSettings without_metric{.kind = Kind::kTpe, .objectives = {}};
  EXPECT_FALSE(check_search(without_metric, space_of("a=int:1:3")).has_value());
}

// ---- Random ----

TEST_F(SearchTest, EverySearchDependsOnlyOnItsArguments) {
  const Space space = space_of("x=uniform:0:1,k=int:1:9,c=choice:a:b");
  for (int i = 0; i < 30; ++i)
    finish({{"x", i / 30.0}, {"k", std::int64_t{i % 9 + 1}}, {"c", std::string(i % 2 ? "a" : "b")}}, i % 7);
  for (const Kind kind : {Kind::kRandom, Kind::kSobol, Kind::kTpe, Kind::kBohb}) {
    const auto first = suggest(settings_of(kind, 3), space, history_);
    EXPECT_EQ(first->point, suggest(settings_of(kind, 3), space, history_)->point);
    EXPECT_NE(first->point, suggest(settings_of(kind, 4), space, history_)->point);
    EXPECT_EQ(why_not_in(space, first->point), std::nullopt);
  }
}

TEST_F(SearchTest, RandomPointsKeepTheConstraintsAndCoverTheRange) {
  const Space space = space_of("x=uniform:0:1,y=uniform:0:1", {"x + y < 0.5"});
  double most = 0;
  for (int i = 0; i < 300; ++i) {
    const auto suggestion = suggest(settings_of(Kind::kRandom), space, history_);
    EXPECT_LT(real(suggestion->point, "x") + real(suggestion->point, "y"), 0.5);
    most = std::max(most, real(suggestion->point, "x"));
    finish(suggestion->point, 0);
  }
  EXPECT_GT(most, 0.4);
}

TEST_F(SearchTest, NoSearchHasAPointIfTheConstraintsForbidAll) {
  const Space space = space_of("a=int:1:3", {"a > 3"});
  for (const Kind kind : {Kind::kGrid, Kind::kRandom, Kind::kSobol, Kind::kTpe, Kind::kBohb})
    EXPECT_EQ(suggest(settings_of(kind), space, history_), std::nullopt);
}

// ---- Sobol ----

// The digits are SciPy 1.17's, of scipy.stats.qmc.Sobol(64, scramble=False).
TEST(Sobol, HasThePointsOfJoeAndKuo) {
  EXPECT_EQ(sobol_digits(0, 0), 0);
  EXPECT_EQ(sobol_digits(0, 1), 0x80000000U);
  EXPECT_EQ(sobol_digits(1, 3), 0xc0000000U);
  EXPECT_EQ(sobol_digits(2, 5), 0x20000000U);
  EXPECT_EQ(sobol_digits(7, 100), 0x7a000000U);
  EXPECT_EQ(sobol_digits(31, 1000), 0x25400000U);
  EXPECT_EQ(sobol_digits(52, 777), 0x9dc00000U);
  EXPECT_EQ(sobol_digits(63, 1023), 0x0a400000U);
}

TEST(Sobol, EachCoordinateHasOnePointInEachInterval) {
  constexpr std::uint32_t kCount = 256;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    std::vector<std::set<int>> intervals(kSobolDimensions);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const auto point = sobol_point(kSobolDimensions, i, seed);
      for (std::size_t d = 0; d < point.size(); ++d) intervals[d].insert(static_cast<int>(point[d] * kCount));
    }
    for (const auto& each : intervals) EXPECT_EQ(each.size(), kCount);
  }
}

// The first two dimensions are a (0, m, 2)-net: any cut into 256 equal boxes has one point in each.
TEST(Sobol, ScramblingKeepsTheNet) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (int wide = 1; wide <= 256; wide *= 2) {
      std::set<std::pair<int, int>> boxes;
      for (std::uint32_t i = 0; i < 256; ++i) {
        const auto point = sobol_point(2, i, seed);
        boxes.emplace(static_cast<int>(point[0] * wide), static_cast<int>(point[1] * (256 / wide)));
      }
      EXPECT_EQ(boxes.size(), 256) << "seed " << seed << ", " << wide << " boxes wide";
    }
  }
  EXPECT_NE(sobol_point(2, 0, 1), sobol_point(2, 0, 2));
}

TEST_F(SearchTest, SobolSkipsForbiddenPointsAndRepeatsNone) {
  const Space space = space_of("x=uniform:0:1,one=constant:1,y=uniform:0:1", {"x < y"});
  const auto points = texts(settings_of(Kind::kSobol), space, 50);
  EXPECT_EQ(std::set(points.begin(), points.end()).size(), 50);
  for (const Trial& trial : history_.trials()) EXPECT_LT(real(trial.point, "x"), real(trial.point, "y"));
}

// ---- Coordinates and densities ----

TEST(Axis, ValuesAndCoordinatesBelongTogether) {
  const Space space = space_of(
      "u=uniform:-2:3,l=loguniform:1e-5:1e-1,i=int:1:8,g=int-log:16:64,q=quniform:0:1:0.1,n=normal:5:2,"
      "c=choice:a:b:c");
  for (const Parameter& parameter : space.parameters) {
    const Axis axis(parameter);
    for (double unit = 0.01; unit < 1; unit += 0.01) {
      const Value value = value_at(parameter, unit);
      const double at = axis.coordinate_in({{parameter.name, value}}).value();
      const Value again = axis.value(at);
      if (axis.has_cells() || axis.is_choice())
        EXPECT_EQ(again, value) << parameter.name;
      else
        EXPECT_NEAR(std::get<double>(again), std::get<double>(value), 1e-9) << parameter.name;
      if (axis.is_choice()) continue;
      // Where the values are equally likely, the coordinate is what the value was made from.
      EXPECT_NEAR(at, unit, axis.has_cells() ? 1.0 / static_cast<double>(axis.value_count()) : 1e-9)
          << parameter.name;
    }
  }
}

TEST(Axis, ValuesOfAnotherSpaceHaveNoCoordinate) {
  const Space space = space_of("i=int:1:8,c=choice:a:b");
  EXPECT_EQ(Axis(space.parameters[0]).coordinate_in({{"i", std::string("a")}}), std::nullopt);
  EXPECT_EQ(Axis(space.parameters[1]).coordinate_in({{"c", std::string("z")}}), std::nullopt);
  EXPECT_EQ(Axis(space.parameters[1]).coordinate_in({}), std::nullopt);
}

TEST(ParzenEstimator, OldObservationsCountLess) {
  EXPECT_THAT(observation_weights(25), Each(1.0));
  const auto weights = observation_weights(30);  // 5 rise from 1/30
  EXPECT_THAT(std::vector(weights.begin(), weights.begin() + 5),
              ElementsAre(DoubleNear(1 / 30.0, 1e-12), DoubleNear(8.25 / 30, 1e-12),
                          DoubleNear(15.5 / 30, 1e-12), DoubleNear(22.75 / 30, 1e-12), DoubleNear(1, 1e-12)));
  EXPECT_THAT(std::vector(weights.begin() + 5, weights.end()), Each(1.0));
}

// The same observations as the values below were computed from, by Optuna 5.0.0's _ParzenEstimator
// (with a stable sort: equal observations are neighbours in the order of their trials).
std::vector<Coordinates> observed(std::span<const Axis> axes, int count) {
  std::vector<Coordinates> observations;
  for (int k = 0; k < count; ++k) {
    const Point point = {{"u", -2 + 5 * ((k * 7) % count + 0.5) / count},
                         {"l", std::pow(10, -5 + 4 * ((k * 11) % count + 0.5) / count)},
                         {"i", std::int64_t{1 + (k * 5) % 8}},
                         {"g", std::int64_t{16 + (k * k * 37) % 1000}},
                         {"q", ((k * 3) % 11) * 0.1},
                         {"c", std::string(1, "abd"[k % 3])}};
    observations.emplace_back();
    for (const Axis& axis : axes) observations.back().push_back(axis.coordinate_in(point).value());
  }
  return observations;
}

// Optuna's densities are of the parameters, ours of their coordinates in [0, 1]: the logarithm of the ranges
// is added to Optuna's.
TEST(ParzenEstimator, HasTheDensityOfOptunas) {
  const Space space = space_of(
      "u=uniform:-2:3,l=loguniform:1e-5:1e-1,i=int:1:8,g=int-log:16:1024,q=quniform:0:1:0.1,c=choice:a:b:d");
  const std::vector<Axis> axes(space.parameters.begin(), space.parameters.end());
  const std::vector<Point> points = {
      {{"u", -1.9}, {"l", 2e-5}, {"i", std::int64_t{1}}, {"g", std::int64_t{16}}, {"q", 0.0}, {"c", "a"}},
      {{"u", 0.4}, {"l", 1e-3}, {"i", std::int64_t{4}}, {"g", std::int64_t{300}}, {"q", 0.5}, {"c", "b"}},
      {{"u", 2.5}, {"l", 0.09}, {"i", std::int64_t{8}}, {"g", std::int64_t{1024}}, {"q", 1.0}, {"c", "d"}}};
  const std::map<int, std::vector<double>> optuna = {
      {0, {-10.10280816737246, -12.532370997309194, -14.259595729994164}},
      {1, {-9.592220364301125, -12.702100676399663, -14.771810502337019}},
      {3, {-6.496220146844127, -12.384336674812385, -15.430369674570343}},
      {40, {-6.360444610869562, -15.075083818575997, -17.77672257866338}}};
  for (const auto& [count, densities] : optuna) {
    const ParzenEstimator estimator(axes, observed(axes, count));
    for (std::size_t i = 0; i < points.size(); ++i) {
      Coordinates at;
      for (const Axis& axis : axes) at.push_back(axis.coordinate_in(points[i]).value());
      EXPECT_NEAR(estimator.log_density(at), densities[i], 1e-6) << count << " observations, point " << i;
    }
  }
}

TEST(ParzenEstimator, SamplesHaveItsDensity) {
  const Space space = space_of("u=uniform:0:1,k=int-log:1:20,c=choice:a:b:d");
  for (std::size_t only = 0; only < 3; ++only) {
    const std::vector<Axis> axes = {Axis(space.parameters[only])};
    std::vector<Coordinates> observations;
    for (int i = 0; i < 6; ++i)
      observations.push_back({axes[0].is_choice() ? i % 2 : axes[0].snapped(0.1 + 0.02 * i)});
    const ParzenEstimator estimator(axes, observations);
    constexpr int kParts = 20;
    std::vector<double> expected(kParts);
    if (only == 0)
      for (int i = 0; i < 2000; ++i)
        expected[i / 100] += std::exp(estimator.log_density({(i + 0.5) / 2000})) / 2000;
    const auto part_of = [&](double at) {
      if (only == 0) return static_cast<std::int64_t>(at * kParts);
      return only == 1 ? std::get<std::int64_t>(axes[0].value(at)) - 1 : static_cast<std::int64_t>(at);
    };
    if (only > 0)
      for (std::uint64_t i = 0; i < axes[0].value_count(); ++i) {
        const double at = only == 2
                              ? static_cast<double>(i)
                              : axes[0].coordinate_in({{"k", static_cast<std::int64_t>(i + 1)}}).value();
        expected[i] = std::exp(estimator.log_density({at}));
      }
    std::vector<double> counted(kParts);
    Random random(1, 2, 3);
    for (int i = 0; i < 20000; ++i) counted[part_of(estimator.sample(random)[0])] += 1 / 20000.0;
    double sum = 0;
    for (int i = 0; i < kParts; ++i) {
      sum += expected[i];
      EXPECT_NEAR(counted[i], expected[i], 0.012) << space.parameters[only].name << ", part " << i;
    }
    EXPECT_NEAR(sum, 1, 2e-3);
  }
}

// ---- The order of trials ----

TEST_F(SearchTest, TrialsAreRankedAsOptunaRanksThem) {
  end(RunEnd::kStopped, {}, {{3, 0.1}});            // 0: stopped early with a good value
  finish({}, 0.5);                                  // 1
  end(RunEnd::kStopped, {}, {{3, 0.3}, {9, 0.9}});  // 2: stopped later
  finish({}, kNaN);                                 // 3
  end(RunEnd::kInfeasible, {});                     // 4
  run({});                                          // 5: nothing known
  finish({}, 0.4);                                  // 6
  end(RunEnd::kPaused, {}, {{9, 0.8}});             // 7: waits at the same step as 2, and is better
  end(RunEnd::kFailed, {}, {{9, 0.0}});             // 8
  run({}, {{4, 0.2}});                              // 9: runs, and has reported
  end(RunEnd::kStopped, {});                        // 10: stopped without a report
  const auto ranking = rank_trials({.metric = "loss"}, {}, history_.trials());
  EXPECT_THAT(ranking.ranked, ElementsAre(6, 1, 7, 2, 9, 0, 10, 3, 4, 8));
  EXPECT_THAT(ranking.pending, ElementsAre(5));
  // With rungs, 0 and 9 have both reached step 3, and 0 was better there.
  EXPECT_THAT(rank_trials({.metric = "loss"}, {3, 9}, history_.trials()).ranked,
              ElementsAre(6, 1, 7, 2, 0, 9, 10, 3, 4, 8));
  EXPECT_THAT(rank_trials({.metric = "loss", .mode = Mode::kMax}, {}, history_.trials()).ranked,
              ElementsAre(1, 6, 2, 7, 9, 0, 10, 3, 4, 8));
}

// ---- TPE ----

TEST_F(SearchTest, TpeBeginsAfterTenTrialsWithValues) {
  const Space space = space_of("x=uniform:0:1");
  for (int i = 0; i < 9; ++i) finish({{"x", i / 9.0}}, i);
  for (int i = 0; i < 5; ++i) run({{"x", 0.5}});
  EXPECT_THAT(suggest(settings_of(Kind::kTpe), space, history_)->reason, StartsWith("random: TPE begins"));
  finish({{"x", 0.95}}, 9);
  EXPECT_EQ(suggest(settings_of(Kind::kTpe), space, history_)->reason,
            "TPE: 24 candidates from 1 good and 14 other trials");
}

TEST_F(SearchTest, TpeLooksWhereTheGoodTrialsAre) {
  const Space space = space_of("x=uniform:0:1,c=choice:a:b:c");
  for (int i = 0; i < 100; ++i) {
    const double x = i / 100.0;
    finish({{"x", x}, {"c", std::string(1, static_cast<char>('a' + i % 3))}}, std::abs(x - 0.3) + i % 3);
  }
  int near = 0;
  int right_choice = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Point point = suggest(settings_of(Kind::kTpe, seed), space, history_)->point;
    near += std::abs(real(point, "x") - 0.3) < 0.2 ? 1 : 0;
    right_choice += point.at("c") == Value("a") ? 1 : 0;
  }
  EXPECT_GE(near, 90);
  EXPECT_GE(right_choice, 90);
}

TEST_F(SearchTest, TpeAvoidsPointsThatRunAtTheMoment) {
  const Space space = space_of("x=uniform:0:1");
  for (int i = 0; i < 40; ++i) finish({{"x", i / 40.0}}, std::abs(i / 40.0 - 0.5));
  const auto close_ones = [&] {
    int close = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed)
      close +=
          std::abs(real(suggest(settings_of(Kind::kTpe, seed), space, history_)->point, "x") - 0.5) < 0.02;
    return close;
  };
  const int before = close_ones();
  for (int i = 0; i < 10; ++i) run({{"x", 0.5}});
  EXPECT_LT(close_ones(), before / 2);
}

TEST_F(SearchTest, MaximizingIsMinimizingTheNegative) {
  const Space space = space_of("x=uniform:0:1,k=int:1:9");
  for (int i = 0; i < 40; ++i) {
    const Point point = {{"x", i / 40.0}, {"k", std::int64_t{i % 9 + 1}}};
    finish(point, std::sin(i));
  }
  for (const Kind kind : {Kind::kTpe, Kind::kBohb}) {
    SearchSettings settings = settings_of(kind);
    const Point least = suggest(settings, space, history_)->point;
    settings.objectives[0].mode = Mode::kMax;
    History mirrored;
    for (const Trial& trial : history_.trials()) {
      ASSERT_TRUE(mirrored.apply(
          TrialCreated{.trial = trial.number, .point = trial.point, .bracket = 0, .reason = {}}));
      ASSERT_TRUE(mirrored.apply(RunBegan{.trial = trial.number}));
      ASSERT_TRUE(mirrored.apply(
          Reported{.trial = trial.number, .step = 1, .values = {{"loss", -trial.newest("loss").value()}}}));
      ASSERT_TRUE(mirrored.apply(RunEnded{.trial = trial.number}));
    }
    EXPECT_EQ(suggest(settings, space, mirrored)->point, least);
  }
}

TEST_F(SearchTest, ModelsKeepConditionsAndConstraints) {
  Space space = space_of(
      "opt=choice:sgd:adam,momentum=uniform:0:1,nesterov=choice:true:false,beta=uniform:0:1,"
      "lr=loguniform:1e-4:1,one=constant:1",
      {"lr < 0.5", "momentum + lr < 1"});
  for (const char* const child : {"momentum", "nesterov"}) put_under(space, child, "opt", "sgd");
  put_under(space, "beta", "opt", "adam");
  for (const Kind kind : {Kind::kTpe, Kind::kBohb}) {
    history_ = History();
    int modelled = 0;
    for (int i = 0; i < 120; ++i) {
      const auto suggestion = suggest(settings_of(kind, 5), space, history_);
      ASSERT_EQ(why_not_in(space, suggestion->point), std::nullopt);
      modelled += suggestion->reason.starts_with("random") ? 0 : 1;
      finish(suggestion->point, real(suggestion->point, "lr"));
    }
    EXPECT_GE(modelled, 60);
  }
}

TEST_F(SearchTest, ModelsFindABowlsMinimumSoonerThanRandomPoints) {
  const Space space = space_of("x=uniform:-1:1,y=uniform:-1:1,z=uniform:-1:1,w=uniform:-1:1");
  std::map<Kind, double> sums;
  for (const Kind kind : {Kind::kRandom, Kind::kTpe, Kind::kBohb}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      history_ = History();
      double best = 100;
      for (int i = 0; i < 60; ++i) {
        const Point point = suggest(settings_of(kind, seed), space, history_)->point;
        double value = 0;
        for (const auto& [name, coordinate] : point) value += std::pow(std::get<double>(coordinate) - 0.3, 2);
        best = std::min(best, value);
        finish(point, value);
      }
      sums[kind] += best;
    }
  }
  EXPECT_LT(sums[Kind::kTpe], sums[Kind::kRandom] / 2);
  EXPECT_LT(sums[Kind::kBohb], sums[Kind::kRandom] / 1.4);
}

// ---- BOHB ----

TEST_F(SearchTest, BohbsModelIsOfTheHighestRungWithEnoughTrials) {
  const Space space = space_of("x=uniform:0:1,one=constant:1");
  SearchSettings settings = settings_of(Kind::kBohb);
  settings.rungs = {1, 3, 9};
  const auto reason = [&] {
    for (settings.seed = 0;; ++settings.seed)
      if (auto text = suggest(settings, space, history_)->reason;
          text != "random, as a third of BOHB's points")
        return text;
  };
  // One axis: two good trials and two others are needed.
  for (int i = 0; i < 3; ++i) end(RunEnd::kPaused, {{"x", i / 9.0}}, {{1, double(i)}}, 1);
  EXPECT_EQ(reason(), "random: BOHB begins after 4 trials with values at one rung");
  for (int i = 3; i < 20; ++i) end(RunEnd::kPaused, {{"x", i / 20.0}}, {{1, double(i)}}, 1);
  EXPECT_EQ(reason(), "BOHB: 64 samples from 3 good and 17 other trials at step 1");
  for (int i = 0; i < 3; ++i) end(RunEnd::kPaused, {{"x", i / 9.0}}, {{1, 0}, {3, double(i)}}, 3);
  EXPECT_THAT(reason(), HasSubstr("at step 1"));
  // A point that cannot be trained at step 3 counts there, as bad.
  end(RunEnd::kInfeasible, {{"x", 0.7}}, {{1, 0}}, 3);
  EXPECT_EQ(reason(), "BOHB: 64 samples from 2 good and 2 other trials at step 3");
}

TEST_F(SearchTest, AThirdOfBohbsPointsIsRandom) {
  const Space space = space_of("x=uniform:0:1");
  for (int i = 0; i < 20; ++i) finish({{"x", i / 20.0}}, i);
  int random = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed)
    random += suggest(settings_of(Kind::kBohb, seed), space, history_)->reason.starts_with("random") ? 1 : 0;
  EXPECT_THAT(random, AllOf(Ge(155), Le(245)));  // 200, four standard deviations each way
}

// ---- PBT's explore ----

TEST(Perturbed, NumbersGrowOrShrinkByAFifthWithinTheirRange) {
  const Space space = space_of("lr=loguniform:1e-4:1e-1,k=int:1:100,q=quniform:0:1:0.1,one=constant:1");
  const Point point = {{"lr", 0.01}, {"k", std::int64_t{2}}, {"q", 1.0}, {"one", std::int64_t{1}}};
  int anew = 0;
  std::set<std::int64_t> counts;
  std::set<std::string> steps;
  for (std::uint64_t nth = 0; nth < 400; ++nth) {
    const Point other = perturbed(space, point, 7, nth);
    EXPECT_EQ(other, perturbed(space, point, 7, nth));
    EXPECT_EQ(why_not_in(space, other), std::nullopt);
    const double lr = real(other, "lr");
    if (std::abs(lr - 0.008) > 1e-12 && std::abs(lr - 0.012) > 1e-12) {
      ++anew;
      continue;
    }
    counts.insert(std::get<std::int64_t>(other.at("k")));
    steps.insert(text_of(other.at("q")));
  }
  EXPECT_THAT(anew, AllOf(Ge(65), Le(135)));
  EXPECT_THAT(counts, ElementsAre(1, 3))
      << "0.8 and 1.2 times 2 are both 2 when rounded: the next one is taken";
  EXPECT_THAT(steps, ElementsAre("0.8", "1")) << "1.2 is outside";
}

TEST(Perturbed, ChoicesGoToANeighbour) {
  const Space space = space_of("c=choice:a:b:c:d:e:f:g:h");
  std::map<std::string, int> counts;
  for (std::uint64_t nth = 0; nth < 400; ++nth)
    ++counts[text_of(perturbed(space, {{"c", "d"}}, 7, nth).at("c"))];
  EXPECT_GE(counts["c"], 100);
  EXPECT_GE(counts["e"], 100);
  EXPECT_LE(counts["d"], 40) << "only when drawn anew";
}

TEST(Perturbed, AParameterThatBeginsToExistIsDrawn) {
  Space space = space_of("opt=choice:sgd:adam,momentum=uniform:0.5:1");
  put_under(space, "momentum", "opt", "adam");
  std::set<std::size_t> sizes;
  for (std::uint64_t nth = 0; nth < 50; ++nth) {
    const Point other = perturbed(space, {{"opt", "sgd"}}, 7, nth);
    EXPECT_EQ(why_not_in(space, other), std::nullopt);
    sizes.insert(other.size());
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2));
}

TEST(Perturbed, TheConstraintsHold) {
  const Space space = space_of("a=uniform:0:1,b=uniform:0:1", {"a + b <= 1"});
  for (std::uint64_t nth = 0; nth < 50; ++nth) {
    const Point other = perturbed(space, {{"a", 0.5}, {"b", 0.5}}, 7, nth);
    EXPECT_TRUE(is_allowed(space, other));
  }
}

}  // namespace
}  // namespace muster::launcher::sweep
