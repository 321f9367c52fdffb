#include "launcher/core/sweep/space/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;

std::optional<bool> holds(const std::string& text) {
  const Point point = {{"units", std::int64_t{64}}, {"layers", std::int64_t{3}},   {"lr", 0.5},
                       {"zero", std::int64_t{0}},   {"name", std::string("relu")}, {"flag", true},
                       {"none", std::monostate()}};
  const auto constraint = Constraint::parse(text);
  if (!constraint) ADD_FAILURE() << constraint.error().message();
  return constraint ? constraint->holds(point) : std::nullopt;
}

TEST(SweepConstraint, MeansThatOfPython) {
  for (const char* text : {"units * layers <= 192",
                           "units*layers==192",
                           "1 < layers <= 3 < units",
                           "not layers > 3",
                           "not not flag",
                           "7 / 2 == 3.5",
                           "-7 % 3 == 2",
                           "7 % -3 == -2",
                           "2 ** 3 ** 2 == 512",
                           "-2 ** 2 == -4",
                           "2 ** -1 == 0.5",
                           "(-2) ** 2 == 4",
                           "1 - 2 - 3 == -4",
                           "8 / 4 / 2 == 1",
                           "2 + 3 * 4 == 14",
                           "+units == 64",
                           "- -1 == 1",
                           "flag == 1",
                           "flag + flag == 2",
                           "name == 'relu'",
                           "none == 'None' and none != 1",
                           "name != \"tanh\"",
                           "'a' < 'b' <= 'b'",
                           "name != 3",
                           "not name == 3",
                           "zero == 0 or units / zero > 1",
                           "not (zero != 0 and units / zero > 1)",
                           "min(units, layers, 9) == 3",
                           "max(1, lr) == 1",
                           "abs(-lr) == 0.5",
                           "log2(units) == 6",
                           "exp(0) == 1",
                           "log(exp(1)) == 1",
                           "sqrt(units) == 8",
                           "floor(-1.5) == -2",
                           "ceil(lr) == 1",
                           "(zero or 4) == 4",
                           "(lr and 4) == 4",
                           "true",
                           "not false",
                           "units",
                           "name",
                           "1 == 1.0",
                           ".5 == lr == 5e-1",
                           "3 > 2 > 1 or units / zero",
                           "1 < 2 == 2",
                           "not 3 < 2 < units / zero"}) {
    EXPECT_EQ(holds(text), true) << text;
  }
  for (const char* text : {"units < 64", "3 > 2 > 2", "1 < 2 == true", "not units", "name == 'Relu'", "zero",
                           "''", "flag and layers == 4", "false or zero"}) {
    EXPECT_EQ(holds(text), false) << text;
  }
}

TEST(SweepConstraint, HasNoResultWhereAnOperationHasNone) {
  for (const char* text :
       {"units / zero > 1", "units % zero == 0", "name * 2 == 4", "name < 3", "log(zero) < 0", "sqrt(-1) > 0",
        "exp(1000) > 1", "zero ** -1 > 0", "(-8) ** (1 / 3) > 0", "missing > 1", "flag or missing > 1",
        "-name == 1", "max(name, 1) == 1", "not units / zero", "flag and units / zero"}) {
    EXPECT_EQ(holds(text), std::nullopt) << text;
  }
}

TEST(SweepConstraint, KnowsTheParametersThatItNames) {
  EXPECT_THAT(Constraint::parse("min(a, b_2) < log(c) and 'd' == a").value().names(),
              ElementsAre("a", "b_2", "c"));
  EXPECT_THAT(Constraint::parse("min < 1").value().names(), ElementsAre("min"));
}

TEST(SweepConstraint, SaysWhereItCannotBeRead) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "1: expected a number, a text in quotes, a parameter or `(`, found the end"},
      {"a <", "4: expected a number, a text in quotes, a parameter or `(`, found the end"},
      {"a < * 2", "5: expected a number, a text in quotes, a parameter or `(`, found `*`"},
      {"a // 2", "4: expected a number, a text in quotes, a parameter or `(`, found `/`"},
      {"a < and", "5: expected a number, a text in quotes, a parameter or `(`, found `and`"},
      {"a = 2", "3: unknown operator `=`; use one of + - * / % ** < <= > >= == != and or not"},
      {"'é' & a", "5: unknown operator `&`; use one of + - * / % ** < <= > >= == != and or not"},
      {"a ≤ 2", "3: unknown operator `≤`; use one of + - * / % ** < <= > >= == != and or not"},
      {"a b", "3: expected an operator or the end, found `b`"},
      {"3x < 1", "2: expected an operator or the end, found `x`"},
      {"a < 1)", "6: expected an operator or the end, found `)`"},
      {"(a < 1", "7: expected an operator or `)`, found the end"},
      {"name == 'relu", "9: the quote is not closed"},
      {"a < 1e999", "5: the number is out of range"},
      {"pow(a, 2) < 1",
       "1: unknown function pow; there are min, max, abs, log, log2, exp, sqrt, floor, ceil"},
      {"1 + log(a, 2) < 1", "5: log takes one value"},
      {"min(a) < 1", "1: min takes two or more values"},
      {"min() < 1", "5: expected a number, a text in quotes, a parameter or `(`, found `)`"},
  };
  for (const auto& [text, message] : cases) {
    const auto constraint = Constraint::parse(text);
    ASSERT_FALSE(constraint) << text;
    EXPECT_EQ(constraint.error().message(), fmt::format("cannot read `{}`: at character {}", text, message));
  }
  EXPECT_FALSE(Constraint::parse("a == '\xff'"));
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(SweepConstraint, MayBeLongButNotDeep) {
  EXPECT_EQ(holds(repeated("(", 64) + "1" + repeated(")", 64)), true);
  EXPECT_EQ(holds(repeated("not ", 64) + "1"), true);
  for (const std::string& deep : {repeated("(", 65) + "1" + repeated(")", 65), repeated("not ", 65) + "1",
                                  repeated("-", 65) + "1", repeated("2 ** ", 65) + "1",
                                  repeated("abs(", 65) + "1" + repeated(")", 65), repeated("(", 100'000)}) {
    const auto constraint = Constraint::parse(deep);
    ASSERT_FALSE(constraint);
    EXPECT_THAT(constraint.error().message(), testing::HasSubstr("nested more than 64 deep"));
  }
  EXPECT_EQ(holds("1" + repeated(" + 1", 29'999) + " == 30000"), true);
  EXPECT_EQ(holds("1" + repeated(" and 1", 30'000)), true);
}

}  // namespace
}  // namespace muster::launcher::sweep
