#include "runtime/comm/mpi/direct.h"

#include <algorithm>

namespace muster::mpi {
namespace {

constexpr int kMostRanks = 8;  // the number of messages grows with the square of this
// Below these limits, MPI's own all-reduce is faster. This was measured with ranks on one machine. With two
// ranks, the first limit is for a piece. With more ranks, the second limit is for the part of a piece that
// belongs to one rank.
constexpr std::int64_t kLeastBytesOfTwo = std::int64_t{4} << 10;
constexpr std::int64_t kLeastPartBytes = std::int64_t{32} << 10;
// After this many pieces, the tags of the first pieces are used again. A piece needs two tags, and MPI can
// limit the number of tags. Among the transports of Open MPI, UCX has the lowest limit: 2^23 tags.
constexpr std::int64_t kNumbers = std::int64_t{1} << 22;

}  // namespace

Rooms::Room Rooms::take(std::size_t size_bytes) {
  Room room;
  if (!rooms_.empty()) {
    room = std::move(rooms_.back());
    rooms_.pop_back();
  }
  if (room.size_bytes < size_bytes) room = {std::make_unique_for_overwrite<char[]>(size_bytes), size_bytes};
  return room;
}

bool may_be_direct(int size) {
  return size >= 2 && size <= kMostRanks;
}

bool is_direct(std::int64_t piece_bytes, int size) {
  return may_be_direct(size) && piece_bytes >= (size == 2 ? kLeastBytesOfTwo : kLeastPartBytes * size);
}

DirectAllReduce::Part DirectAllReduce::part_of(const Data& data, int rank) const {
  const auto begin_of = [&](int each) { return std::int64_t{data.count} * each / group_->size; };
  const std::int64_t begin = begin_of(rank);
  return {data.bytes + static_cast<std::size_t>(begin) * data.element_bytes,
          static_cast<int>(begin_of(rank + 1) - begin)};
}

template <class Gets, class Sends>
int DirectAllReduce::exchange(UnderWay& at, Requests& more, const Gets& gets, const Sends& sends) {
  const std::size_t before = more.size();
  int code = MPI_SUCCESS;
  for (const bool is_send : {false, true})
    for (int each = 1; each < group_->size && code == MPI_SUCCESS; ++each) {
      const int other = (group_->rank + each) % group_->size;
      const auto [bytes, count] = is_send ? sends(other) : gets(other);
      MPI_Request request = MPI_REQUEST_NULL;
      code = is_send ? MPI_Isend(bytes, count, at.data.type, other, at.tag, at.comm, &request)
                     : MPI_Irecv(bytes, count, at.data.type, other, at.tag, at.comm, &request);
      if (code == MPI_SUCCESS) more.push_back(request);
    }
  at.request_count = more.size() - before;
  return code;
}

std::optional<int> DirectAllReduce::start(std::int64_t piece, MPI_Comm comm, Requests& more) {
  const Data data = data_of_(piece);
  if (!is_direct(data.count * static_cast<std::int64_t>(data.element_bytes), group_->size))
    return std::nullopt;
  UnderWay& at =
      under_way_.emplace_back(UnderWay{.piece = piece,
                                       .data = data,
                                       .comm = comm,
                                       .tag = static_cast<int>(group_->piece_count++ % kNumbers * 2)});
  const Part own = part_of(data, group_->rank);
  const std::size_t own_bytes = static_cast<std::size_t>(own.count) * data.element_bytes;
  at.room = group_->rooms.take(own_bytes * static_cast<std::size_t>(group_->size - 1));
  char* next = at.room.bytes.get();
  return exchange(
      at, more, [&](int) { return Part{std::exchange(next, next + own_bytes), own.count}; },
      [&](int other) { return part_of(data, other); });
}

// Adds the parts that this rank has received to its own part. The part of the next rank comes first, and that
// of the previous rank comes last.
int DirectAllReduce::reduce(const UnderWay& at) const {
  const Part own = part_of(at.data, group_->rank);
  const std::size_t own_bytes = static_cast<std::size_t>(own.count) * at.data.element_bytes;
  for (int each = 0; each < group_->size - 1; ++each) {
    const char* const from = at.room.bytes.get() + static_cast<std::size_t>(each) * own_bytes;
    const int code = MPI_Reduce_local(from, own.bytes, own.count, at.data.type, at.data.op);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int DirectAllReduce::go_on(std::int64_t piece, Requests& more, bool& is_over) {
  const auto found = std::ranges::find(under_way_, piece, &UnderWay::piece);
  is_over = found == under_way_.end();
  if (is_over) return MPI_SUCCESS;
  UnderWay& at = *found;
  if (--at.request_count > 0) return MPI_SUCCESS;
  if (at.is_reduced) {
    is_over = true;
    under_way_.erase(found);
    return MPI_SUCCESS;
  }
  const int code = reduce(at);
  if (code != MPI_SUCCESS) return code;
  group_->rooms.give_back(std::move(at.room));
  at.is_reduced = true;
  ++at.tag;
  return exchange(
      at, more, [&](int other) { return part_of(at.data, other); },
      [&](int) { return part_of(at.data, group_->rank); });
}

}  // namespace muster::mpi
