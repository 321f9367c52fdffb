// The bytes of a journal. They begin with a line that names the format. Records follow it. Each record has a
// length, a checksum and a CBOR item.
//
// If a launcher was killed, the last record may be torn. This is not an error. Pure.
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

// Appends the record to `out`. If the record would be longer than kMaxRecordBytes, appends nothing and
// returns false. All numbers must be integers. Strings may contain any bytes.
bool append_record(std::string& out, const nlohmann::json& record);

// Converts an encoded frame to its form in a record, and back. frame_from() throws std::invalid_argument if
// the record is not exactly one frame.
nlohmann::json frame_as_json(std::string_view frame);
wire::Frame frame_from(const nlohmann::json& record);

// Splits the bytes of a journal into records.
class RecordReader {
 public:
  // Opens a reader of `bytes`, which must outlive it. If `bytes` do not begin with kJournalHead, returns
  // kCorrupt.
  static Expected<RecordReader> open(std::string_view bytes);
  // Returns the next record. At the end, returns nullopt. If a record is damaged, returns kCorrupt, with the
  // position of the first byte of the record.
  Expected<std::optional<nlohmann::json>> next();
  // Returns whether the last record is torn. Call this when next() has returned nullopt.
  bool torn() const { return torn_; }

 private:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes), place_(kJournalHead.size()) {}

  std::string_view bytes_;
  std::size_t place_;
  bool torn_ = false;
};

}  // namespace muster::launcher
