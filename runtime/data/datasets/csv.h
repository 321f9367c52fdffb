// Records of separated values, as RFC 4180 has them.
//
// Fields may be in quotes, and then hold separators, quotes (doubled) and line ends; lines end with \n or
// \r\n. Beyond the RFC: any separator, empty lines are passed over, and a byte order mark at the begin too.
// One thread at a time; the text must outlive the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster {

class CsvReader {
 public:
  // Passes over the first `skipped` lines, and over lines that begin with `comment`; what follows it in a
  // line is not read, outside of quotes.
  CsvReader(std::string_view text, char separator, std::optional<char> comment = {},
            std::int64_t skipped = 0);
  // The fields of the next record; false at the end. kCorrupt says what is wrong with the one that begins at
  // line(); there is no next one then.
  Expected<bool> next(std::vector<std::string>& fields);
  std::int64_t line() const { return line_; }  // of the record last read, from 1

 private:
  Status read_quoted(std::string& field);
  Status read_plain(std::string& field);
  bool at_line_end() const;
  bool at_comment() const { return comment_ && rest_.starts_with(*comment_); }
  void skip_comment();
  void skip_to_line_end();
  void skip_line_end();

  std::string_view rest_;
  char separator_;
  std::optional<char> comment_;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
};

}  // namespace muster
