// An all-reduce in two steps, which is used in the place of MPI's. MPI adds the data along a tree until one
// rank has the sum, and sends the sum back along the tree.
//
// Here, each of the `size` ranks owns one part of the data. In the first step, a rank receives its own part
// from all other ranks at the same time. It adds these parts to its own one by one. It begins with the part
// from the next rank, and ends with the part from the previous rank. In the second step, it sends the sum to
// all other ranks. So each rank sends and receives `2 (size - 1) / size` of the data, and all ranks work at
// the same time. (R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004. But here each
// rank sends messages to every other rank.)
//
// As in MPI, all ranks must pass data of the same size. This is not checked. This code does not use torch.
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

// Memory for data that arrives from other ranks. It is used again and again: a group keeps up to 32 MiB of
// it.
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

// The state that all direct all-reduces of a group share. Only the thread that makes the MPI calls (engine.h)
// uses it.
struct DirectGroup {
  int rank = 0;
  int size = 1;
  Rooms rooms{};
  // How many pieces this rank has started so far. A piece gets its tags from this number. All ranks start the
  // pieces in the same order, so they use the same tags.
  std::int64_t piece_count = 0;
};

// is_direct() returns whether the direct all-reduce is faster than MPI's for a piece of this size.
// may_be_direct() returns whether it is faster for some size. The answers are the same on all ranks. Any
// thread can call the functions.
bool is_direct(std::int64_t piece_bytes, int size);
bool may_be_direct(int size);

// One all-reduce of a group. It consists of numbered pieces. Only the thread that makes the MPI calls
// (engine.h) uses it.
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

  // start() and go_on() do the same as the functions of class Operation with these names (engine.h). If a
  // piece is too small for a direct all-reduce, start() returns nothing, and go_on() reports that the piece
  // is finished.
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
  // Starts to send data to each other rank, and to receive data from each other rank. Does not wait for these
  // messages. `sends` returns the data for a rank. `gets` returns the memory for the data from a rank.
  template <class Gets, class Sends>
  int exchange(UnderWay& at, Requests& more, const Gets& gets, const Sends& sends);
  int reduce(const UnderWay& at) const;

  const std::shared_ptr<DirectGroup> group_;
  const DataOf data_of_;
  std::vector<UnderWay> under_way_;
};

}  // namespace muster::mpi
