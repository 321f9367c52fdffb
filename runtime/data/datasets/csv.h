// Reads records whose fields have a separator between them, as RFC 4180 defines them.
//
// A field in quotes can contain separators, line ends, and quotes, which must be doubled. Lines end with \n
// or \r\n. The reader accepts more than the RFC: it allows any separator, and it skips empty lines and a byte
// order mark at the start. Only one thread at a time is allowed to use a reader. The text must live longer
// than the reader.
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
  // The reader skips the first `skipped` lines. If `comment` is given, this character starts a comment,
  // except inside of quotes. The comment ends at the end of the line.
  CsvReader(std::string_view text, char separator, std::optional<char> comment = {},
            std::int64_t skipped = 0);
  // Reads the fields of the next record. Returns false at the end. If the record is damaged, returns
  // kCorrupt. The message says what is wrong, and line() says where the record begins. After an error, next()
  // returns false.
  Expected<bool> next(std::vector<std::string>& fields);
  std::int64_t line() const { return line_; }  // where the last record begins, from 1

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
