// All ranks in one thread: who goes on next is drawn, so that any of them may be far behind the others.
#include <algorithm>
#include <array>
#include <bit>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <vector>

#include "runtime/comm/shm/collectives.h"

namespace muster::shm {
namespace {

using Bytes = std::vector<std::byte>;

// One of them for all ranks; `count` elements, from each to each where there is more than one tensor.
struct Call {
  Kind kind;
  Type type;
  std::size_t count;
  std::uint32_t root;
  int number;
  std::size_t bytes() const { return count * bytes_of(type); }
  CallTag tag() const {
    const bool in_bytes = kind == Kind::kBroadcast || kind == Kind::kAllGather;
    return {.count = in_bytes ? bytes() : count,
            .root = root,
            .kind = static_cast<std::uint8_t>(kind),
            .reduction = 0,
            .type = static_cast<std::uint8_t>(type)};
  }
};

// Whole numbers up to 22, over and over: their sums are exact in each of the types.
constexpr std::size_t kPeriod = 23;
int value_of(const Call& call, int rank, std::size_t at) {
  return static_cast<int>((at * 7 + static_cast<std::size_t>(rank * 31 + call.number * 13)) % kPeriod);
}

template <class T>
void append(Bytes& to, T value) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// `count` elements; each is the sum of the elements of ranks `first` to `end` - 1.
Bytes elements_of(const Call& call, int first, int end) {
  Bytes bytes;
  for (std::size_t at = 0; at < kPeriod; ++at) {
    int value = 0;
    for (int rank = first; rank < end; ++rank) value += value_of(call, rank, at);
    switch (call.type) {
      case Type::kUInt8: append(bytes, static_cast<std::uint8_t>(value)); break;
      case Type::kBFloat16:
        append(bytes,
               static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
        break;
      case Type::kInt32: append(bytes, std::int32_t{value}); break;
      default: append(bytes, std::int64_t{value});
    }
  }
  const std::size_t period = bytes.size();
  bytes.resize(call.bytes());
  for (std::size_t at = period; at < bytes.size(); at += period)
    std::copy_n(bytes.begin(), std::min(period, bytes.size() - at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

class Rank {
 public:
  Rank(const Segment& segment, int rank) : messages_(segment, rank), board_(segment, messages_, rank) {}

  bool may_go_on() { return steps_.waits_for() == nullptr || steps_.waits_for()->ready(); }
  // True at the end of the call.
  bool go_on() { return steps_.go_on(); }

  void begin(const Call& call) {
    data_ = elements_of(call, board_.rank, board_.rank + 1);
    others_.assign(static_cast<std::size_t>(board_.ranks), Bytes(call.bytes()));
    const Reducing sum{combine_of(call.type, Reduction::kSum), bytes_of(call.type)};
    std::vector<std::byte*> outputs;
    for (Bytes& each : others_) outputs.push_back(each.data());
    switch (call.kind) {
      case Kind::kBroadcast: steps_ = broadcast(board_, call.tag(), data_.data()); break;
      case Kind::kAllGather: steps_ = all_gather(board_, call.tag(), data_.data(), outputs); break;
      case Kind::kReduceScatter:
        steps_ = reduce_scatter(board_, call.tag(), sum,
                                std::vector<const std::byte*>(outputs.size(), data_.data()), outputs[0]);
        break;
      default: steps_ = all_reduce(board_, call.tag(), sum, data_.data());
    }
  }

  bool is_right(const Call& call) const {
    const Bytes all = elements_of(call, 0, board_.ranks);
    const int rank = board_.rank, root = static_cast<int>(call.root);
    switch (call.kind) {
      case Kind::kReduce: return data_ == (rank == root ? all : elements_of(call, rank, rank + 1));
      case Kind::kBroadcast: return data_ == elements_of(call, root, root + 1);
      case Kind::kReduceScatter: return others_[0] == all;
      case Kind::kAllGather:
        for (int each = 0; each < board_.ranks; ++each)
          if (others_[static_cast<std::size_t>(each)] != elements_of(call, each, each + 1)) return false;
        return true;
      default: return data_ == all;
    }
  }

  std::size_t call = 0;  // in which it is

 private:
  Messages messages_;
  Board board_;
  Bytes data_;
  std::vector<Bytes> others_;
  Steps steps_;
};

// Many tensors end where a piece ends, or one element before or after it. Half of the calls are sums, because
// most can go wrong there.
Call call_at_random(std::mt19937& random, int ranks, int number) {
  constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduce,    Kind::kAllReduce,    Kind::kReduce,
                             Kind::kBroadcast, Kind::kAllGather, Kind::kReduceScatter};
  constexpr Type kTypes[] = {Type::kUInt8, Type::kBFloat16, Type::kInt32, Type::kInt64};
  constexpr std::size_t kBytes[] = {std::size_t{32} << 10, kSumBytes, 2 * kSumBytes, 3 * kSumBytes,
                                    2 * kBufferBytes};
  const Type type = kTypes[random() % std::size(kTypes)];
  const std::size_t edge = kBytes[random() % std::size(kBytes)] / bytes_of(type) - 1 + random() % 3;
  const std::size_t count = random() % 4 == 0 ? random() % 300 : edge;
  return {kKinds[random() % std::size(kKinds)], type, count,
          static_cast<std::uint32_t>(random()) % static_cast<std::uint32_t>(ranks), number};
}

// One rank goes on only where no other can, until another is drawn for that.
void run_calls(unsigned seed) {
  std::mt19937 random(seed);
  const int ranks = 1 + static_cast<int>(seed % 5);
  const auto segment = Segment::create(ranks);
  ASSERT_TRUE(segment) << segment.error().message();
  std::vector<Call> calls;
  for (int number = 0; number < 6; ++number) calls.push_back(call_at_random(random, ranks, number));
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(*segment, rank));
    all.back()->begin(calls[0]);
  }
  Rank* slow = nullptr;
  for (unsigned ended = 0; ended < all.size();) {
    if (random() % 30 == 0) slow = all[random() % all.size()].get();
    std::vector<Rank*> may;
    for (const auto& each : all)
      if (each->call < calls.size() && each->may_go_on()) may.push_back(each.get());
    ASSERT_FALSE(may.empty()) << "nobody can go on, seed " << seed;
    if (may.size() > 1) std::erase(may, slow);
    Rank& next = *may[random() % may.size()];
    if (!next.go_on()) continue;
    const Call& call = calls[next.call];
    ASSERT_TRUE(next.is_right(call)) << text_of(call.tag()) << ", seed " << seed;
    if (++next.call == calls.size())
      ++ended;
    else
      next.begin(calls[next.call]);
  }
}

// With sanitizers the same code is run for its memory.
#if __has_feature(address_sanitizer)
constexpr unsigned kSeeds = 20;
#else
constexpr unsigned kSeeds = 100;
#endif

TEST(Collectives, AreRightWhoeverIsAheadOfWhom) {
  const char* const given = std::getenv("MUSTER_SHM_SEEDS");
  const unsigned seeds = given == nullptr ? kSeeds : static_cast<unsigned>(std::atoi(given));
  for (unsigned seed = 0; seed < seeds && !HasFatalFailure(); ++seed) run_calls(seed);
}

}  // namespace
}  // namespace muster::shm
