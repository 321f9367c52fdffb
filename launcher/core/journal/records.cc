#include "launcher/core/journal/records.h"

#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>
#include <xxhash.h>

namespace muster::launcher {

namespace {

// The length and the checksum of a record. Both are in the byte order of this machine.
struct Mark {
  std::uint32_t length = 0;
  std::uint32_t checksum = 0;
};

std::uint32_t checksum_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace

bool append_record(std::string& out, const nlohmann::json& record) {
  const std::size_t begin = out.size();
  out.append(sizeof(Mark), '\0');
  nlohmann::json::to_cbor(record, nlohmann::detail::output_adapter<char>(out));
  const std::string_view body = std::string_view(out).substr(begin + sizeof(Mark));
  if (body.size() > kMaxRecordBytes) {
    out.resize(begin);
    return false;
  }
  const Mark mark{static_cast<std::uint32_t>(body.size()), checksum_of(body)};
  std::memcpy(out.data() + begin, &mark, sizeof mark);
  return true;
}

nlohmann::json frame_as_json(std::string_view frame) {
  return nlohmann::json::binary({frame.begin(), frame.end()});
}

wire::Frame frame_from(const nlohmann::json& record) {
  const auto& bytes = record.get_binary();
  wire::FrameReader reader;
  std::vector<wire::Frame> frames;
  const Status cut = reader.feed({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, frames);
  if (!cut || frames.size() != 1) throw std::invalid_argument("not a single frame");
  return std::move(frames.front());
}

Expected<RecordReader> RecordReader::open(std::string_view bytes) {
  if (!bytes.starts_with(kJournalHead)) return failure(ErrorCode::kCorrupt, "not a journal of this version");
  return RecordReader(bytes);
}

Expected<std::optional<nlohmann::json>> RecordReader::next() {
  const std::string_view left = bytes_.substr(place_);
  if (left.empty()) return std::nullopt;
  Mark mark;
  if (left.size() >= sizeof mark) std::memcpy(&mark, left.data(), sizeof mark);
  torn_ = left.size() < sizeof mark || left.size() - sizeof mark < mark.length;
  if (torn_ && mark.length <= kMaxRecordBytes) return std::nullopt;
  const auto damaged = [this] {
    return failure(ErrorCode::kCorrupt, "the record at byte {} is damaged", place_);
  };
  if (mark.length > kMaxRecordBytes) return damaged();
  const std::string_view body = left.substr(sizeof mark, mark.length);
  if (checksum_of(body) != mark.checksum || !wire::check_cbor(body)) return damaged();
  auto record = nlohmann::json::from_cbor(body, true, false);
  if (!record.is_object()) return damaged();
  place_ += sizeof mark + mark.length;
  return record;
}

}  // namespace muster::launcher
