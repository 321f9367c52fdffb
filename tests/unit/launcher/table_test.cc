#include "launcher/core/text/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::ElementsAre;

const std::vector<Column> kColumns = {
    {"NAME"}, {"SIZE", true, Narrow::kLeftOut}, {"TEXT", false, Narrow::kWrap, 8}};

TEST(Table, IsAsWideAsItsCells) {
  EXPECT_EQ(table_text(kColumns, {{"a", "12", "one two"}, {"bcdef", "3"}}, 0),
            "NAME   SIZE  TEXT\na        12  one two\nbcdef     3\n");
  EXPECT_EQ(table_text({{}, {}}, {{"a\033b", "c"}}, 0), "a?b  c\n");
}

TEST(Table, WrapsAndThenLeavesColumnsOutUntilItFits) {
  const std::vector<Row> rows = {{"abcd", "1234", "one two three"}};
  EXPECT_EQ(table_text(kColumns, rows, 22), "NAME  SIZE  TEXT\nabcd  1234  one two\n            three\n");
  EXPECT_EQ(table_text(kColumns, rows, 19), "NAME  TEXT\nabcd  one two three\n");
  EXPECT_EQ(table_text(kColumns, rows, 10), "NAME  TEXT\nabcd  one\n      thre\n");
}

TEST(Table, CutsBetweenCharacters) {
  EXPECT_EQ(table_text({{"", false, Narrow::kCut, 4}}, {{"äöüßäöü"}}, 5), "äö...\n");
  EXPECT_THAT(lines_of_cell("ab cdefghij", 4), ElementsAre("ab", "cdef", "ghij"));
  EXPECT_THAT(lines_of_cell("", 4), ElementsAre(""));
  EXPECT_THAT(lines_of_cell("  abcdefgh", 6), ElementsAre("  abcd", "efgh")) << "with its indentation";
}

}  // namespace
}  // namespace muster::launcher
