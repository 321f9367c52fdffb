// An all-reduce in two steps that replaces MPI's. MPI adds the data along a tree to one rank, and sends the
// sum back along the tree. Here, each of the `size` ranks owns one part of the data. It receives its part
// from all other ranks at once, adds these to its own in the order of the ranks after it, and sends the sum
// to all. Each rank sends and receives `2 (size - 1) / size` of the data, and all ranks work at the same time
// (R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004, with messages from each rank to
// each). As in MPI, ranks must agree on the size of the data; nobody checks the size. This code does not use
// torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mpi.h>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/comm/mpi/engine.h"

namespace muster::mpi {

// Reusable memory for data from the other ranks: a group keeps up to 32 MiB of it.
class Rooms {
 public:
  struct Room {
    std::unique_ptr<char[]> bytes;
    std::size_t size_bytes = 0;
  };
  Room take(std::size_t size_bytes);
  void give_back(Room room) {
    if (rooms_.size() < kMostKept) rooms_.push_back(std::move(room));
  }

 private:
  static constexpr std::size_t kMostKept = 8;  // of at most 4 MiB each, the size of a piece
  std::vector<Room> rooms_;
};

// The state of one group's direct all-reduces. Only the thread that makes the MPI calls (engine.h) uses it.
struct DirectGroup {
  int rank = 0;
  int size = 1;
  Rooms rooms{};
  // The number of pieces so far, from which a piece gets its tags. All ranks start pieces in the same order.
  std::int64_t piece_count = 0;
};

// is_direct() says whether the direct all-reduce is faster for a piece of this size; may_be_direct() says
// whether it is faster for any size. Safe from any thread; the answers are the same on all ranks.
bool is_direct(std::int64_t piece_bytes, int size);
bool may_be_direct(int size);

// One all-reduce of a group, in numbered pieces. Only the thread that makes the MPI calls (engine.h) uses it.
class DirectAllReduce {
 public:
  struct Data {
    char* bytes = nullptr;
    int count = 0;
    std::size_t element_bytes = 1;
    MPI_Datatype type{};
    MPI_Op op{};
  };
  using DataOf = std::function<Data(std::int64_t piece)>;

  DirectAllReduce(std::shared_ptr<DirectGroup> group, DataOf data_of)
      : group_(std::move(group)), data_of_(std::move(data_of)) {}

  // start() and go_on() do what Operation's functions of these names do (engine.h). If a piece is too small
  // for a direct all-reduce, start() returns nothing, and go_on() reports the piece as finished.
  std::optional<int> start(std::int64_t piece, MPI_Comm comm, Requests& more);
  int go_on(std::int64_t piece, Requests& more, bool& is_over);

 private:
  struct UnderWay {
    std::int64_t piece = 0;
    Data data{};
    MPI_Comm comm{};
    int tag = 0;
    std::size_t request_count = 0;  // unfinished requests
    bool is_reduced = false;
    Rooms::Room room{};
  };
  struct Part {
    char* bytes = nullptr;
    int count = 0;
  };
  Part part_of(const Data& data, int rank) const;
  // Starts a receive from each other rank and a send to each. `gets` returns the memory, `sends` the data.
  template <class Gets, class Sends>
  int exchange(UnderWay& at, Requests& more, const Gets& gets, const Sends& sends);
  int reduce(const UnderWay& at) const;

  const std::shared_ptr<DirectGroup> group_;
  const DataOf data_of_;
  std::vector<UnderWay> under_way_;
};

}  // namespace muster::mpi
