#include "launcher/core/settings/display_options.h"

#include <gtest/gtest.h>

#include "launcher/core/view/line_prefix.h"

namespace muster::launcher {
namespace {

Expected<DisplayOptions> display_options_of(std::initializer_list<std::string> switches) {
  Settings settings;
  for (const std::string& name : switches) settings[name] = {"--" + name, {"1"}};
  return make_display_options(settings);
}

TEST(DisplayOptions, LeaveFoldingToTheTerminalUnlessTold) {
  EXPECT_EQ(display_options_of({})->fold, std::nullopt);
  EXPECT_EQ(display_options_of({"fold"})->fold, true);
  EXPECT_EQ(display_options_of({"no-fold"})->fold, false);
}

TEST(DisplayOptions, DoNotFoldAndNotFold) {
  const auto both = display_options_of({"fold", "no-fold"});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message(), "--fold and --no-fold exclude each other: give one of them");
}

TEST(DisplayOptions, DoNotFoldLinesWithAPrefixOfTheUser) {
  Settings settings{{"log-line-prefix-template", {"--log-line-prefix-template", {"[${rank}]"}}}};
  EXPECT_EQ(make_display_options(settings)->line_prefix, "[${rank}]");
  EXPECT_EQ(make_display_options(settings)->fold, false);
  settings["fold"] = {"--fold", {"1"}};
  EXPECT_EQ(make_display_options(settings).error().message(),
            "--log-line-prefix-template: [${rank}] prefixes the lines of a single rank: leave out --fold");
}

TEST(DisplayOptions, LeaveOutThePrefixAndDoNotFold) {
  EXPECT_EQ(display_options_of({})->line_prefix, std::nullopt);
  const auto options = display_options_of({"no-prefix"});
  EXPECT_EQ(options->line_prefix, "");
  EXPECT_EQ(options->fold, false);
  EXPECT_EQ(display_options_of({"no-prefix", "fold"}).error().message(),
            "--no-prefix and --fold exclude each other: a folded line names its ranks");
}

TEST(DisplayOptions, TakeThePrefixFromTorchrunsVariable) {
  const auto settings = settings_from_environment({{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x"}});
  EXPECT_EQ(make_display_options(*settings)->line_prefix, "x");
}

TEST(LinePrefix, IsFilledAsPythonsTemplatesAre) {
  const auto of = [](const std::string& text) {
    return filled({text, "trainer", "box"}, Rank(5), LocalRank(1));
  };
  EXPECT_EQ(of("[${role_name}${local_rank}|${rank}@$hostname]: "), "[trainer1|5@box]: ");
  EXPECT_EQ(of("$rank_x $other ${rank $$rank 5$ $"), "$rank_x $other ${rank $rank 5$ $");
  EXPECT_EQ(of(""), "");
}

}  // namespace
}  // namespace muster::launcher
