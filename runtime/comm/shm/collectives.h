// What the ranks of a group on one host do together, as Steps.
//
// Large tensors go in pieces: each rank lays its part of a piece into a buffer of its own, where the others
// read it. A reduction of many elements is made by all, each of its share of a piece, which it puts back to
// where it has read it; one of few elements by each rank for itself. Either way it is made in the order of
// the ranks (combine.h). What is different between each pair of ranks goes as messages.
// The pointers must stay valid until the Steps are through. Nothing here blocks.
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

// This rank's side of the buffers.
class Board {
 public:
  Board(const Segment& segment, Messages& messages, int rank)
      : segment(segment), messages(messages), rank(rank), ranks(segment.ranks()) {}

  // Numbers of the next pieces, the same on all ranks: the first.
  std::uint64_t take(std::uint64_t count) { return std::exchange(next_, next_ + count); }
  std::byte* buffer(int of, std::uint64_t piece) const { return segment.buffer(of, piece); }
  std::byte* mine(std::uint64_t piece) const { return buffer(rank, piece); }
  std::byte* sum_buffer(int of, std::uint64_t piece) const { return segment.sum_buffer(of, piece); }

  // What this rank has done of a piece; `done`: it is through with those before that one.
  void lay(std::uint64_t piece, const CallTag& tag, std::uint64_t done = 0) const;
  void finish(std::uint64_t piece) const;
  // Before it lays something down: nobody needs what was in the buffer, or the tag of that.
  Until free(std::uint64_t piece) const { return done_by_all(least_done(piece)); }
  // Before the first of an all-reduce's pieces: nor what was in the buffers of sums.
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
  std::uint64_t sums_end_ = 0;  // the number behind the last piece in the buffers of sums
};

struct Reducing {
  Combine* combine;
  std::size_t element_bytes;
};
// In place. `tag.root` of a kReduce gets the result; on the others `data` is only read.
Steps all_reduce(Board& board, CallTag tag, Reducing how, std::byte* data);
Steps broadcast(Board& board, CallTag tag, std::byte* data);
// tag.count bytes from each; outputs[r] is where those of rank r go. `input` may be outputs[rank].
Steps all_gather(Board& board, CallTag tag, const std::byte* input, std::vector<std::byte*> outputs);
// tag.count elements for each: inputs[r] are those for rank r.
Steps reduce_scatter(Board& board, CallTag tag, Reducing how, std::vector<const std::byte*> inputs,
                     std::byte* output);
// What goes to each rank, and what comes from each; an empty piece goes nowhere. Also gather and scatter.
struct Part {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
Steps exchange(Board& board, CallTag tag, std::vector<Part> out, std::vector<Part> in);
Steps barrier(Board& board, CallTag tag);

}  // namespace muster::shm
