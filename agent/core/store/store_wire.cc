#include "agent/core/store/store_wire.h"

#include <array>
#include <bit>

namespace muster::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol is little-endian and read in place");

// For each command, the fields that follow it. A letter stands for a field: 4 is a u32, 8 is an i64, k is a
// key, and v is a value. * is a u64 that says how often the fields after it are repeated.
constexpr std::array<std::string_view, 19> kFields = {
    "4", "kv", "kvv", "k", "k8", "*k", "*k", "", "k", "kv", "*k", "*kv", "", "4", "kv", "k", "k", "", "k8"};
constexpr std::size_t kCountBytes = sizeof(std::uint64_t);

// Reads a number that says how long a key or value is, or how often fields are repeated. Returns kCorrupt if
// the number is above its limit.
Expected<std::uint64_t> bounded_number(char field, std::string_view bytes, const StoreLimits& limits) {
  const auto number = StoreFields(bytes).number<std::uint64_t>();
  if (field == 'k' && number > limits.key_bytes) {
    return failure(ErrorCode::kCorrupt, "a key of {} bytes, the limit is {}", number, limits.key_bytes);
  }
  if (field == 'v' && number > limits.value_bytes) {
    return failure(ErrorCode::kCorrupt, "a value of {} bytes, the limit is {}", number, limits.value_bytes);
  }
  if (field == '*' && number > limits.keys_per_command) {
    return failure(ErrorCode::kCorrupt, "{} keys at once, the limit is {}", number, limits.keys_per_command);
  }
  return number;
}

}  // namespace

Status StoreCommandScanner::begin(unsigned char command) {
  if (command >= kFields.size()) return failure(ErrorCode::kCorrupt, "unknown command {}", command);
  fields_ = kFields[command];
  repeated_ = {};
  repeats_ = 0;
  offset_ = 1;
  return {};
}

Expected<std::size_t> StoreCommandScanner::scan(std::string_view bytes, const StoreLimits& limits) {
  if (bytes.empty()) return 0;
  if (offset_ == 0) {
    if (Status begun = begin(static_cast<unsigned char>(bytes[0])); !begun)
      return std::unexpected(begun.error());
  }
  while (true) {
    if (fields_.empty()) {
      if (repeats_ == 0) return offset_;
      --repeats_;
      fields_ = repeated_;
    }
    const char field = fields_[0];
    const std::size_t available = bytes.size() - offset_;
    std::size_t size = field == '4' ? 4 : kCountBytes;
    if (available < size) return 0;
    if (field == '*' || field == 'k' || field == 'v') {
      const Expected<std::uint64_t> number = bounded_number(field, bytes.substr(offset_), limits);
      if (!number) return number;
      if (field == '*') {
        repeated_ = fields_.substr(1);
        repeats_ = *number;
        fields_ = "*";  // only the asterisk, which is removed below
      } else {
        size += *number;
      }
      if (offset_ + size > limits.command_bytes) {
        return failure(ErrorCode::kCorrupt, "a command of more than {} bytes", limits.command_bytes);
      }
      if (available < size) return 0;
    }
    offset_ += size;
    fields_.remove_prefix(1);
  }
}

}  // namespace muster::agent
