#include "launcher/core/sweep/space/space.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "launcher/core/sweep/space/placeholders.h"

namespace muster::launcher::sweep {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using ParameterKind = Parameter::Kind;

// ---- Values ----

TEST(SweepValue, IsReadFromTextAsWhatItLooksLike) {
  EXPECT_EQ(value_of("64"), Value(std::int64_t{64}));
  EXPECT_EQ(value_of("-3"), Value(std::int64_t{-3}));
  EXPECT_EQ(value_of("1e-3"), Value(0.001));
  EXPECT_EQ(value_of(".5"), Value(0.5));
  EXPECT_EQ(value_of("1.0"), Value(1.0));
  EXPECT_EQ(value_of("true"), Value(true));
  for (const char* word : {"relu", "True", "", "-", ".", "1x", "inf", "-inf", "nan", "007", "-01", "0x10",
                           "1e999", "9223372036854775808", "1 "}) {
    EXPECT_EQ(value_of(word), Value(std::string(word)));
  }
}

TEST(SweepValue, ReachesTheTrialAsShortestText) {
  EXPECT_EQ(text_of(0.1), "0.1");
  EXPECT_EQ(text_of(1e-5), "1e-05");
  EXPECT_EQ(text_of(std::int64_t{64}), "64");
  EXPECT_EQ(text_of(false), "false");
  EXPECT_EQ(text_of(std::string("relu")), "relu");
}

TEST(SweepValue, PointsReadBackAsTheyWere) {
  const Point point = {
      {"a", true}, {"b", std::int64_t{1}}, {"c", 1.0}, {"d", std::string("1")}, {"e", 0.1 + 0.2}};
  const std::string text = point_as_json(point).dump();
  EXPECT_EQ(text, R"({"a":true,"b":1,"c":1.0,"d":"1","e":0.30000000000000004})");
  EXPECT_EQ(point_from_json(ordered_json::parse(text)).value(), point);
}

TEST(SweepValue, ErrorsNameTheMember) {
  for (const char* bad : {R"({"lr": {}})", R"({"lr": [1]})", R"({"lr": 18446744073709551615})"}) {
    EXPECT_EQ(point_from_json(ordered_json::parse(bad)).error().message(),
              "lr: expected a number, a word, true or false");
  }
  EXPECT_FALSE(point_from_json(ordered_json::array()));
}

// ---- Reading spaces ----

TEST(SweepSpace, IsReadFromFlags) {
  const auto space = parse_space(
      "a=uniform:-1:1.5,b=loguniform:1e-5:1e-1,c=quniform:0:1:0.1,d=int:1:4,e=int-log:1:1024,"
      "f=choice:32:relu:true:0.5:a\\,b\\:c\\d,g=constant:x=y,h=normal:0:2");
  ASSERT_TRUE(space) << space.error().message();
  const auto& all = space->parameters;
  ASSERT_EQ(all.size(), 8U);
  EXPECT_EQ(all[0], (Parameter{.name = "a", .kind = ParameterKind::kUniform, .low = -1, .high = 1.5}));
  EXPECT_EQ(all[1], (Parameter{.name = "b", .kind = ParameterKind::kLogUniform, .low = 1e-5, .high = 1e-1}));
  EXPECT_EQ(all[2],
            (Parameter{.name = "c", .kind = ParameterKind::kQUniform, .low = 0, .high = 1, .step = 0.1}));
  EXPECT_EQ(all[3], (Parameter{.name = "d", .kind = ParameterKind::kInt, .low = 1, .high = 4}));
  EXPECT_EQ(all[4], (Parameter{.name = "e", .kind = ParameterKind::kIntLog, .low = 1, .high = 1024}));
  EXPECT_THAT(all[5].choices, ElementsAre(Value(std::int64_t{32}), Value(std::string("relu")), Value(true),
                                          Value(0.5), Value(std::string("a,b:c\\d"))));
  EXPECT_THAT(all[6].choices, ElementsAre(Value(std::string("x=y"))));
  EXPECT_EQ(all[7], (Parameter{.name = "h", .kind = ParameterKind::kNormal, .low = 0, .high = 2}));
}

TEST(SweepSpace, EveryErrorOfAFlagIsOneClearLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"",
       "``: expected NAME=KIND:ARGUMENT..., such as lr=loguniform:1e-5:1e-1,units=choice:32:64; "
       "a comma inside a value is written \\,"},
      {"x=choice:a,b",
       "`b`: expected NAME=KIND:ARGUMENT..., such as lr=loguniform:1e-5:1e-1,units=choice:32:64; "
       "a comma inside a value is written \\,"},
      {"l-r=uniform:0:1",
       "`l-r` cannot be a parameter's name: use letters, digits and _, not beginning with a digit"},
      {"=uniform:0:1",
       "`` cannot be a parameter's name: use letters, digits and _, not beginning with a digit"},
      {"not=uniform:0:1", "`not` cannot be a parameter's name: it has a meaning in constraints"},
      {"a=int:1:3,A=int:6:9",
       "a and A have the same variable, MUSTER_PARAM_A: give one of them another name"},
      {"x=int:1:2,x=int:1:2", "x is there twice: each parameter has a name of its own"},
      {"x=unifrom:0:1", "x: `unifrom:0:1`: unknown kind unifrom: did you mean uniform?"},
      {"x=0.1",
       "x: `0.1`: unknown kind 0.1: use one of uniform, loguniform, quniform, int, int-log, choice, "
       "constant, normal; a fixed value is constant:VALUE"},
      {"x=uniform:1", "x: `uniform:1`: expected uniform:LOW:HIGH"},
      {"x=uniform:0:1:2", "x: `uniform:0:1:2`: expected uniform:LOW:HIGH"},
      {"x=choice", "x: `choice`: expected choice:VALUE:VALUE..."},
      {"x=constant:1:2", "x: `constant:1:2`: expected constant:VALUE"},
      {"x=choice:a::b", "x: `choice:a::b`: a value between two colons is empty"},
      {"x=choice:1:2:1", "x: `choice:1:2:1`: the value 1 is there twice"},
      {"x=choice:\xff", "x: `choice:\xff`: a value must be UTF-8 text without NUL bytes"},
      {"x=uniform:a:1", "x: `uniform:a:1`: `a` is not a number"},
      {"x=uniform:0:inf", "x: `uniform:0:inf`: `inf` is not a number"},
      {"x=uniform:true:2", "x: `uniform:true:2`: `true` is not a number"},
      {"x=uniform:2:1", "x: `uniform:2:1`: low 2 is above high 1: swap them"},
      {"x=int:3:3", "x: `int:3:3`: the range is empty: for a single value write constant:3"},
      {"x=loguniform:0:1", "x: `loguniform:0:1`: low must be above 0 for a logarithmic range, not 0"},
      {"x=int-log:-2:8", "x: `int-log:-2:8`: low must be above 0 for a logarithmic range, not -2"},
      {"x=int:1:2.5", "x: `int:1:2.5`: 2.5 is not a whole number"},
      {"x=int:0:9007199254740994", "x: `int:0:9007199254740994`: 9007199254740994 is beyond 2^53"},
      {"x=quniform:0:1:0", "x: `quniform:0:1:0`: the step must be above 0, not 0"},
      {"x=quniform:0:1:2", "x: `quniform:0:1:2`: the step 2 is wider than the range: it must be at most 1"},
      {"x=quniform:0:1:1e-300", "x: `quniform:0:1:1e-300`: the step 1e-300 is too small for the range"},
      {"x=normal:0:0", "x: `normal:0:0`: the standard deviation must be above 0, not 0"},
      {"x=choice:a\nb:a\nb", "x: `choice:a?b:a?b`: the value a?b is there twice"},
  };
  for (const auto& [text, message] : cases) {
    const auto space = parse_space(text);
    ASSERT_FALSE(space) << text;
    EXPECT_EQ(space.error().message(), message);
    EXPECT_EQ(space.error().code(), ErrorCode::kInvalidArgument);
  }
}

