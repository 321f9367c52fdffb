// Collectives among the ranks of a group on one host. Each of them is a coroutine, called Steps (steps.h).
//
// Large tensors are divided into pieces. A rank copies its data of a piece into its own buffer, where the
// other ranks read it. There are two ways to reduce. If there are few elements, each rank reduces all of them
// by itself. If there are many, each rank reduces its share of a piece. It writes the result over the inputs
// that it has read. Elements are always reduced in the order of the ranks (combine.h). If each pair of ranks
// exchanges different data, the data is sent as messages.
//
// The pointers must be valid until the Steps have ended. Nothing here blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/comm/shm/combine.h"
#include "runtime/comm/shm/messages.h"
#include "runtime/comm/shm/steps.h"

namespace muster::shm {

enum class Kind : std::uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
};

// This rank's access to the buffers of all ranks.
class Board {
 public:
  Board(const Segment& segment, Messages& messages, int rank)
      : segment(segment), messages(messages), rank(rank), ranks(segment.ranks()) {}

  // Reserves `count` numbers for pieces and returns the first of them. All ranks get the same numbers.
  std::uint64_t take(std::uint64_t count) { return std::exchange(next_, next_ + count); }
  std::byte* buffer(int of, std::uint64_t piece) const { return segment.buffer(of, piece); }
  std::byte* mine(std::uint64_t piece) const { return buffer(rank, piece); }
  std::byte* sum_buffer(int of, std::uint64_t piece) const { return segment.sum_buffer(of, piece); }

  // lay() tells the other ranks that this rank has written a piece. finish() tells them that this rank no
  // longer needs the piece. lay() can also do the work of finish(): if `done` is not 0, it tells that this
  // rank no longer needs the pieces whose number is less than `done`.
  void lay(std::uint64_t piece, const CallTag& tag, std::uint64_t done = 0) const;
  void finish(std::uint64_t piece) const;
  // Before you write a piece to a buffer, wait for free(). Then no rank needs the old content of the buffer
  // any more, nor the old tag.
  Until free(std::uint64_t piece) const { return done_by_all(least_done(piece)); }
  // Before you write the first piece of a large all-reduce, wait for sums_free(). Then no rank needs the old
  // content of the sum buffers any more, nor the old tag.
  Until sums_free(std::uint64_t first, std::uint64_t pieces) {
    return done_by_all(std::max(least_done(first), std::exchange(sums_end_, first + pieces)));
  }
  Until laid_by_all(std::uint64_t piece, const CallTag& tag) const;
  Until laid_by(int other, std::uint64_t piece, const CallTag& tag) const;

  const Segment& segment;
  Messages& messages;
  const int rank;
  const int ranks;

 private:
  static std::uint64_t least_done(std::uint64_t piece) { return piece < kBuffers ? 0 : piece + 1 - kBuffers; }
  Until done_by_all(std::uint64_t pieces) const;

  std::uint64_t next_ = 0;
  std::uint64_t sums_end_ = 0;  // one past the last piece in the sum buffers
};

struct Reducing {
  Combine* combine;
  std::size_t element_bytes;
};
// Reduces `data` in place. If the collective is a kReduce, only the rank tag.root gets the result. On the
// other ranks, `data` is then not changed.
Steps all_reduce(Board& board, CallTag tag, Reducing how, std::byte* data);
Steps broadcast(Board& board, CallTag tag, std::byte* data);
// Collects tag.count bytes from each rank. outputs[r] receives the bytes of rank r. `input` can be the same
// memory as this rank's output.
Steps all_gather(Board& board, CallTag tag, const std::byte* input, std::vector<std::byte*> outputs);
// Reduces tag.count elements for each rank. inputs[r] has this rank's elements for rank r. `output` receives
// the result for this rank.
Steps reduce_scatter(Board& board, CallTag tag, Reducing how, std::vector<const std::byte*> inputs,
                     std::byte* output);
// exchange() sends out[r] to each rank r, and receives in[r] from it. It sends nothing for an empty part.
// gather() and scatter() use it, too.
struct Part {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
Steps exchange(Board& board, CallTag tag, std::vector<Part> out, std::vector<Part> in);
Steps barrier(Board& board, CallTag tag);

}  // namespace muster::shm
