// One group over MPI and over Gloo, and comparisons of the two; mpi_rank.cc uses it.
#pragma once

#include <fmt/format.h>
#include <functional>
#include <muster/muster.h>
#include <string>
#include <vector>

#include "tests/require.h"

namespace muster {

using Kind = c10d::ReduceOp::RedOpType;
using Tensors = std::vector<at::Tensor>;
using ProcessGroup = c10d::ProcessGroup;

// The sum is the same in every order of summation, since the numbers are few and small.
inline at::Tensor numbers(std::int64_t count, at::ScalarType type, int rank, std::int64_t salt) {
  if (type == at::kBool) return ((at::arange(count, at::kLong) + rank + salt) % 2).to(type);
  return ((at::arange(count, at::kLong) * 3 + rank * 7 + salt) % 4).to(type);
}

inline std::string name_of(at::ScalarType type) {
  return c10::toString(type);
}

inline void require_tensors(const Tensors& mine, const Tensors& expected, const std::string& what) {
  require_equal(mine.size(), expected.size(), what);
  for (std::size_t each = 0; each < mine.size(); ++each)
    require(at::equal(mine[each], expected[each]), what + ": another result than Gloo's");
}

// The same group, once over each backend.
struct Pair {
  Group mpi, gloo;
  int rank() const { return mpi.rank(); }
  int size() const { return mpi.size(); }
  void compare(const std::string& what, const std::function<Tensors(ProcessGroup&)>& run) const {
    require_tensors(run(*mpi.process_group()), run(*gloo.process_group()), what + " in " + mpi.description());
  }
};

inline Tensors all_reduced(ProcessGroup& group, const at::Tensor& input, Kind kind) {
  Tensors tensors{input.clone()};
  c10d::AllreduceOptions options;
  options.reduceOp = kind;
  group.allreduce(tensors, options)->wait();
  return tensors;
}

}  // namespace muster
