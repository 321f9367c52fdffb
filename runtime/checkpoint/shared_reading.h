// Ranks of one node, the members, read the same checkpoint together. For each chunk, one member reads it past
// the page cache and verifies it. All members that need the chunk copy it from shared memory.
//
// If another member ends, or keeps a member waiting for ten seconds, the member reads by itself what it still
// lacks. If a chunk could not be read or verified, each member that needs it reads it by itself and reports
// the error. One thread uses the object; the threads that read() starts end before read() returns.
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
// - `order_` has the chunks that any member needs, in the order of the files. It is the same on all members.
//   A chunk's place in `order_` is its turn.
// - The chunk of turn T lies in slot `T % kSlots`, once that slot has been filled `T / kSlots + 1` times. It
//   stays there until all members that announced it have copied it, so each of them must copy it.
// - All shared memory is atomic, except for the bytes of a slot. The member that fills a slot writes the
//   bytes before it increments `filled`. Other members read them after that.
class SharedReading {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  // Returns true if this number of members is possible, and the files are large enough to read together.
  static bool is_worth_it(std::span<const ManifestFile> files, std::size_t members);

  // Only the first member calls it. `files` must outlive the object.
  static Expected<std::unique_ptr<SharedReading>> create(std::span<const ManifestFile> files,
                                                         std::size_t members);
  // The others call it with the address() of the first member, while the first member's object exists.
  // Returns kInvalidArgument if the two processes do not see each other.
  static Expected<std::unique_ptr<SharedReading>> open(const std::string& address,
                                                       std::span<const ManifestFile> files,
                                                       std::size_t member, std::size_t members);
  std::string address() const;

  // Tells the others what this member will read. All members must announce before any of them calls read().
  void announce(std::span<const PartRequest> requests);
  // Watches the members' processes, so that this member notices at once when one has ended.
  void watch(std::span<const pid_t> processes);
  // Does what read_parts() does. `requests` are those that were announced.
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
