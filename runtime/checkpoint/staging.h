// The memory through which a file goes from the training thread to the writing thread, byte for byte as it
// will lie on the disk.
//
// All saves use the same memory. The training thread fills it while the writing thread takes from it. If a
// file is larger, the memory is a ring buffer, and the training thread waits for room.
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

// Allocates memory and all of its pages, so that no thread waits when it first touches a page. kUnavailable:
// there is not enough memory.
Expected<StagingMemory> allocate_staging(std::uint64_t size_bytes);
// Maps a file of this size, such as a memfd that another process holds, and allocates its pages.
// kUnavailable: there is not enough memory.
Expected<StagingMemory> map_staging(int fd, std::uint64_t size_bytes);

// Locks the pages until the memory is freed, so that a GPU can copy into them while the host goes on. Uses
// the thread's current device, and creates a context there if this process has none. Does nothing if CUDA is
// not loaded or refuses.
void lock_pages(StagingMemory& memory);

// Invariants:
// - released_ <= filled_ <= file_bytes_, and filled_ - released_ <= capacity().
// - Byte B of the file lies at `B % capacity()` while `released_ <= B` and `B < filled_`.
// - The filling thread alone raises filled_ and uses waited_; the taking thread alone raises released_. The
//   mutex guards filled_, released_ and abandoned_.
// - reserve() and begin() are called while neither thread fills or takes, so nothing guards memory_.
// - Nobody writes the bytes between released_ and filled_. Only the filling thread uses those of its Room.
// - After abandon() neither thread waits until the next begin().
class Staging {
 public:
  // Bytes are hashed, written and released in chunks of this size.
  static constexpr std::uint64_t kChunkBytes = 4 << 20;
  using Allocate = std::function<Expected<StagingMemory>(std::uint64_t size_bytes)>;

  // Uses at least two chunks, even if the limit is lower.
  explicit Staging(std::uint64_t limit_bytes, Allocate allocate = allocate_staging);

  // Makes sure that there is memory for a file of this size, or as much as the limit allows.
  Status reserve(std::uint64_t file_bytes);
  std::uint64_t capacity() const { return memory_.bytes.size(); }

  // Begins a file of this size; call reserve() first. `ranks` ranks of this machine fill at the same time. If
  // they need all of its cores, a room (the part that is filled at once) can be as large as the file. The
  // taking thread then starts when the filling thread is done.
  void begin(std::uint64_t file_bytes, int ranks);

  struct Room {
    std::uint64_t offset = 0;  // in the file
    std::span<std::byte> bytes;
  };
  // Waits for room for the next part of the file. Returns an empty room if the file is filled, or if a thread
  // has given up.
  Room wait_for_room();
  void fill(std::uint64_t count);  // this many bytes of the room have been filled

  // Waits for the chunk of the file that begins at `offset`, a multiple of kChunkBytes. The memory extends to
  // the end of the page in which the file ends. Returns an empty chunk if a thread has given up.
  std::span<std::byte> wait_for_chunk(std::uint64_t offset);
  void release(std::uint64_t end);  // the bytes before `end` can be overwritten

  // Either thread calls it to give up. The other thread then stops waiting.
  void abandon();
  // Returns how long the filling thread has waited for room since begin(). Only that thread calls it.
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
