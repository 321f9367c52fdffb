#include "runtime/data/datasets/csv.h"

#include <algorithm>

#include "common/base/text.h"

namespace muster {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

CsvReader::CsvReader(std::string_view text, char separator, std::optional<char> comment, std::int64_t skipped)
    : rest_(text), separator_(separator), comment_(comment) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  for (; skipped > 0 && !rest_.empty(); --skipped) {
    skip_to_line_end();
    skip_line_end();
  }
}

void CsvReader::skip_to_line_end() {
  rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
}

void CsvReader::skip_comment() {
  if (at_comment()) skip_to_line_end();
}

bool CsvReader::at_line_end() const {
  return rest_.starts_with('\n') || rest_.starts_with("\r\n");
}

void CsvReader::skip_line_end() {
  if (rest_.empty()) return;
  rest_.remove_prefix(rest_.front() == '\r' ? 2 : 1);
  ++next_line_;
}

// Reads a field in quotes. rest_ begins with the opening quote.
Status CsvReader::read_quoted(std::string& field) {
  rest_.remove_prefix(1);
  for (;;) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) return failure(ErrorCode::kCorrupt, "a quote in it is never closed");
    field += rest_.substr(0, quote);
    next_line_ += std::ranges::count(rest_.substr(0, quote), '\n');
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  if (rest_.empty() || rest_.front() == separator_ || at_line_end() || at_comment()) return {};
  return failure(ErrorCode::kCorrupt, "after the closing quote of \"{}\" there must be the end of the field",
                 one_line(field));
}

Status CsvReader::read_plain(std::string& field) {
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n' && rest_[end] != comment_)
    ++end;
  std::string_view text = rest_.substr(0, end);
  if (end < rest_.size() && rest_[end] == '\n' && text.ends_with('\r')) text.remove_suffix(1);
  if (text.contains('"'))
    return failure(ErrorCode::kCorrupt, "there is a quote in the middle of the field {}",
                   one_line(std::string(text)));
  field = text;
  rest_.remove_prefix(text.size());
  return {};
}

Expected<bool> CsvReader::next(std::vector<std::string>& fields) {
  for (; at_line_end() || at_comment(); skip_line_end()) skip_comment();
  fields.clear();
  line_ = next_line_;
  if (rest_.empty()) return false;
  for (;;) {
    std::string& field = fields.emplace_back();
    const Status read = rest_.starts_with('"') ? read_quoted(field) : read_plain(field);
    if (!read) {
      rest_ = {};
      return std::unexpected(read.error());
    }
    if (rest_.empty() || rest_.front() != separator_) break;
    rest_.remove_prefix(1);
  }
  skip_comment();
  skip_line_end();
  return true;
}

}  // namespace muster
