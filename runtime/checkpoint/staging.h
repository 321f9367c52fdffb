// The memory in which a file lies, byte for byte as it will on the disk, on its way from the training thread,
// which fills it in, to the writing thread.
//
// It is allocated once and used again for each save. A file that is larger goes through it as through a ring:
// the training thread then waits for the writing one. One thread fills, one thread takes; reserve() and
// begin() are for the filling one, while nothing is under way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "common/base/error.h"

namespace muster {

struct StagingMemory {
  std::span<std::byte> bytes;   // begins at a page
  std::shared_ptr<void> owner;  // frees it
};

// Pages that are there already, so that nobody waits for the first touch of each. kUnavailable if there are
// not enough.
Expected<StagingMemory> allocate_staging(std::uint64_t size_bytes);
// Maps a file of this size, such as a memfd that another process holds, and makes its pages; kUnavailable if
// there are not enough.
Expected<StagingMemory> map_staging(int fd, std::uint64_t size_bytes);

// Locks the memory's pages until it is freed, so that a GPU copies into them by itself while the host goes
// on; by the thread's current device, which gets a context of this process if it has none. Where no CUDA is
// loaded, or CUDA refuses, the memory stays as it is.
void lock_pages(StagingMemory& memory);

class Staging {
 public:
  // What is written, hashed and freed at once.
  static constexpr std::uint64_t kChunkBytes = 4 << 20;
  using Allocate = std::function<Expected<StagingMemory>(std::uint64_t size_bytes)>;

  // At least two chunks, whatever the limit.
  explicit Staging(std::uint64_t limit_bytes, Allocate allocate = allocate_staging);

  // Memory for a file of this size, or as much as the limit allows. Does nothing if it is there.
  Status reserve(std::uint64_t file_bytes);
  std::uint64_t capacity() const { return memory_.bytes.size(); }

  // A file of this size follows; after reserve(). So many ranks of this machine fill at once: if they have
  // all its processors, the taker begins behind them and not beside them.
  void begin(std::uint64_t file_bytes, int ranks);

  struct Room {
    std::uint64_t offset = 0;  // in the file
    std::span<std::byte> bytes;
  };
  // The next part of the file to be filled in; waits for it. Empty: all has been filled in, or the taker has
  // given up.
  Room wait_for_room();
  void fill(std::uint64_t count);  // this many bytes of the room have their values

  // The bytes of the file from `offset` on, up to a chunk of them, when they are there; `offset` is a
  // multiple of kChunkBytes. Behind the file's end there is room up to the end of a page. Empty: the filler
  // has given up.
  std::span<std::byte> wait_for_chunk(std::uint64_t offset);
  void release(std::uint64_t end);  // what lies before it is not needed any more

  // Either side gives up: the other one waits no more.
  void abandon();
  // How long the filler has waited for room since begin().
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  const std::uint64_t limit_bytes_;
  const Allocate allocate_;
  StagingMemory memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t most_room_bytes_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t released_ = 0;
  bool abandoned_ = false;
  std::chrono::nanoseconds waited_{};
};

}  // namespace muster
