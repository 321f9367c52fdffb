#include "runtime/comm/mpi/direct.h"

#include <algorithm>

namespace muster::mpi {
namespace {

constexpr int kMostRanks = 8;  // each sends to each
// Measured, ranks of one machine: below these MPI's own is the faster one.
constexpr std::int64_t kLeastOfTwo = std::int64_t{4} << 10;
constexpr std::int64_t kLeastPart = std::int64_t{32} << 10;
constexpr std::int64_t kTags = std::int64_t{1} << 22;  // every transport of Open MPI has twice as many

}  // namespace

Rooms::Room Rooms::take(std::size_t size) {
  if (rooms_.empty()) return {std::make_unique_for_overwrite<char[]>(size), size};
  Room room = std::move(rooms_.back());
  rooms_.pop_back();
  if (room.size < size) room = {std::make_unique_for_overwrite<char[]>(size), size};
  return room;
}

bool is_direct(std::int64_t bytes, int size) {
  if (size == 2) return bytes >= kLeastOfTwo;
  return size > 2 && size <= kMostRanks && bytes >= kLeastPart * size;
}

bool DirectAllReduce::takes(std::int64_t piece) const {
  const Data data = data_of_(piece);
  return is_direct(data.count * static_cast<std::int64_t>(data.element_bytes), group_->size);
}

DirectAllReduce::Part DirectAllReduce::part_of(const Data& data, int rank) const {
  const auto begin_of = [&](int each) { return std::int64_t{data.count} * each / group_->size; };
  const std::int64_t begin = begin_of(rank);
  return {data.bytes + static_cast<std::size_t>(begin) * data.element_bytes,
          static_cast<int>(begin_of(rank + 1) - begin)};
}

template <class Gets, class Sends>
int DirectAllReduce::exchange(Piece& piece, Requests& more, const Gets& gets, const Sends& sends) {
  const std::size_t before = more.size();
  int code = MPI_SUCCESS;
  for (const bool is_send : {false, true})
    for (int each = 1; each < group_->size && code == MPI_SUCCESS; ++each) {
      const int other = (group_->rank + each) % group_->size;
      const auto [bytes, count] = is_send ? sends(other) : gets(other);
      MPI_Request request = MPI_REQUEST_NULL;
      code = is_send ? MPI_Isend(bytes, count, piece.data.type, other, piece.tag, piece.comm, &request)
                     : MPI_Irecv(bytes, count, piece.data.type, other, piece.tag, piece.comm, &request);
      if (code == MPI_SUCCESS) more.push_back(request);
    }
  piece.open = more.size() - before;
  return code;
}

int DirectAllReduce::start(std::int64_t number, MPI_Comm comm, Requests& more) {
  const Data data = data_of_(number);
  Piece& piece = pieces_.emplace_back(Piece{
      .number = number, .data = data, .comm = comm, .tag = static_cast<int>(group_->count++ % kTags * 2)});
  const Part own = part_of(data, group_->rank);
  const std::size_t own_bytes = static_cast<std::size_t>(own.count) * data.element_bytes;
  piece.room = group_->rooms.take(own_bytes * static_cast<std::size_t>(group_->size - 1));
  char* free = piece.room.bytes.get();
  return exchange(
      piece, more, [&](int) { return Part{std::exchange(free, free + own_bytes), own.count}; },
      [&](int other) { return part_of(data, other); });
}

// What came lies in the order of the ranks behind this one.
int DirectAllReduce::reduce(const Piece& piece) const {
  const Part own = part_of(piece.data, group_->rank);
  const std::size_t own_bytes = static_cast<std::size_t>(own.count) * piece.data.element_bytes;
  for (int each = 0; each < group_->size - 1; ++each) {
    const char* const from = piece.room.bytes.get() + static_cast<std::size_t>(each) * own_bytes;
    const int code = MPI_Reduce_local(from, own.bytes, own.count, piece.data.type, piece.data.op);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int DirectAllReduce::go_on(std::int64_t number, Requests& more, bool& is_over) {
  const auto found = std::ranges::find(pieces_, number, &Piece::number);
  is_over = found == pieces_.end();  // one that was not taken
  if (is_over) return MPI_SUCCESS;
  Piece& piece = *found;
  if (--piece.open > 0) return MPI_SUCCESS;
  if (piece.is_reduced) {
    is_over = true;
    pieces_.erase(found);
    return MPI_SUCCESS;
  }
  const int code = reduce(piece);
  if (code != MPI_SUCCESS) return code;
  group_->rooms.give_back(std::move(piece.room));
  piece.is_reduced = true;
  ++piece.tag;
  return exchange(
      piece, more, [&](int other) { return part_of(piece.data, other); },
      [&](int) { return part_of(piece.data, group_->rank); });
}

}  // namespace muster::mpi
