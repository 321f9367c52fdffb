// The ranks of one node that read the same checkpoint are called members. They read it together. Each chunk
// is read by only one member, which verifies it. This member does not use the page cache. All members that
// need the chunk copy it from shared memory.
//
// A member reads by itself everything that it still lacks, if another member ends or if it has to wait for
// ten seconds. If a chunk could not be read or verified, each member that needs the chunk reads it by itself,
// and reports the error. Only one thread can use the object. read() starts threads, which end before read()
// returns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/checkpoint/reader.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

// Invariants:
// - `order_` has all chunks that at least one member needs, in the order of the files. It is the same on all
//   members. The place of a chunk in `order_` is called its turn.
// - The chunk of turn T is in the slot `T % kSlots`, after that slot has been filled `T / kSlots + 1` times.
//   It stays there until all members that have announced it have copied it. So each of them must copy it.
// - All of the shared memory is atomic, except for the bytes of a slot. The member that fills a slot first
//   writes these bytes and then increments `filled`. The other members read the bytes after that.
class SharedReading {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  // Returns true if the members should read together. There must not be too many members, and the files must
  // be large enough.
  static bool is_worth_it(std::span<const ManifestFile> files, std::size_t members);

  // Only the first member calls it. `files` must live longer than the object.
  static Expected<std::unique_ptr<SharedReading>> create(std::span<const ManifestFile> files,
                                                         std::size_t members);
  // Every other member calls open() with the address() of the first member. The first member's object must
  // exist at that time. open() returns kInvalidArgument if the two processes do not see each other.
  static Expected<std::unique_ptr<SharedReading>> open(const std::string& address,
                                                       std::span<const ManifestFile> files,
                                                       std::size_t member, std::size_t members);
  std::string address() const;

  // Tells the other members what this member will read. Each member must call announce() before any member
  // calls read().
  void announce(std::span<const PartRequest> requests);
  // Watches these processes, in which the other members run. So this member notices at once when one of them
  // has ended.
  void watch(std::span<const pid_t> processes);
  // Reads the same parts as read_parts() would, but together with the other members. `requests` must be the
  // requests that this member has announced.
  Status read(const std::string& directory, std::vector<PartRequest> requests);

 private:
  struct Slot;
  struct Board;
  class Cursor;
  SharedReading(std::span<const ManifestFile> files, std::size_t member, std::size_t members);
  Status map();
  std::uint64_t board_bytes() const;
  Board& board() const;
  Slot& slot_of(std::size_t turn) const;
  std::byte* memory_of(std::size_t turn) const;
  std::atomic<std::uint64_t>& needed_by(std::size_t chunk) const;
  std::size_t chunk_at(std::uint32_t file, std::uint64_t offset) const;

  void read_chunks(const std::string& directory);
  bool wait_for(const std::atomic<std::uint32_t>& count, std::size_t wanted);
  bool has_one_ended() const;

  const std::span<const ManifestFile> files_;
  const std::uint64_t member_;  // a mask with the bit of this member
  const std::size_t members_;
  std::vector<std::size_t> first_chunks_;  // the first chunk of each file; then the number of all chunks
  std::uint64_t slot_bytes_ = 0;
  UniqueFd fd_;
  StagingMemory memory_;
  std::vector<UniqueFd> processes_;
  std::vector<std::size_t> order_;
  std::atomic<bool> has_given_up_ = false;
};

}  // namespace muster
