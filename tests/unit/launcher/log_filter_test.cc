#include "launcher/core/view/log_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::HasSubstr;

// 2026-05-01T12:00:00Z, two hours east of Greenwich.
constexpr double kNoon = 1'777'636'800;
constexpr LocalTime kLocal{.now = kNoon, .offset = 7200};

std::string since_error(std::string_view text) {
  const auto since = parse_since(text, kLocal);
  return since ? "(no error)" : since.error().message();
}

TEST(NumberRanges, HoldNumbersAndRanges) {
  const auto ranges = NumberRanges::parse("0,4-7,9", "--rank");
  ASSERT_TRUE(ranges) << ranges.error().message();
  for (const int number : {0, 4, 5, 7, 9}) EXPECT_TRUE(ranges->contains(number)) << number;
  for (const int number : {1, 3, 8, 10}) EXPECT_FALSE(ranges->contains(number)) << number;
  EXPECT_TRUE(NumberRanges::parse("", "--rank")->contains(12345)) << "not given: all";
}

TEST(NumberRanges, NameTheNumberThatIsTooLarge) {
  const auto ranges = NumberRanges::parse("0,2-5", "--rank");
  EXPECT_EQ(ranges->beyond(6), std::nullopt);
  EXPECT_EQ(ranges->beyond(5), 5);
  EXPECT_EQ(ranges->beyond(1), 2);
  EXPECT_EQ(NumberRanges().beyond(0), std::nullopt);
}

TEST(NumberRanges, RefuseMalformedRanges) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1-2-3", "99999999999"}) {
    const auto ranges = NumberRanges::parse(text, "--rank");
    ASSERT_FALSE(ranges) << text;
    EXPECT_EQ(ranges.error().message(),
              fmt::format("--rank: {} is not a list of numbers: give them as 0,4-7", text));
  }
}

TEST(Pattern, IsAnExtendedRegularExpression) {
  const auto pattern = Pattern::compile("^loss (0|1)\\.[0-9]+$");
  ASSERT_TRUE(pattern) << pattern.error().message();
  EXPECT_TRUE(pattern->matches("loss 0.25"));
  EXPECT_FALSE(pattern->matches("my loss 0.25"));
  EXPECT_THAT(Pattern::compile("(").error().message(),
              HasSubstr("--grep: ( is not an extended regular expression: "));
}

TEST(Since, AcceptsDurations) {
  EXPECT_DOUBLE_EQ(parse_since("90s", kLocal).value(), kNoon - 90);
  EXPECT_DOUBLE_EQ(parse_since("90", kLocal).value(), kNoon - 90);
  EXPECT_DOUBLE_EQ(parse_since("10m", kLocal).value(), kNoon - 600);
  EXPECT_DOUBLE_EQ(parse_since("1h30m", kLocal).value(), kNoon - 5400);
  EXPECT_DOUBLE_EQ(parse_since("1.5d", kLocal).value(), kNoon - 129600);
}

TEST(Since, AcceptsTimes) {
  EXPECT_DOUBLE_EQ(parse_since("2026-05-01T12:00:00Z", kLocal).value(), kNoon);
  EXPECT_DOUBLE_EQ(parse_since("2026-05-01T14:00", kLocal).value(), kNoon) << "local, without a zone";
  EXPECT_DOUBLE_EQ(parse_since("2026-05-01 07:00:00.5-05:00", kLocal).value(), kNoon + 0.5);
  EXPECT_DOUBLE_EQ(parse_since("2026-05-01", kLocal).value(), kNoon - 14 * 3600.0);
}

TEST(Since, RefusesAnythingElse) {
  for (const char* text :
       {"", "m", "10x", "yesterday", "2026-13-01", "2026-05-01T25:00", "2026-05-01T12:00 x", "-5m"})
    EXPECT_THAT(since_error(text), HasSubstr("is neither a duration nor a time: give 90s")) << text;
}

TEST(TimeOfLine, ReadsTheFormatsOfLoggers) {
  EXPECT_DOUBLE_EQ(time_of_line("2026-05-01T12:00:00Z step 3", kLocal).value(), kNoon);
  EXPECT_NEAR(time_of_line("[2026-05-01 14:00:00,123] INFO", kLocal).value(), kNoon + 0.123, 1e-6);
  EXPECT_DOUBLE_EQ(time_of_line("2026/05/01 14:00:00 INFO", kLocal).value(), kNoon);
  for (const char* line : {"", "step 3", "2026", "2026-05-01", "12:00:00 x", "20260501 14:00:00"})
    EXPECT_FALSE(time_of_line(line, kLocal)) << line;
}

TEST(LineTimes, UseTheTimeOfTheLineBefore) {
  const std::string text = "starts\n2026-05-01T12:00:00Z a\n  more of a\n2026-05-01T12:05:00Z b\n";
  LineTimes times(text, kNoon + 9999, kLocal);
  EXPECT_DOUBLE_EQ(times.of("starts", kLocal), kNoon) << "no later than the first that has a time";
  EXPECT_DOUBLE_EQ(times.of("2026-05-01T12:00:00Z a", kLocal), kNoon);
  EXPECT_DOUBLE_EQ(times.of("  more of a", kLocal), kNoon);
  EXPECT_DOUBLE_EQ(times.of("2026-05-01T12:05:00Z b", kLocal), kNoon + 300);
}

TEST(LineTimes, AreTheFilesIfNoLineHasATime) {
  LineTimes times("a\nb\n", kNoon - 50, kLocal);
  EXPECT_DOUBLE_EQ(times.of("a", kLocal), kNoon - 50);
  times.now_is(kNoon);
  EXPECT_DOUBLE_EQ(times.of("b", kLocal), kNoon) << "followed: it has just been written";
}

TEST(LastVersion, IsTheFinalTextOfAnOverwrittenLine) {
  EXPECT_EQ(last_version("10%\r20%\r100%"), "100%");
  EXPECT_EQ(last_version("done\r"), "done");
  EXPECT_EQ(last_version("plain"), "plain");
  EXPECT_EQ(last_version("\r"), "");
}

}  // namespace
}  // namespace muster::launcher
