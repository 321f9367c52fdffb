// An all-reduce in two steps, in place of MPI's, which of up to three ranks, and of any number whose data is
// in place, sends all to one rank and all back. Of `size` ranks each has one part: it gets its part from all
// others at once, adds these to its own in the order of the ranks behind it, and sends the result to all.
// Each rank sends and gets 2 (size - 1) / size of the data, and all ranks are busy (R. Rabenseifner,
// "Optimization of Collective Reduction Operations", 2004, with messages of each to each). Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mpi.h>
#include <utility>
#include <vector>

#include "runtime/comm/mpi/engine.h"

namespace muster::mpi {

// Room for what comes from the others, used again and again.
class Rooms {
 public:
  struct Room {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
  };
  Room take(std::size_t size);
  void give_back(Room room) {
    if (rooms_.size() < kMostKept) rooms_.push_back(std::move(room));
  }

 private:
  static constexpr std::size_t kMostKept = 8;  // of 4 MiB at most, as pieces are
  std::vector<Room> rooms_;
};

// Where one group's direct all-reduces are; all of it is of whoever has the turn.
struct DirectGroup {
  int rank = 0;
  int size = 1;
  Rooms rooms{};
  std::int64_t count = 0;  // of pieces so far, which all ranks start in the same order: their tags
};

// Whether it is faster than MPI's, for a piece of so many bytes. By any thread; the same on all ranks.
bool is_direct(std::int64_t bytes, int size);

// One call of a group's, by the numbers of its pieces; all of it is of whoever has the turn.
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

  bool takes(std::int64_t piece) const;
  // Operation's, of a piece that it takes; of others, go_on() says that they are over.
  int start(std::int64_t piece, MPI_Comm comm, Requests& more);
  int go_on(std::int64_t piece, Requests& more, bool& is_over);

 private:
  struct Piece {
    std::int64_t number = 0;
    Data data{};
    MPI_Comm comm{};
    int tag = 0;
    std::size_t open = 0;  // requests
    bool is_reduced = false;
    Rooms::Room room{};
  };
  struct Part {
    char* bytes = nullptr;
    int count = 0;
  };
  Part part_of(const Data& data, int rank) const;
  // With each of the others: where what it sends comes to, and what it is sent.
  template <class Gets, class Sends>
  int exchange(Piece& piece, Requests& more, const Gets& gets, const Sends& sends);
  int reduce(const Piece& piece) const;

  const std::shared_ptr<DirectGroup> group_;
  const DataOf data_of_;
  std::vector<Piece> pieces_;  // under way
};

}  // namespace muster::mpi