ordered_json rich_file() {
  return ordered_json::parse(R"({
    "space": {
      "lr": "loguniform:1e-5:1e-1",
      "optimizer": ["sgd", "adam", "lion"],
      "layers": {"int": [1, 4]},
      "momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}},
      "nesterov": {"choice": [true, false], "when": {"optimizer": ["sgd", "lion"]}},
      "damping": {"quniform": [0, 0.3, 0.1], "when": {"nesterov": false}},
      "width4": {"int-log": [1, 512], "when": {"layers": [4.0, 3]}},
      "noise": {"normal": [0, 0.5]},
      "units": 64, "name": "relu", "text": {"constant": "a:b"}, "half": 0.5, "one": [1.0], "word": ["1"]
    },
    "constraints": ["units * layers <= 192", "momentum > 0.5 or lr < 0.01"],
    "metric": "loss"
  })");
}

TEST(SweepSpace, IsReadFromAFile) {
  const auto space = space_from_json(rich_file());
  ASSERT_TRUE(space) << space.error().message();
  const auto& all = space->parameters;
  EXPECT_EQ(all[0], (Parameter{.name = "lr", .kind = ParameterKind::kLogUniform, .low = 1e-5, .high = 1e-1}));
  EXPECT_EQ(all[1].kind, ParameterKind::kChoice);
  EXPECT_EQ(all[3].when, (Condition{"optimizer", {std::string("sgd")}}));
  EXPECT_EQ(all[4].when, (Condition{"optimizer", {std::string("sgd"), std::string("lion")}}));
  EXPECT_EQ(all[5].when, (Condition{"nesterov", {false}}));
  EXPECT_EQ(all[6].when, (Condition{"layers", {std::int64_t{4}, std::int64_t{3}}}));
  EXPECT_EQ(parameter_named(*space, "units")->choices, std::vector<Value>{std::int64_t{64}});
  EXPECT_EQ(parameter_named(*space, "name")->kind, ParameterKind::kConstant);
  EXPECT_EQ(parameter_named(*space, "text")->choices, std::vector<Value>{std::string("a:b")});
  EXPECT_EQ(parameter_named(*space, "one")->choices, std::vector<Value>{1.0});
  EXPECT_EQ(parameter_named(*space, "word")->choices, std::vector<Value>{std::string("1")});
  ASSERT_EQ(space->constraints.size(), 2U);
  EXPECT_EQ(space->constraints[0].text(), "units * layers <= 192");
}

