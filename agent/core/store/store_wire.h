// The wire protocol of torch's TCPStore (2.9 to 2.15), from the server's side: the commands, their fields,
// and where a command ends. A newer torch adds commands at the end and changes none.
//
// A command is one byte, then its fields; integers are little-endian; a key or value is a u64 length and the
// bytes. The scanner checks every length before anything uses it, and looks at each byte once, however the
// input is split. It keeps no bytes, and does not know what the commands mean (store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/base/error.h"

namespace muster::agent {

enum class StoreCommand : std::uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kGetNumKeys,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};

inline constexpr std::uint32_t kStoreMagic =
    0x3C85F7CE;                          // the argument of kValidate, the first command of a connection
inline constexpr char kStopWaiting = 0;  // answers to kWait
inline constexpr char kWaitCanceled = 1;

struct StoreLimits {
  std::size_t key_bytes = 8 << 10;    // this and the next two are the limits of torch's server
  std::size_t value_bytes = 8 << 20;  // of one SET; APPEND may build a value of up to reply_bytes
  std::size_t keys_per_command = 128 << 10;
  std::size_t command_bytes = 64 << 20;
  std::size_t reply_bytes = 64 << 20;  // for one client, not yet handed over
  std::size_t key_count = 1 << 20;     // set, queued or waited for
  std::size_t total_bytes = 1 << 30;   // of everything in the store, including unfinished commands
};

// Finds the end of one command in bytes that arrive in pieces.
class StoreCommandScanner {
 public:
  // `bytes` begin with the command: the bytes of the last call, and more. Returns the command's size, or 0
  // while it is incomplete. Returns kCorrupt if the bytes are not a command, or exceed a limit.
  Expected<std::size_t> scan(std::string_view bytes, const StoreLimits& limits);
  void reset() { offset_ = 0; }  // the next call begins another command

 private:
  Status begin(unsigned char command);

  std::string_view fields_;  // what is left to scan; one letter is one field: store_wire.cc
  std::string_view repeated_;
  std::uint64_t repeats_ = 0;
  std::size_t offset_ = 0;
};

// Reads the fields of a command that the scanner found complete.
class StoreFields {
 public:
  explicit StoreFields(std::string_view bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view blob() {
    const auto size = number<std::uint64_t>();
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

 private:
  std::string_view rest_;
};

}  // namespace muster::agent
