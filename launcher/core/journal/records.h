// The bytes of a journal: a line that names the format, then records. Each record is a length, a checksum and
// a CBOR item.
//
// A launcher that is killed leaves a torn record at the end; that is not an error. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/wire/frame.h"

namespace muster::launcher {

constexpr std::string_view kJournalHead = "muster journal 1\n";
constexpr std::size_t kMaxRecordBytes = std::size_t{32} << 20;

// Appends the record to `out`. Returns false, and appends nothing, if it exceeds kMaxRecordBytes. Numbers
// must be integers; strings may be binary.
bool append_record(std::string& out, const nlohmann::json& record);

// Converts an encoded frame to its form in a record, and back. frame_from() throws std::invalid_argument if
// the record is not exactly one frame.
nlohmann::json frame_as_json(std::string_view frame);
wire::Frame frame_from(const nlohmann::json& record);

// Splits the bytes of a journal into records.
class RecordReader {
 public:
  // `bytes` must outlive the reader. kCorrupt if they do not begin with kJournalHead.
  static Expected<RecordReader> open(std::string_view bytes);
  // Returns the next record, or nullopt at the end. If a record is damaged, returns kCorrupt, with the
  // position of the record's first byte.
  Expected<std::optional<nlohmann::json>> next();
  // Whether the last record is torn. Valid once next() has returned nullopt.
  bool torn() const { return torn_; }

 private:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes), place_(kJournalHead.size()) {}

  std::string_view bytes_;
  std::size_t place_;
  bool torn_ = false;
};

}  // namespace muster::launcher
