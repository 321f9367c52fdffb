// The training thread passes a file to the writing thread through this memory. The bytes in it are exactly
// those that will be in the file.
//
// All saves use the same memory. The training thread fills it while the writing thread takes bytes out of it.
// If the file is larger than the memory, the memory is used as a ring buffer. Then the training thread waits
// until there is room.
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

// Allocates memory with all of its pages, so that no thread has to wait when it first touches a page. Returns
// kUnavailable if there is not enough memory.
Expected<StagingMemory> allocate_staging(std::uint64_t size_bytes);
// Maps a file of this size into memory and allocates all of its pages. The file can be a memfd that another
// process has created. Returns kUnavailable if there is not enough memory.
Expected<StagingMemory> map_staging(int fd, std::uint64_t size_bytes);

// Locks the pages in memory until the memory is freed. Then a GPU can copy into them while the program goes
// on. This function uses the current device of the thread. If this process has no CUDA context on that
// device, CUDA creates one. If CUDA is not loaded, or if it fails to lock the pages, this function does
// nothing.
void lock_pages(StagingMemory& memory);

// Invariants:
// - released_ <= filled_ <= file_bytes_, and filled_ - released_ <= capacity().
// - Byte B of the file is in the memory if `released_ <= B` and `B < filled_`. Then it is at `B %
//   capacity()`.
// - Only the filling thread increases filled_ and uses waited_. Only the taking thread increases released_.
//   The mutex guards filled_, released_ and abandoned_.
// - reserve() and begin() are called only while neither thread fills or takes. So memory_ needs no guard.
// - No thread writes the bytes between released_ and filled_. Only the filling thread uses the bytes of its
//   Room.
// - After abandon(), and until the next call of begin(), neither thread waits for the other.
class Staging {
 public:
  // The size of a chunk. The bytes are hashed, written and released chunk by chunk.
  static constexpr std::uint64_t kChunkBytes = 4 << 20;
  using Allocate = std::function<Expected<StagingMemory>(std::uint64_t size_bytes)>;

  // `limit_bytes` is the most memory that a Staging uses. If the limit is less than two chunks, the Staging
  // uses two chunks.
  explicit Staging(std::uint64_t limit_bytes, Allocate allocate = allocate_staging);

  // Allocates memory for a file of this size. If the limit is lower, it allocates as much as the limit
  // allows.
  Status reserve(std::uint64_t file_bytes);
  std::uint64_t capacity() const { return memory_.bytes.size(); }

  // Begins a file of this size. Call reserve() before it. `ranks` is the number of ranks of this machine that
  // fill their memory at the same time. If these ranks need all cores of the machine, a room can be as large
  // as the whole file. (A room is the part of the memory that is filled at once.) The taking thread then
  // begins when the filling thread has filled everything.
  void begin(std::uint64_t file_bytes, int ranks);

  struct Room {
    std::uint64_t offset = 0;  // in the file
    std::span<std::byte> bytes;
  };
  // Returns memory for the next part of the file, and waits until such memory is free. Returns an empty room
  // if the whole file has been filled, or if one of the two threads has given up.
  Room wait_for_room();
  void fill(std::uint64_t count);  // this many bytes of the room have been filled

  // Waits for a chunk of the file, and returns its memory. `offset` is where the chunk begins in the file. It
  // must be a multiple of kChunkBytes. The last chunk ends at the end of a page, which can be after the end
  // of the file. Returns an empty chunk if the filling thread or the taking thread has given up.
  std::span<std::byte> wait_for_chunk(std::uint64_t offset);
  void release(std::uint64_t end);  // the bytes before `end` can be overwritten

  // A thread calls abandon() to give up. The other thread then stops waiting.
  void abandon();
  // Returns how long the filling thread has waited for room since begin() was called. Only the filling thread
  // calls it.
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
