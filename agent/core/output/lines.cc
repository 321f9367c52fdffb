#include "agent/core/output/lines.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace muster::agent {

namespace {

constexpr std::size_t kText = Lines::kMaxLineBytes - 1;

// Returns roughly the text that a terminal would show for a line with carriage returns. That is the text
// after the last carriage return, not counting carriage returns at the end. If this text is blank, returns
// "". A terminal would also show the end of an earlier text, if the earlier text was longer.
std::string_view visible(std::string_view line) {
  line = line.substr(0, line.find_last_not_of('\r') + 1);
  const std::size_t begin = line.rfind('\r') + 1;  // npos + 1 is 0
  line.remove_prefix(begin);
  const bool wiped = begin > 0 && line.find_first_not_of(' ') == std::string_view::npos;
  return wiped ? std::string_view() : line;
}

// Returns whether a line is longer than kMaxLineBytes. It looks for line ends from the back, a long step at a
// time, so it skips most of the text.
bool has_long_line(std::string_view whole) {
  while (whole.size() > Lines::kMaxLineBytes) {
    const std::size_t end = whole.rfind('\n', kText);
    if (end == std::string_view::npos) return true;
    whole.remove_prefix(end + 1);
  }
  return false;
}

bool is_rewritten(std::string_view line) {
  return line.find('\r') < line.find_last_not_of('\r') &&
         line.find_last_not_of('\r') != std::string_view::npos;
}

}  // namespace

std::string_view Lines::feed(std::span<char> buffer, TimePoint now) {
  rewritten_.clear();
  const std::string_view whole = take_whole(buffer);
  const bool plain = !has_long_line(whole) && whole.find('\r') == std::string_view::npos;
  if (!plain) append_lines(whole);
  const std::size_t cut = rewritten_.size();
  if (rest_.find('\r') != std::string::npos) show_update(now);
  while (rest_.size() > kText) {
    rewritten_.append(rest_, 0, kText).push_back('\n');
    rest_.erase(0, kText);
  }
  if (!plain) return rewritten_;
  if (rewritten_.size() == cut) return whole;
  return rewritten_.insert(0, whole);
}

// Returns all bytes up to the last newline. The incomplete line that earlier calls have kept comes first. The
// bytes after the last newline are kept for the next call.
std::string_view Lines::take_whole(std::span<char> buffer) {
  std::size_t begin = kMaxLineBytes;
  const std::string_view bytes(buffer.data() + begin, buffer.size() - begin);
  const std::size_t size = bytes.rfind('\n') + 1;  // npos + 1 is 0
  if (size > 0) {
    begin -= rest_.copy(buffer.data() + begin - rest_.size(), rest_.size());
    rest_.clear();
  }
  rest_.append(bytes.substr(size));
  return {buffer.data() + begin, kMaxLineBytes + size - begin};
}

void Lines::append_lines(std::string_view whole) {
  while (!whole.empty()) {
    const std::size_t end = whole.find('\n');
    append_line(whole.substr(0, end));
    whole.remove_prefix(end + 1);
  }
}

void Lines::append_line(std::string_view line) {
  const std::string shown = std::exchange(shown_, {});
  if (is_rewritten(line) || !shown.empty()) {
    line = visible(line);
    if (line.empty() || line == shown) return;
  } else if (line.ends_with('\r')) {
    line = visible(line);
  }
  do {
    rewritten_.append(line.substr(0, kText)).push_back('\n');
    line.remove_prefix(std::min(line.size(), kText));
  } while (!line.empty());
}

// A worker overwrites the line in `rest_` again and again, as progress bars do. This function shows the
// line's current text, at most once per kUpdatePeriod, and forgets the earlier texts.
void Lines::show_update(TimePoint now) {
  const std::string_view state = visible(rest_);
  if (!state.empty() && state != shown_ && (!shown_at_ || *shown_at_ + kUpdatePeriod <= now)) {
    shown_ = state;
    shown_at_ = now;
    rewritten_.append(state.substr(0, kText)).push_back('\n');
  }
  const std::size_t begin =
      state.empty() ? rest_.rfind('\r') : static_cast<std::size_t>(state.data() - rest_.data());
  if (begin > 0) rest_.erase(0, begin - (state.empty() ? 0 : 1));
}

std::string Lines::flush() {
  if (rest_.empty()) return {};
  rewritten_.clear();
  append_line(std::exchange(rest_, {}));
  return std::exchange(rewritten_, {});
}

std::uint64_t count_lines(std::string_view lines) {
  return static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
}

// Starts at the end of `lines`. So it looks only at the last lines, even if `lines` is large.
void LastLines::add(std::string_view lines) {
  std::array<std::string_view, kMaxLines> last;
  std::size_t added = 0;
  while (!lines.empty() && added < kMaxLines) {
    lines.remove_suffix(1);
    const void* const newline = memrchr(lines.data(), '\n', lines.size());
    const std::size_t begin = newline == nullptr ? 0 : static_cast<const char*>(newline) - lines.data() + 1;
    last.at(added++) = lines.substr(begin, kMaxBytes);
    lines = lines.substr(0, begin);
  }
  if (count_ + added > 2 * kMaxLines) {
    const auto kept = added < kMaxLines ? this->lines() : std::vector<std::string>();
    text_.clear();
    count_ = kept.size();
    for (const std::string& line : kept) text_.append(line).push_back('\n');
  }
  count_ += added;
  while (added > 0) text_.append(last.at(--added)).push_back('\n');
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> all;
  for (std::string_view left = text_; !left.empty(); left.remove_prefix(all.back().size() + 1))
    all.emplace_back(left.substr(0, left.find('\n')));
  if (all.size() > kMaxLines) all.erase(all.begin(), all.end() - kMaxLines);
  return all;
}

}  // namespace muster::agent