TEST(SweepSpace, ReadsBackFromItsOwnJson) {
  const auto space = space_from_json(rich_file()).value();
  const std::string text = space_as_json(space).dump();
  const auto again = space_from_json(ordered_json::parse(text));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->parameters, space.parameters);
  EXPECT_EQ(space_as_json(*again).dump(), text);
}

TEST(SweepSpace, EveryErrorOfAFileIsOneClearLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"([])", "space: expected an object of parameters, such as {\"lr\": \"loguniform:1e-5:1e-1\"}"},
      {R"({"space": {}})",
       "space: expected an object of parameters, such as {\"lr\": \"loguniform:1e-5:1e-1\"}"},
      {R"({"space": {"1x": 1}})",
       "space: `1x` cannot be a parameter's name: use letters, digits and _, not beginning with a digit"},
      {R"({"space": {"x": null}})",
       "space: x: null: expected a text such as uniform:0:1, an object such as {\"uniform\": [0, 1]}, "
       "or a list of values"},
      {R"({"space": {"x": [[1]]}})",
       "space: x: [[1]]: [1] is not a value: write numbers, words, true or false"},
      {R"({"space": {"x": [null, 1]}})",
       "space: x: [null,1]: null is not a value: write numbers, words, true or false; \"null\" in quotes is a word"},
      {R"({"space": {"x": {"uniform": [0, 1], "if": {"a": "b"}}}})",
       "space: x: if: expected a kind such as uniform, or `when` for a condition"},
      {R"({"space": {"x": {"uniform": [0, 1], "when": {"opt": "sgd"}}}})",
       "space: x: when {\"opt\":\"sgd\"}: unknown parameter opt: no parameter is written before this one"},
      {R"({"space": {"x": []}})", "space: x: `choice`: expected choice:VALUE:VALUE..."},
      {R"({"space": {"x": ["1", 1]}})", "space: x: `choice:1:1`: the value 1 is there twice"},
      {R"({"space": {"x": "uniform"}})", "space: x: `uniform`: expected uniform:LOW:HIGH"},
      {R"({"space": {"x": "http://y"}})",
       "space: x: `http://y`: unknown kind http: use one of uniform, loguniform, quniform, int, int-log, choice, "
       "constant, normal; a fixed value is constant:VALUE"},
      {R"({"space": {"x": {"unifrm": [0, 1]}}})",
       "space: x: `unifrm:0:1`: unknown kind unifrm: did you mean uniform?"},
      {R"({"space": {"x": {"uniform": [0, "1"]}}})", "space: x: `uniform:0:1`: `1` is not a number"},
      {R"({"space": {"x": {"uniform": {"low": 0}}}})",
       "space: x: uniform: {\"low\":0}: expected numbers, words, true or false"},
      {R"({"space": {"x": {"int": [0, 1], "uniform": [0, 1]}}})",
       "space: x: {\"int\":[0,1],\"uniform\":[0,1]}: expected one kind, such as {\"uniform\": [0, 1]}"},
      {R"({"space": {"a": [1, 2], "x": {"int": [0, 1], "when": {"b": 1}}}})",
       "space: x: when {\"b\":1}: unknown parameter b: there are a"},
      {R"({"space": {"optimizer": ["a", "b"], "x": {"int": [0, 1], "when": {"optimiser": "a"}}}})",
       "space: x: when {\"optimiser\":\"a\"}: unknown parameter optimiser: did you mean optimizer?"},
      {R"({"space": {"x": {"int": [0, 1], "when": {"a": 1}}, "a": [1, 2]}})",
       "space: x: when {\"a\":1}: a must be written before x"},
      {R"({"space": {"x": {"int": [0, 1], "when": {"x": 1}}}})",
       "space: x: when {\"x\":1}: a parameter cannot depend on itself"},
      {R"({"space": {"a": "uniform:0:1", "x": {"int": [0, 1], "when": {"a": 1}}}})",
       "space: x: when {\"a\":1}: a is a real number: a condition needs a choice, constant, int or int-log"},
      {R"({"space": {"a": [1, 2], "x": {"int": [0, 1], "when": {"a": [1, 3]}}}})",
       "space: x: when {\"a\":[1,3]}: a never has the value 3"},
      {R"({"space": {"a": "int:1:2", "x": {"int": [0, 1], "when": {"a": "1"}}}})",
       "space: x: when {\"a\":\"1\"}: a never has the value \"1\""},
      {R"({"space": {"a": [1, 2], "x": {"int": [0, 1], "when": {"a": []}}}})",
       "space: x: when {\"a\":[]}: expected a value or a list of values"},
      {R"({"space": {"a": [1, 2], "x": {"int": [0, 1], "when": "a"}}})",
       "space: x: when \"a\": expected one parameter and its values, such as {\"optimizer\": \"sgd\"}"},
      {R"({"space": {"units": 1}, "constraints": "units < 1"})",
       "constraints: expected a list of texts, such as [\"units * layers <= 512\"]"},
      {R"({"space": {"units": 1}, "constraints": [1]})",
       "constraints: 1: expected a text, such as \"units <= 512\""},
      {R"({"space": {"units": 1}, "constraints": ["unit < 1"]})",
       "constraints: `unit < 1`: unknown parameter unit: did you mean units?"},
      {R"({"space": {"units": 1}, "constraints": ["units <"]})",
       "constraints: cannot read `units <`: at character 8: expected a number, a text in quotes, a parameter or `(`, "
       "found the end"},
  };
  for (const auto& [text, message] : cases) {
    const auto space = space_from_json(ordered_json::parse(text));
    ASSERT_FALSE(space) << text;
    EXPECT_EQ(space.error().message(), message);
  }
}

