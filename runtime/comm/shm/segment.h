// The memory that the ranks of a group on one host share. It has the progress of each rank, buffers for
// collectives, and a pipe from each rank to each other rank.
//
// The memory has no name. The first rank creates it. The other ranks open it by the descriptor of the first
// rank in /proc. So no memory remains when the ranks end, no matter which of them dies and when.
//
// The size has a limit, and pages that are not used take no memory. Each rank has kBuffers buffers of
// kBufferBytes, and kSumBuffers buffers of kSumBytes. Each pair of ranks has two pipes of pipe_bytes(). In
// this file, a rank is a place in the group.
//
// A rank writes only to its own RankState and its own buffers. There are two exceptions: the words that wake
// other ranks, and sums. Every rank writes its sums into the buffers of all ranks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::shm {

constexpr int kMostRanks = 256;
// The number of buffers of a rank. With four, a rank can be up to three pieces ahead of another rank without
// waiting for it.
constexpr std::size_t kBuffers = 4;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
// The number and size of the buffers for all-reduce. They are so few and so small that they stay in a
// processor's nearest caches, even if two ranks share a processor.
constexpr std::size_t kSumBuffers = 2;
constexpr std::size_t kSumBytes = std::size_t{128} << 10;
// The total size of all pipes into one rank. A single pipe has between 64 KiB and 1 MiB.
constexpr std::size_t kPipesBytes = std::size_t{8} << 20;

// The properties of a collective that must be equal on all of its ranks.
struct CallTag {
  std::uint64_t count = 0;  // elements or bytes
  std::uint32_t root = 0;
  std::uint8_t kind = 0;
  std::uint8_t reduction = 0;
  std::uint8_t type = 0;
  std::uint8_t unused = 0;
  bool operator==(const CallTag&) const = default;
};

enum class Presence : std::uint32_t { kAbsent, kHere, kLeft, kGaveUp };

struct alignas(64) RankState {
  std::atomic<std::uint32_t> pid;
  std::atomic<Presence> presence;
  // Collectives work in pieces. `laid` counts the pieces that this rank has written to its buffer. `done`
  // counts the pieces that this rank has finished: for them, it no longer reads the other ranks' buffers.
  alignas(64) std::atomic<std::uint64_t> laid;
  std::atomic<std::uint64_t> done;
  CallTag tags[kBuffers];  // piece n has its tag at `n % kBuffers`
  // Threads of this rank can sleep until another rank does something. `sleeps_for` says for which ranks they
  // sleep: it has a bit for each rank modulo 64. `bell` is the word on which they sleep.
  alignas(64) std::atomic<std::uint64_t> sleeps_for;
  std::atomic<std::uint32_t> bell;
  // This rank's own thread sleeps on this word until it is needed.
  alignas(64) std::atomic<std::uint32_t> call;
  char reason[192];  // of a rank that gave up; written before `presence`
};

// `written` counts all bytes that were ever written to the pipe. `taken` counts all bytes that were ever read
// from it.
struct Pipe {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> taken;
};

class Segment {
 public:
  static Expected<Segment> create(int ranks);
  // Opens the segment that another rank has created. `address` is what address() returned on that rank.
  // open() fails in the same cases as open_address().
  static Expected<Segment> open(const std::string& address, int ranks);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  // Returns the address of the segment. It is valid as long as this process lives and holds the segment.
  std::string address() const;
  int ranks() const { return ranks_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t pipe_bytes() const { return pipe_bytes_; }  // a power of two

  RankState& state(int rank) const;
  Pipe& pipe(int from, int to) const;
  std::byte* pipe_memory(int from, int to) const;
  std::byte* buffer(int rank, std::uint64_t piece) const;
  std::byte* sum_buffer(int rank, std::uint64_t piece) const;

  // Call one of these functions after the rank `rank` has written data. The first function wakes the rank
  // `to`, and the second wakes all ranks. Both wake only ranks that sleep until `rank` does something.
  void announce(int rank, int to) const;
  void announce(int rank) const;

 private:
  Segment(UniqueFd fd, int ranks);
  Status map();

  UniqueFd fd_;
  int ranks_;
  std::size_t pipe_bytes_;
  std::size_t states_at_, pipes_at_, buffers_at_, sums_at_, memories_at_, bytes_;
  std::byte* memory_ = nullptr;
};

// address_of() returns an address for the memory behind `fd`, which has no name in a file system. Another
// process on the same host can pass this address to open_address() and so open the memory. It can do so while
// this process runs and keeps `fd` open. open_address() returns kInvalidArgument if the other process is on
// another host, or if /proc does not show it.
std::string address_of(int fd);
Expected<UniqueFd> open_address(const std::string& address);

// Sleeps until the word is not equal to `seen`, until another thread calls wake(), or until the time `limit`
// has passed.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit);
// Changes the word to another value, and wakes all threads that sleep on it.
void wake(std::atomic<std::uint32_t>& word);

}  // namespace muster::shm
