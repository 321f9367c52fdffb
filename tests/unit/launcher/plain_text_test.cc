#include "launcher/core/text/plain_text.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

std::string shown(std::string_view line) {
  return for_terminal(line, true);
}

TEST(PlainText, LeavesTextTabsAndOtherAlphabetsAlone) {
  const std::string_view line = "step 1\tloss 0.5 \xc3\xa4\xe2\x82\xac \xff\n";
  EXPECT_TRUE(is_plain(line));
  EXPECT_EQ(shown(line), line);
}

TEST(PlainText, SwitchesOffAColourThatALineLeavesOn) {
  EXPECT_FALSE(is_plain("\x1b[31mred\n"));
  EXPECT_EQ(shown("\x1b[31mred\n"), "\x1b[31mred\x1b[0m\n");
  EXPECT_EQ(shown("\x1b[1;38;5;0mtext\n"), "\x1b[1;38;5;0mtext\x1b[0m\n");
}

TEST(PlainText, AddsNothingIfALineResetsItself) {
  EXPECT_EQ(shown("\x1b[31mred\x1b[0m end\n"), "\x1b[31mred\x1b[0m end\n");
  EXPECT_EQ(shown("\x1b[31mred\x1b[m\n"), "\x1b[31mred\x1b[m\n");
}

TEST(PlainText, RemovesSequencesThatMoveTheCursorOrClearTheScreen) {
  EXPECT_EQ(shown("a\x1b[2Jb\x1b[1;1Hc\x1b[Ad\x1b[Ke\x1b[?25lf\x1b[>4;2mg\n"), "abcdefg\n");
  EXPECT_EQ(shown("a\bb\ac\vd\fe\rf\x7fg\n"), "abcdefg\n");
}

TEST(PlainText, RemovesTitlesCharacterSetsAndResets) {
  EXPECT_EQ(shown("a\x1b]0;title\ab\x1b]8;;http://x\x1b\\c\x1b(Bd\x1b"
                  "ce\n"),
            "abcde\n");
}

TEST(PlainText, EndsAnUnfinishedSequenceWithItsLine) {
  EXPECT_EQ(shown("a\x1b\n"), "a\n");
  EXPECT_EQ(shown("a\x1b[12\n"), "a\n");
  EXPECT_EQ(shown("a\x1b]0;title\n"), "a\n");
}

TEST(PlainText, RemovesColoursIfNoneAreWanted) {
  EXPECT_EQ(for_terminal("\x1b[31mred\x1b[0m\n", false), "red\n");
}

}  // namespace
}  // namespace muster::launcher
