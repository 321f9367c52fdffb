// Collectives among the ranks of a group on one host, as Steps (steps.h).
//
// Large tensors are cut into pieces. Each rank copies its data of a piece into a buffer of its own, where the
// others read it. In a reduction of few elements, each rank reduces all of them itself. In a reduction of
// many elements, each rank reduces its share of a piece, and writes the result over the inputs that it has
// read. Elements are reduced in the order of the ranks (combine.h). Data that differs between pairs of ranks
// is sent as messages. The pointers must stay valid until the Steps have finished. Nothing blocks.
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

  // Reserves `count` piece numbers, which are the same on all ranks, and returns the first.
  std::uint64_t take(std::uint64_t count) { return std::exchange(next_, next_ + count); }
  std::byte* buffer(int of, std::uint64_t piece) const { return segment.buffer(of, piece); }
  std::byte* mine(std::uint64_t piece) const { return buffer(rank, piece); }
  std::byte* sum_buffer(int of, std::uint64_t piece) const { return segment.sum_buffer(of, piece); }

  // lay() tells the other ranks that this rank has written a piece; finish() tells them that it is done with
  // the piece. If `done` is not 0, lay() also tells them that this rank is done with all pieces below `done`.
  void lay(std::uint64_t piece, const CallTag& tag, std::uint64_t done = 0) const;
  void finish(std::uint64_t piece) const;
  // Wait for free() before you write a piece. After that, no rank needs the buffer's old content or its tag.
  Until free(std::uint64_t piece) const { return done_by_all(least_done(piece)); }
  // Wait for sums_free() before you write the first piece of a large all-reduce. After that, no rank needs
  // the old content of the sum buffers, or the old tag.
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
// Reduces in place. For kReduce only tag.root gets the result; on other ranks `data` is only read.
Steps all_reduce(Board& board, CallTag tag, Reducing how, std::byte* data);
Steps broadcast(Board& board, CallTag tag, std::byte* data);
// Gathers tag.count bytes from each rank; outputs[r] receives the bytes of rank r. `input` may be
// outputs[rank].
Steps all_gather(Board& board, CallTag tag, const std::byte* input, std::vector<std::byte*> outputs);
// Reduces tag.count elements for each rank: inputs[r] are the elements for rank r.
Steps reduce_scatter(Board& board, CallTag tag, Reducing how, std::vector<const std::byte*> inputs,
                     std::byte* output);
// exchange() sends out[r] to rank r and receives in[r] from rank r; it does not send empty parts. Also used
// for gather and scatter.
struct Part {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
Steps exchange(Board& board, CallTag tag, std::vector<Part> out, std::vector<Part> in);
Steps barrier(Board& board, CallTag tag);

}  // namespace muster::shm