// ---- Distributions ----

Parameter parameter(const std::string& text) {
  return parse_space("x=" + text).value().parameters[0];
}

double real_at(const Parameter& parameter, double unit) {
  return std::get<double>(value_at(parameter, unit));
}

constexpr double kLargest = 1 - 0x1p-53;  // below 1

TEST(SweepSpace, DrawsRealNumbersByTheirDistribution) {
  EXPECT_EQ(real_at(parameter("uniform:-1:3"), 0), -1);
  EXPECT_EQ(real_at(parameter("uniform:-1:3"), 0.25), 0);
  EXPECT_LE(real_at(parameter("uniform:-1:3"), kLargest), 3);
  EXPECT_EQ(real_at(parameter("uniform:-1.7e308:1.7e308"), 0.5), 0) << "the width is not a finite number";
  EXPECT_DOUBLE_EQ(real_at(parameter("loguniform:1e-5:1e-1"), 0.5), 1e-3);
  EXPECT_EQ(real_at(parameter("loguniform:1e-5:1e-1"), 0), 1e-5);
  EXPECT_LE(real_at(parameter("loguniform:1e-5:1e-1"), kLargest), 1e-1);
}

TEST(SweepSpace, DrawsStepsWithEqualShares) {
  const Parameter stepped = parameter("quniform:0:0.3:0.1");
  EXPECT_EQ(value_count(stepped), 4U);
  for (int k = 0; k < 4; ++k) {
    EXPECT_EQ(text_of(value_at(stepped, k / 4.0)), k == 0 ? "0" : fmt::format("0.{}", k));
    EXPECT_EQ(value_at(stepped, (k + 0.99) / 4), value_at(stepped, k / 4.0));
  }
  // 1 is beyond the last step.
  EXPECT_EQ(value_count(parameter("quniform:0:1:0.3")), 4U);
  EXPECT_EQ(text_of(value_at(parameter("quniform:0:1:0.3"), kLargest)), "0.9");
}

