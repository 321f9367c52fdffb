// The memory through which a file goes from the training thread to the writing thread, byte for byte as it
// will lie on the disk.
//
// All saves use the same memory. A file that is larger goes through it as through a ring buffer: the training
// thread then waits for the writing thread. One thread fills while the other takes.
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
  std::shared_ptr<void> owner;  // frees the memory
};

// Allocates memory and all of its pages, so that no thread waits when it first touches one. kUnavailable:
// there is not enough memory.
Expected<StagingMemory> allocate_staging(std::uint64_t size_bytes);
// Maps a file of this size, such as a memfd that another process holds, and makes its pages. kUnavailable:
// there is not enough memory.
Expected<StagingMemory> map_staging(int fd, std::uint64_t size_bytes);

// Locks the pages until the memory is freed, so that a GPU can copy into them while the host goes on. Uses
// the thread's current device, on which this process gets a context if it has none. Does nothing if CUDA is
// not loaded or refuses.
void lock_pages(StagingMemory& memory);

// Invariants:
// - released_ <= filled_ <= file_bytes_, and filled_ - released_ <= capacity().
// - Byte B of the file lies at `B % capacity()` while `released_ <= B` and `B < filled_`.
// - The filling thread alone raises filled_ and uses waited_; the taking thread alone raises released_. The
//   mutex guards filled_, released_ and abandoned_.
// - reserve() and begin() are called while neither thread fills or takes, so nothing guards memory_.
// - Nobody writes the bytes between released_ and filled_. Nobody reads the bytes of the current room.
// - After abandon() neither thread waits until the next begin().
class Staging {
 public:
  // The bytes that are written, hashed and freed at once.
  static constexpr std::uint64_t kChunkBytes = 4 << 20;
  using Allocate = std::function<Expected<StagingMemory>(std::uint64_t size_bytes)>;

  // Uses at least two chunks, even if the limit is lower.
  explicit Staging(std::uint64_t limit_bytes, Allocate allocate = allocate_staging);

  // Allocates memory for a file of this size, or as much as the limit allows, unless there is enough already.
  Status reserve(std::uint64_t file_bytes);
  std::uint64_t capacity() const { return memory_.bytes.size(); }

  // Begins a file of this size; call reserve() before. `ranks` ranks of this machine fill at once. If they
  // need all of its cores, a room can be as large as the file, and the taker begins when that room is filled.
  void begin(std::uint64_t file_bytes, int ranks);

  struct Room {
    std::uint64_t offset = 0;  // in the file
    std::span<std::byte> bytes;
  };
  // Waits for room for the next part of the file. Empty: the file is filled, or the taker has given up.
  Room wait_for_room();
  void fill(std::uint64_t count);  // this many bytes of the room are filled

  // Waits for the chunk of the file that begins at `offset`, a multiple of kChunkBytes. Behind the end of the
  // file the memory extends to the end of the page. Empty: the filler has given up.
  std::span<std::byte> wait_for_chunk(std::uint64_t offset);
  void release(std::uint64_t end);  // the bytes before `end` may be overwritten

  // Either thread calls it to give up. The other one does not wait any more.
  void abandon();
  // Returns how long the filler has waited for room since begin(). For the filler.
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
