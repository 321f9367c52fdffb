// An all-reduce in two steps, in place of MPI's, which adds data in place up along a tree to one rank, and
// sends it back along one. Of `size` ranks each has one part: it gets its part from all others at once, adds
// these to its own in the order of the ranks behind it, and sends the result to all. Each rank sends and gets
// 2 (size - 1) / size of the data, and all ranks are busy (R. Rabenseifner, "Optimization of Collective
// Reduction Operations", 2004, with messages of each to each). Ranks must agree on
// the size of the data, as in MPI: it is not looked at. Free of torch.
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

// Room for what comes from the others, used again and again: a group keeps up to 32 MiB of it.
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
  static constexpr std::size_t kMostKept = 8;  // of 4 MiB at most, as pieces are
  std::vector<Room> rooms_;
};

// Where one group's direct all-reduces are; all of it is of whoever has the turn.
struct DirectGroup {
  int rank = 0;
  int size = 1;
  Rooms rooms{};
  // So far: all ranks start pieces in the same order, which gives them their tags.
  std::int64_t piece_count = 0;
};

// Whether the direct all-reduce is the faster one for a piece of so many bytes, and whether it is for any.
// By any thread; the same on all ranks.
bool is_direct(std::int64_t piece_bytes, int size);
bool may_be_direct(int size);

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

  // Operation's; nothing of a piece that is not direct, of which go_on() says that it is over.
  std::optional<int> start(std::int64_t piece, MPI_Comm comm, Requests& more);
  int go_on(std::int64_t piece, Requests& more, bool& is_over);

 private:
  struct UnderWay {
    std::int64_t piece = 0;
    Data data{};
    MPI_Comm comm{};
    int tag = 0;
    std::size_t request_count = 0;  // that have not ended
    bool is_reduced = false;
    Rooms::Room room{};
  };
  struct Part {
    char* bytes = nullptr;
    int count = 0;
  };
  Part part_of(const Data& data, int rank) const;
  // Starts a receive from and a send to each other rank: `gets` names the memory, and `sends` the data.
  template <class Gets, class Sends>
  int exchange(UnderWay& at, Requests& more, const Gets& gets, const Sends& sends);
  int reduce(const UnderWay& at) const;

  const std::shared_ptr<DirectGroup> group_;
  const DataOf data_of_;
  std::vector<UnderWay> under_way_;
};

}  // namespace muster::mpi