TEST(SweepSpace, DrawsWholeNumbersAndChoicesWithEqualShares) {
  for (const auto& drawn : {parameter("int:1:4"), parameter("choice:1:2:3:4")}) {
    EXPECT_EQ(value_count(drawn), 4U);
    EXPECT_EQ(value_at(drawn, 0), Value(std::int64_t{1}));
    EXPECT_EQ(value_at(drawn, 0.2499), Value(std::int64_t{1}));
    EXPECT_EQ(value_at(drawn, 0.25), Value(std::int64_t{2}));
    EXPECT_EQ(value_at(drawn, kLargest), Value(std::int64_t{4}));
  }
  EXPECT_EQ(value_at(parameter("constant:relu"), kLargest), Value(std::string("relu")));
}

TEST(SweepSpace, DrawsWholeNumbersInTheLogarithmByTheIntervalAroundEach) {
  const Parameter drawn = parameter("int-log:1:8");
  // The intervals are [0.5, 1.5), [1.5, 2.5), ... [7.5, 8.5).
  for (int k = 1; k <= 8; ++k) {
    const double begin = std::log((k - 0.5) / 0.5) / std::log(8.5 / 0.5);
    EXPECT_EQ(value_at(drawn, begin + 1e-9), Value(std::int64_t{k}));
    if (k > 1) {
      EXPECT_EQ(value_at(drawn, begin - 1e-9), Value(std::int64_t{k - 1}));
    }
  }
  EXPECT_EQ(value_at(drawn, kLargest), Value(std::int64_t{8}));
}

