// Any bytes as a table of separated values: records that were read and written in quotes must read the same.
#include "runtime/data/datasets/csv.h"

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

using Records = std::vector<std::vector<std::string>>;

// Returns nothing if the reader refused a record.
std::optional<Records> read_all(std::string_view text, char separator) {
  const std::int64_t line_count = std::ranges::count(text, '\n') + 1;
  CsvReader reader(text, separator);
  Records records;
  std::size_t bytes = 0;
  for (std::int64_t last_line = 0;; last_line = reader.line()) {
    std::vector<std::string> fields;
    const auto read = reader.next(fields);
    CHECK(reader.line() > last_line || (read && !*read), "line {} after {}", reader.line(), last_line);
    if (read && !*read) return records;
    CHECK(reader.line() <= line_count, "line {} of {}", reader.line(), line_count);
    if (!read) {
      check_refusal(read.error());
      CHECK(reader.next(fields) == false, "a record follows a refused one");
      return std::nullopt;
    }
    CHECK(!fields.empty());
    // A separator precedes each field but the first.
    bytes += fields.size() - 1;
    for (const std::string& field : fields) bytes += field.size();
    CHECK(bytes <= text.size(), "{} bytes out of {}", bytes, text.size());
    records.push_back(std::move(fields));
  }
}

std::string written(const Records& records, char separator, std::string_view line_end) {
  std::string text;
  for (const auto& fields : records) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) text += separator;
      text += '"';
      for (const char letter : fields[i]) text.append(letter == '"' ? 2 : 1, letter);
      text += '"';
    }
    text += line_end;
  }
  return text;
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const char separator = static_cast<char>(input.byte());
  if (separator == '"' || separator == '\n' || separator == '\r') return -1;  // CsvDataset refuses them
  const auto records = read_all(input.rest(), separator);
  if (!records) return 0;
  for (const char* line_end : {"\n", "\r\n"})
    CHECK(read_all(written(*records, separator, line_end), separator) == records, "{} records",
          records->size());
  return 0;
}
