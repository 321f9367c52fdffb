// The wire protocol of torch's TCPStore (2.9 to 2.15), from the server's side. This file knows the commands,
// their fields, and where a command ends. When torch gets new commands, they come at the end of the list, and
// no old one changes.
//
// A command is one byte, and then its fields. Integers are little-endian. A key or value is a u64 length, and
// then the bytes. StoreCommandScanner checks every length before anything uses it. It remembers how far it
// has come in an incomplete command, and continues there when more input arrives. The caller keeps the bytes
// of the command. Store (store.h) executes the commands.
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

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;  // the argument of kValidate
inline constexpr char kStopWaiting = 0;                   // answers to kWait
inline constexpr char kWaitCanceled = 1;

struct StoreLimits {
  std::size_t key_bytes = 8 << 10;    // this and the next two are the limits of torch's server
  std::size_t value_bytes = 8 << 20;  // of one SET; repeated APPEND can make a value of up to reply_bytes
  std::size_t keys_per_command = 128 << 10;
  std::size_t command_bytes = 64 << 20;
  std::size_t reply_bytes = 64 << 20;  // of the replies to one client that one call of feed() returns
  std::size_t key_count = 1 << 20;     // keys that have a value or a queue, or that a client waits for
  std::size_t total_bytes = 1 << 30;   // of everything in the store, including unfinished commands
};

// Finds the end of one command in bytes that arrive in pieces.
class StoreCommandScanner {
 public:
  // Looks for a command at the beginning of `bytes`, and returns its size. If the command is incomplete,
  // returns 0. The caller then calls again, with the same bytes and some more after them. Returns kCorrupt if
  // the bytes are not a command, or if they exceed a limit.
  Expected<std::size_t> scan(std::string_view bytes, const StoreLimits& limits);
  void reset() { offset_ = 0; }  // the next call of scan() begins a new command

 private:
  Status begin(unsigned char command);

  std::string_view fields_;  // the fields left to scan, one letter each, as in kFields (store_wire.cc)
  std::string_view repeated_;
  std::uint64_t repeats_ = 0;
  std::size_t offset_ = 0;
};

// Reads the fields of a command. The scanner must have found that the command is complete.
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
