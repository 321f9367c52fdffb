#include "launcher/core/text/table.h"

#include <algorithm>
#include <numeric>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kGap = 2;

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// The bytes of the first `width` characters.
std::size_t bytes_of_first(const std::string& text, std::size_t width) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && width-- == 0) return at;
  }
  return text.size();
}

std::string cut(const std::string& text, std::size_t width) {
  constexpr std::size_t kDots = 3;
  if (width_of(text) <= width) return text;
  if (width <= kDots) return text.substr(0, bytes_of_first(text, width));
  return text.substr(0, bytes_of_first(text, width - kDots)) + "...";
}

class Layout {
 public:
  Layout(const std::vector<Column>& columns, const std::vector<Row>& rows, std::size_t width)
      : columns_(columns), widths_(columns.size()), shown_(columns.size(), true) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      widths_[i] = std::max(columns[i].usual, width_of(columns[i].title));
      for (const Row& row : rows) {
        if (i < row.size()) widths_[i] = std::max(widths_[i], width_of(row[i]));
      }
    }
    if (width > 0) fit(width);
  }

  // One line, or several if cells are wrapped.
  std::string text_of(const Row& row, std::size_t width) const {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(columns_[i].narrow == Narrow::kWrap ? lines_of_cell(row[i], widths_[i])
                                                          : std::vector{cut(row[i], widths_[i])});
      height = std::max(height, cells.back().size());
    }
    std::string text;
    for (std::size_t at = 0; at < height; ++at) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (!shown_[i]) continue;
        const std::string cell = at < cells[i].size() ? cells[i][at] : "";
        const std::string padding(widths_[i] - std::min(widths_[i], width_of(cell)), ' ');
        line += (columns_[i].right ? padding + cell : cell + padding) + std::string(kGap, ' ');
      }
      if (width > 0) line.resize(bytes_of_first(line, width));
      line.resize(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::size_t total() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) sum += shown_[i] ? widths_[i] + kGap : 0;
    return sum - std::min(sum, kGap);
  }
  // Returns by how many characters the column can become narrower.
  std::size_t spare(std::size_t i) const {
    const bool shrinks = columns_[i].narrow == Narrow::kCut || columns_[i].narrow == Narrow::kWrap;
    const std::size_t least = std::max(columns_[i].least, width_of(columns_[i].title));
    return shrinks && widths_[i] > least ? widths_[i] - least : 0;
  }
  void shrink(std::size_t width) {
    std::vector<std::size_t> order(columns_.size());
    std::iota(order.begin(), order.end(), 0);
    while (total() > width) {
      const std::size_t widest = *std::ranges::max_element(order, {}, [this](auto i) { return spare(i); });
      if (spare(widest) == 0) return;
      --widths_[widest];
    }
  }
  void fit(std::size_t width) {
    const std::vector<std::size_t> natural = widths_;
    for (;;) {
      widths_ = natural;
      shrink(width);
      if (total() <= width) return;
      std::size_t next = 0;
      while (next < columns_.size() && !(shown_[next] && columns_[next].narrow == Narrow::kLeftOut)) ++next;
      if (next == columns_.size()) return;
      shown_[next] = false;
    }
  }

  const std::vector<Column>& columns_;
  std::vector<std::size_t> widths_;
  std::vector<bool> shown_;
};

}  // namespace

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

bool fits(const std::string& text, std::size_t width) {
  return std::ranges::all_of(split(text, '\n'),
                             [width](auto line) { return width_of(std::string(line)) <= width; });
}

std::vector<std::string> lines_of_cell(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (width > 0 && width_of(rest) > width) {
    const std::size_t most = bytes_of_first(rest, width);
    const std::size_t space = rest.rfind(' ', most);
    // If the text were broken within its indentation, there would be an empty line.
    const bool between_words = space != std::string::npos && space > rest.find_first_not_of(' ');
    lines.push_back(rest.substr(0, between_words ? space : most));
    rest.erase(0, between_words ? space + 1 : most);
  }
  lines.push_back(std::move(rest));
  return lines;
}

std::string table_text(const std::vector<Column>& columns, std::vector<Row> rows, std::size_t width) {
  for (Row& row : rows) {
    for (std::string& cell : row) cell = one_line(std::move(cell));
  }
  const Layout layout(columns, rows, width);
  Row titles;
  for (const Column& column : columns) titles.push_back(column.title);
  std::string text;
  if (std::ranges::any_of(titles, [](const std::string& title) { return !title.empty(); }))
    text = layout.text_of(titles, width);
  for (const Row& row : rows) text += layout.text_of(row, width);
  return text;
}

}  // namespace muster::launcher
