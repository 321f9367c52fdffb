// Ranks of one node that read the same checkpoint at once: each chunk that some of them need is read by one
// of them, past the page cache, verified there, and copied by all that need it out of memory that they share.
//
// Chunks follow each other through a few slots, in the order of the files. Nobody waits for another one for
// long: who sees that a member has ended, or has waited for ten seconds, reads by itself what it still lacks;
// so does who needs a chunk that could not be read or verified, and tells what is wrong with it.
// For one thread; threads of its own end before read() returns.
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

class SharedReading {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  // Whether so many members can, and there is enough in the files to pay for the memory.
  static bool is_worth_it(std::span<const ManifestFile> files, std::size_t members);

  // By the first member. `files` outlive it.
  static Expected<std::unique_ptr<SharedReading>> create(std::span<const ManifestFile> files,
                                                         std::size_t members);
  // By the others, with the first one's address(), while that lives. kInvalidArgument if they do not see each
  // other's processes.
  static Expected<std::unique_ptr<SharedReading>> open(const std::string& address,
                                                       std::span<const ManifestFile> files,
                                                       std::size_t member, std::size_t members);
  std::string address() const;

  // What this member will read. All members do that before one of them reads.
  void announce(std::span<const PartRequest> requests);
  // The members' processes: that one has ended is seen at once then.
  void watch(std::span<const pid_t> processes);
  // As read_parts(), of what was announced.
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
  const std::uint64_t member_;  // its bit
  const std::size_t members_;
  std::vector<std::size_t> first_chunks_;  // of each file, and the end of the last one's
  std::uint64_t slot_bytes_ = 0;
  UniqueFd fd_;
  StagingMemory memory_;
  std::vector<UniqueFd> processes_;
  std::vector<std::size_t> order_;  // chunks by turn
  std::atomic<bool> has_given_up_ = false;
};

}  // namespace muster
