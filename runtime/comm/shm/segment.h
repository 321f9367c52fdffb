// The memory that the ranks of a group on one host share: what each has done, buffers for collectives, and a
// pipe from each rank to each other one.
//
// It has no name: the first rank makes it, and the others open it through the first one's descriptor in
// /proc, so that nothing is left whoever dies when. Its size is bounded, and pages that are never used take
// no memory: a rank has kBuffers buffers of kBufferBytes and kSumBuffers of kSumBytes, and each pair two
// pipes of pipe_bytes().
// Ranks are places in the group. Each writes its own RankState, except for the words that others wake it by,
// and its own buffers, except for sums, which each puts into all of them.
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
// Four, so that a rank which is up to three pieces ahead of another does not wait for it.
constexpr std::size_t kBuffers = 4;
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
// Of an all-reduce, which are few and small, to stay in the nearest caches of a processor, also where two
// ranks share one.
constexpr std::size_t kSumBuffers = 2;
constexpr std::size_t kSumBytes = std::size_t{128} << 10;
// Of all pipes into a rank; one has 64 KiB to 1 MiB.
constexpr std::size_t kPipesBytes = std::size_t{8} << 20;

// A collective as its ranks must agree on it.
struct CallTag {
  std::uint64_t count = 0;  // of elements, or of bytes
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
  // So many pieces of collectives this rank has laid into its buffer, and is through with: it uses none of
  // the others' buffers for them any more.
  alignas(64) std::atomic<std::uint64_t> laid;
  std::atomic<std::uint64_t> done;
  CallTag tags[kBuffers];  // of piece n in n % kBuffers
  // Whom a thread of this rank sleeps for, as bits (of a rank's number modulo 64), and the word it sleeps on.
  alignas(64) std::atomic<std::uint64_t> sleeps_for;
  std::atomic<std::uint32_t> bell;
  // On which this rank's own thread sleeps until it is needed.
  alignas(64) std::atomic<std::uint32_t> call;
  char reason[192];  // of one that gave up, written before that
};

// Bytes ever written into a pipe, and ever taken out.
struct Pipe {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> taken;
};

class Segment {
 public:
  static Expected<Segment> create(int ranks);
  // `address` as the creator's address() has it; fails as open_address().
  static Expected<Segment> open(const std::string& address, int ranks);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  // While this process lives and holds the segment.
  std::string address() const;
  int ranks() const { return ranks_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t pipe_bytes() const { return pipe_bytes_; }  // a power of two

  RankState& state(int rank) const;
  Pipe& pipe(int from, int to) const;
  std::byte* pipe_memory(int from, int to) const;
  std::byte* buffer(int rank, std::uint64_t piece) const;
  std::byte* sum_buffer(int rank, std::uint64_t piece) const;

  // After what `rank` has written: wakes the other one, or each, that sleeps for it.
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

// Of memory without a name: how another process opens it while this one lives and holds it. kInvalidArgument
// if that is on another host, or in a container that does not see this one's processes.
std::string address_of(int fd);
Expected<UniqueFd> open_address(const std::string& address);

// Returns when the word is no longer `seen`, somebody wakes it, or the time is over.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit);
// Changes it, and wakes who sleeps on it.
void wake(std::atomic<std::uint32_t>& word);

}  // namespace muster::shm