TEST(SweepSpace, DrawsNormallyDistributedNumbers) {
  const Parameter standard = parameter("normal:0:1");
  EXPECT_NEAR(real_at(standard, 0.5), 0, 1e-15);
  // From tables of the normal distribution, and from Python's statistics.NormalDist for the last two.
  EXPECT_NEAR(real_at(standard, 0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(real_at(standard, 0.025), -1.959963984540054, 1e-14);
  EXPECT_NEAR(real_at(standard, 0.8413447460685429), 1, 1e-14);
  EXPECT_NEAR(real_at(standard, 1e-10), -6.361340902404056, 1e-13);
  EXPECT_NEAR(real_at(standard, 0x1p-53), -8.209536151601386, 1e-13);
  EXPECT_TRUE(std::isfinite(real_at(standard, 0)));
  EXPECT_LT(real_at(standard, 0), -8);
  EXPECT_NEAR(real_at(parameter("normal:5:0.5"), 0.975), 5 + 0.5 * 1.959963984540054, 1e-14);
  for (double unit = 0x1p-53, previous = -9; unit < 1; unit += 1.0 / 4096) {
    const double x = real_at(standard, unit);
    EXPECT_GT(x, previous);
    EXPECT_NEAR(std::erfc(-x / std::sqrt(2.0)) / 2, unit, 1e-15);
    previous = x;
  }
}

// ---- Points ----

TEST(SweepSpace, LeavesInactiveParametersOut) {
  const auto space = space_from_json(ordered_json::parse(R"({"space": {
    "optimizer": ["sgd", "adam"],
    "nesterov": {"choice": [true, false], "when": {"optimizer": "sgd"}},
    "damping": {"int": [1, 2], "when": {"nesterov": false}}}})"))
                         .value();
  const std::string sgd = "sgd", adam = "adam";
  EXPECT_EQ(point_at(space, {0.9, 0.9, 0}), (Point{{"optimizer", adam}}));
  EXPECT_EQ(point_at(space, {0, 0, 0}), (Point{{"optimizer", sgd}, {"nesterov", true}}));
  EXPECT_EQ(point_at(space, {0, 0.9, 0}),
            (Point{{"optimizer", sgd}, {"nesterov", false}, {"damping", std::int64_t{1}}}));
}

TEST(SweepSpace, EveryDrawnPointBelongsToItAndReadsBack) {
  auto space = space_from_json(rich_file()).value();
  space.constraints.clear();
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> unit(space.parameters.size());
    for (double& number : unit) number = static_cast<double>(random() >> 11U) * 0x1p-53;
    const Point point = point_at(space, unit);
    EXPECT_EQ(why_not_in(space, point), std::nullopt);
    EXPECT_EQ(point_from_json(ordered_json::parse(point_as_json(point).dump())).value(), point);
    sizes.insert(point.size());
  }
  EXPECT_GT(sizes.size(), 3U);
}

TEST(SweepSpace, ConstraintsAboutInactiveParametersHold) {
  auto space = parse_space("a=int:0:9,b=int:0:9").value();
  space.constraints = {Constraint::parse("a / b > 2").value(), Constraint::parse("a < 9").value()};
  const auto point = [](std::int64_t a, std::int64_t b) { return Point{{"a", a}, {"b", b}}; };
  EXPECT_TRUE(is_allowed(space, point(8, 2)));
  EXPECT_FALSE(is_allowed(space, point(4, 2)));
  EXPECT_FALSE(is_allowed(space, point(9, 2)));
  EXPECT_FALSE(is_allowed(space, point(8, 0))) << "a division by 0 does not hold";
  EXPECT_TRUE(is_allowed(space, {{"a", std::int64_t{4}}}));
  EXPECT_FALSE(is_allowed(space, {{"a", std::int64_t{9}}}));
}

