// The bytes of a journal: a line that names the format, then records, each a CBOR item behind its length and
// checksum.
//
// A launcher that is killed leaves a torn record at the end, which is no error. Pure.
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

// Appends the record to `out`; nothing, and returns false, if it has more than kMaxRecordBytes. Numbers in it
// are whole, strings may be binary.
bool append_record(std::string& out, const nlohmann::json& record);

// An encoded frame as a record holds it, and back. std::invalid_argument if it is not exactly one.
nlohmann::json frame_as_json(std::string_view frame);
wire::Frame frame_from(const nlohmann::json& record);

// Takes the bytes of a journal apart.
class RecordReader {
 public:
  // kCorrupt if `bytes`, which are kept by the caller, do not begin with kJournalHead.
  static Expected<RecordReader> open(std::string_view bytes);
  // The next record; nothing at the end. kCorrupt, with the byte where it begins, if a record is damaged.
  Expected<std::optional<nlohmann::json>> next();
  // Whether the last record is torn, once next() has told the end.
  bool torn() const { return torn_; }

 private:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes), place_(kJournalHead.size()) {}

  std::string_view bytes_;
  std::size_t place_;
  bool torn_ = false;
};

}  // namespace muster::launcher
