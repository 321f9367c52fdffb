// Tables of text that fit a terminal.
//
// Each column is as wide as its widest cell, and at least as wide as its usual width. A table that is wider
// than the terminal becomes narrower in these steps:
// - Columns that can be cut or wrapped shrink to their least width.
// - Columns that can be left out disappear one by one, from the left.
// - All lines are cut.
// Without a terminal nothing is cut. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

enum class Narrow { kNever, kCut, kWrap, kLeftOut };

struct Column {
  std::string title;
  bool right = false;  // right-aligned
  Narrow narrow = Narrow::kNever;
  std::size_t least = 0;  // of kCut and kWrap: characters that are left at least
  std::size_t usual = 0;  // its width even if all cells are narrower
};
using Row = std::vector<std::string>;

// Returns the table as lines, which all end with a newline. The first line has the titles, unless all titles
// are empty. `width` is the width of the terminal in characters; 0 means unlimited. Rows may have fewer cells
// than columns. Control characters become question marks.
std::string table_text(const std::vector<Column>& columns, std::vector<Row> rows, std::size_t width);

// Splits the text into lines of at most `width` characters (0: unlimited), between words where possible.
std::vector<std::string> lines_of_cell(const std::string& text, std::size_t width);

// Number of characters.
std::size_t width_of(const std::string& text);
// Whether no line is wider than `width`.
bool fits(const std::string& text, std::size_t width);

}  // namespace muster::launcher
