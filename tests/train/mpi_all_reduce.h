// Checks of all-reduces over MPI that Gloo's results cannot serve for: those made of messages, rounding, and
// bits.
#pragma once

#include <cmath>
#include <optional>

#include "tests/train/mpi_pair.h"

namespace muster {

// Uses random numbers: two ranks have only one order of summation.
inline void check_rounding(const Pair& pair) {
  at::manual_seed(static_cast<std::uint64_t>(pair.rank() + 1));
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const std::int64_t count : {5, 300000}) {
      const at::Tensor input = at::randn({count}).to(type);
      const auto sum = [&](const Group& group) {
        return all_reduced(*group.process_group(), input, Kind::SUM)[0];
      };
      const at::Tensor mine = sum(pair.mpi);
      require(at::equal(mine, sum(pair.mpi)), "the same sum twice");
      require(pair.size() == 2
                  ? at::equal(mine, sum(pair.gloo))
                  : at::allclose(mine.to(at::kDouble), sum(pair.gloo).to(at::kDouble), 0.05, 0.05),
              "the sum of random numbers");
    }
}

// The smallest number of floats for which an all-reduce is made of messages.
inline std::int64_t least_in_parts(int size) {
  return size == 2 ? 1024 : std::int64_t{8192} * size;
}

inline at::Tensor sum_of_all(std::int64_t count, int size) {
  at::Tensor sum = at::zeros({count});
  for (int rank = 0; rank < size; ++rank) sum += numbers(count, at::kFloat, rank, count);
  return sum;
}

// Compares all-reduces made of messages with MPI's own, also with several of both under way at a time.
inline void check_parts(const Pair& pair, const std::vector<at::ScalarType>& types) {
  const auto group = pair.mpi.process_group();
  const int size = pair.size();
  const std::int64_t least = least_in_parts(size);
  for (const at::ScalarType type : types)
    for (const Kind kind : {Kind::SUM, Kind::MIN, Kind::MAX, Kind::PRODUCT})
      if (type != at::kBool || kind == Kind::MAX)
        pair.compare(fmt::format("all_reduce of many {} by {}", name_of(type), static_cast<int>(kind)),
                     [&](ProcessGroup& each) {
                       return all_reduced(each, numbers((1 << 18) + 5, type, pair.rank(), 7), kind);
                     });
  const at::Tensor mean = all_reduced(*group, at::full({least}, pair.rank() * 2.0F), Kind::AVG)[0];
  require(at::equal(mean, at::full({least}, size - 1.0F)), "the mean of many");

  const std::vector<std::int64_t> counts{least, 5, (5 << 19) + 1, least - 1, (1 << 20) + 3, 3 * least + 1};
  std::vector<Tensors> sums;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const std::int64_t count : counts) sums.push_back({numbers(count, at::kFloat, pair.rank(), count)});
  for (Tensors& each : sums) works.push_back(group->allreduce(each));
  for (std::size_t each = counts.size(); each-- > 0;) {
    works[each]->wait();
    require(at::equal(sums[each][0], sum_of_all(counts[each], size)),
            fmt::format("the sum of {} while others are under way", counts[each]));
  }
  Tensors several;
  for (const std::int64_t count : {std::int64_t{1} << 18, std::int64_t{3}, std::int64_t{0}})
    several.push_back(numbers(count, at::kFloat, pair.rank(), count));
  group->allreduce_coalesced(several)->wait();
  for (const at::Tensor& each : several)
    require(at::equal(each, sum_of_all(each.numel(), size)), "all_reduce of a large tensor and small ones");
}

// All ranks get the same bits, even with NaN and with signed zeros, where the order matters.
inline void check_bits(const Pair& pair) {
  at::manual_seed(static_cast<std::uint64_t>(pair.rank() + 1));
  at::Tensor input = at::randn({least_in_parts(pair.size()) * 2});
  input.slice(0, pair.rank(), std::nullopt, 7).fill_(std::nanf(""));
  input.slice(0, pair.rank(), std::nullopt, 5).fill_(-0.0F);
  input.slice(0, pair.rank() + 1, std::nullopt, 5).fill_(0.0F);
  for (const Kind kind : {Kind::SUM, Kind::MIN, Kind::MAX}) {
    const at::Tensor mine = all_reduced(*pair.mpi.process_group(), input, kind)[0];
    const Tensors of_all = all_gather(pair.mpi, mine.view(at::kInt));
    for (const at::Tensor& each : of_all) require(at::equal(each, of_all[0]), "the same bits on all ranks");
  }
}

}  // namespace muster
