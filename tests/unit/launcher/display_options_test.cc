#include "launcher/core/display_options.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster::launcher