TEST(SweepSpace, SaysWhyAPointDoesNotBelongToIt) {
  const auto space = space_from_json(ordered_json::parse(R"({"space": {
    "lr": "uniform:0:1", "layers": "int:1:4", "optimizer": ["sgd", "adam"], "q": "quniform:0:1:0.25",
    "n": "normal:0:1", "momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}}},
    "constraints": ["lr < 0.9"]})"))
                         .value();
  const Point good = {
      {"lr", 0.5}, {"layers", std::int64_t{2}}, {"optimizer", std::string("adam")}, {"q", 0.75}, {"n", -7.0}};
  EXPECT_EQ(why_not_in(space, good), std::nullopt);
  const auto why = [&](const std::string& name, const Value& value) {
    Point point = good;
    point[name] = value;
    return why_not_in(space, point).value_or("");
  };
  EXPECT_EQ(why("lr", std::int64_t{1}), "lr: `1`: expected a real number: write 1.0");
  EXPECT_EQ(why("lr", std::string("x")), "lr: `x`: expected a real number");
  EXPECT_EQ(why("lr", std::nan("")), "lr: `nan`: expected a real number");
  EXPECT_EQ(why("lr", 1.5), "lr: `1.5`: expected a number from 0 to 1");
  EXPECT_EQ(why("lr", 0.95), "the point breaks the constraint `lr < 0.9`");
  EXPECT_EQ(why("layers", 2.0), "layers: `2`: expected a whole number from 1 to 4, without a decimal point");
  EXPECT_EQ(why("layers", std::int64_t{5}), "layers: `5`: expected a whole number from 1 to 4");
  EXPECT_EQ(why("optimizer", std::string("lion")), "optimizer: `lion`: expected one of sgd, adam");
  EXPECT_EQ(why("optimizer", std::string("sgd")), "momentum has no value");
  EXPECT_EQ(why("momentum", 0.5), "momentum must be left out: it exists only if optimizer is sgd");
  EXPECT_EQ(why("q", 0.3), "q: `0.3`: expected 0 plus a multiple of 0.25");
  EXPECT_EQ(why("layer", 0.3), "unknown parameter layer: did you mean layers?");
}

// ---- Placeholders ----

TEST(SweepPlaceholders, AreReplacedByTheTrialsValues) {
  const auto space = space_from_json(ordered_json::parse(R"({"space": {
    "lr": "uniform:0:1", "optimizer": ["sgd", "adam"], "momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}}}})"))
                         .value();
  const Point point = {{"lr", 0.25}, {"optimizer", std::string("adam")}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"--lr", "--lr"},
      {"{lr}", "0.25"},
      {"--lr={lr}", "--lr=0.25"},
      {"{trial_dir}/{optimizer}-{lr}.pt", "/runs/7/adam-0.25.pt"},
      {"--momentum={momentum}", "--momentum="},
      {"{{lr}}", "{lr}"},
      {"a{{lr}}b", "a{lr}b"},
      {"{{{lr}}}", "{0.25}"},
      {"{{{{lr}}}}", "{{lr}}"},
      {"{{unknown}}", "{unknown}"},
      {R"({"lr": 1})", R"({"lr": 1})"},
      {R"({"lr": {lr}})", R"({"lr": 0.25})"},
      {R"({"a": {"lr": {lr}}, "b": {}})", R"({"a": {"lr": 0.25}, "b": {}})"},
      {"{{lr}", "{0.25"},
      {"{}", "{}"},
      {"{ lr }", "{ lr }"},
      {"{1}", "{1}"},
      {"{lr", "{lr"},
      {"lr}", "lr}"},
      {"}{", "}{"},
      {"{a{lr}", "{a0.25"},
      {"{lr}{lr}", "0.250.25"},
  };
  for (const auto& [argument, expected] : cases) {
    const auto result =
        filled(argument, space, point, {{"trial", "7"}, {"trial_dir", "/runs/7"}, {"lr", "other"}});
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(*result, expected) << argument;
  }
}

TEST(SweepPlaceholders, TheErrorNamesTheNearestName) {
  const auto space = parse_space("lr=uniform:0:1,momentum=uniform:0:1").value();
  EXPECT_EQ(
      filled("--m={momentun}", space, {}).error().message(),
      "argument `--m={momentun}`: unknown parameter momentun: did you mean momentum? (to pass {momentun} itself, "
      "write {{momentun}})");
  EXPECT_EQ(
      filled("{trail}", space, {}, {{"trial", "7"}}).error().message(),
      "argument `{trail}`: unknown parameter trail: did you mean trial? (to pass {trail} itself, write {{trail}})");
  EXPECT_EQ(
      filled("${HOME}", space, {}, {{"trial", "7"}}).error().message(),
      "argument `${HOME}`: unknown parameter HOME: there are trial, lr, momentum (to pass {HOME} itself, write "
      "{{HOME}})");
}

}  // namespace
}  // namespace muster::launcher::sweep
