#include "agent/core/lines.h"

#include <algorithm>
#include <utility>

namespace muster::agent {

std::string Lines::feed(std::string_view bytes) {
  std::string whole;
  const std::size_t last = bytes.rfind('\n');
  if (last != std::string_view::npos) {
    whole = std::exchange(rest_, {});
    whole.append(bytes.substr(0, last + 1));
    bytes.remove_prefix(last + 1);
  }
  rest_.append(bytes);
  constexpr std::size_t kText = kMaxLineBytes - 1;
  std::string cut;
  std::string_view view = whole;
  while (!view.empty()) {
    const std::size_t end = std::min(view.find('\n'), kText);
    cut.append(view.substr(0, end)).push_back('\n');
    view.remove_prefix(view[end] == '\n' ? end + 1 : end);
  }
  while (rest_.size() > kText) {
    cut.append(rest_, 0, kText).push_back('\n');
    rest_.erase(0, kText);
  }
  return cut;
}

std::string Lines::flush() {
  if (rest_.empty()) return {};
  rest_.push_back('\n');
  return std::exchange(rest_, {});
}

std::vector<std::string_view> in_pieces(std::string_view lines) {
  std::vector<std::string_view> pieces;
  while (!lines.empty()) {
    std::size_t size = lines.size();
    if (size > Lines::kMaxLineBytes) size = lines.rfind('\n', Lines::kMaxLineBytes - 1) + 1;
    pieces.push_back(lines.substr(0, size));
    lines.remove_prefix(size);
  }
  return pieces;
}

std::uint64_t count_lines(std::string_view lines) {
  return static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
}

void LastLines::add(std::string_view lines) {
  // From the end: of a large piece only the last lines are looked at.
  std::deque<std::string> added;
  while (!lines.empty() && added.size() < kMaxLines) {
    lines.remove_suffix(1);
    const std::size_t begin = lines.rfind('\n') + 1;  // npos + 1 is 0
    added.emplace_front(lines.substr(begin, kMaxBytes));
    lines = lines.substr(0, begin);
  }
  for (std::string& line : added) lines_.push_back(std::move(line));
  while (lines_.size() > kMaxLines) lines_.pop_front();
}

}  // namespace muster::agent
