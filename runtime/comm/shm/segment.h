// The memory that the ranks of a group on one host share: each rank's progress, buffers for collectives, and
// a pipe from each rank to each other rank.
//
// The memory has no name. The first rank creates it; the others open it through the first rank's descriptor
// in /proc. So nothing remains, whichever rank dies and whenever. The size is bounded, and unused pages take
// no memory. Each rank has kBuffers buffers of kBufferBytes and kSumBuffers of kSumBytes; each pair has two
// pipes of pipe_bytes(). Ranks are places in the group. A rank writes only its own RankState and buffers,
// with two exceptions: the words that wake other ranks, and sums, which every rank writes into all buffers.
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
// Four, so a rank that is up to three pieces ahead of another does not wait for it.
constexpr std::size_t kBuffers = 4;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
// For all-reduce. Few and small, so they stay in a processor's nearest caches, even if two ranks share them.
constexpr std::size_t kSumBuffers = 2;
constexpr std::size_t kSumBytes = std::size_t{128} << 10;
// For all pipes into a rank; a single pipe has 64 KiB to 1 MiB.
constexpr std::size_t kPipesBytes = std::size_t{8} << 20;

// The properties of a collective that its ranks must agree on.
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
  // `laid` counts the pieces of collectives that this rank has written to its buffer. `done` counts the
  // pieces for which it no longer reads other ranks' buffers.
  alignas(64) std::atomic<std::uint64_t> laid;
  std::atomic<std::uint64_t> done;
  CallTag tags[kBuffers];  // piece n has its tag at `n % kBuffers`
  // `sleeps_for` has the ranks that a thread of this rank sleeps for, as bits (rank modulo 64). `bell` is the
  // word on which it sleeps.
  alignas(64) std::atomic<std::uint64_t> sleeps_for;
  std::atomic<std::uint32_t> bell;
  // The word on which this rank's own thread sleeps until it is needed.
  alignas(64) std::atomic<std::uint32_t> call;
  char reason[192];  // of a rank that gave up; written before `presence`
};

// The total number of bytes written to a pipe, and read from it.
struct Pipe {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> taken;
};

class Segment {
 public:
  static Expected<Segment> create(int ranks);
  // `address` comes from the creator's address(). Fails as open_address() does.
  static Expected<Segment> open(const std::string& address, int ranks);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  // The address is valid while this process lives and holds the segment.
  std::string address() const;
  int ranks() const { return ranks_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t pipe_bytes() const { return pipe_bytes_; }  // a power of two

  RankState& state(int rank) const;
  Pipe& pipe(int from, int to) const;
  std::byte* pipe_memory(int from, int to) const;
  std::byte* buffer(int rank, std::uint64_t piece) const;
  std::byte* sum_buffer(int rank, std::uint64_t piece) const;

  // Call after `rank` has written data: wakes the rank `to`, or all ranks, if they sleep for `rank`.
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

// Returns the address of memory without a name. With the address another process can open the memory while
// this process lives and holds it. open_address() returns kInvalidArgument if the two processes are on
// different hosts, or do not see each other in /proc.
std::string address_of(int fd);
Expected<UniqueFd> open_address(const std::string& address);

// Returns when the word differs from `seen`, after wake(), or after `limit`.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit);
// Changes the word, and wakes the threads that sleep on it.
void wake(std::atomic<std::uint32_t>& word);

}  // namespace muster::shm
