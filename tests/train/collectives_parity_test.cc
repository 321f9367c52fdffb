// Collectives in C++ and in torch.distributed of the same LibTorch, on the same groups of 2 to 5 ranks. Every
// result is equal to the last bit, over operations, types and shapes drawn from a seed.
#include <cstdlib>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <muster/muster.h>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

constexpr int kWorldSize = 5;
constexpr int kCases = 300;
const std::vector<std::vector<int>> kGroups{{1, 3}, {0, 2, 4}, {0, 1, 3, 4}, {0, 1, 2, 3, 4}};
const std::map<std::string, at::ScalarType> kTypes{
    {"float32", at::kFloat},     {"float64", at::kDouble}, {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16}, {"int8", at::kChar},      {"uint8", at::kByte},
    {"int32", at::kInt},         {"int64", at::kLong},     {"bool", at::kBool}};
// The first four are for all types, the fifth for floating-point numbers, the last three for integers.
const std::vector<std::string> kReductions{"sum", "min", "max", "product", "avg", "band", "bor", "bxor"};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin,  ReduceOp::kMax, ReduceOp::kProduct,
                             ReduceOp::kAvg, ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor};
const std::vector<std::string> kOperations{"all_reduce",        "broadcast",
                                           "all_gather",        "all_gather_into_tensor",
                                           "reduce_scatter",    "reduce_scatter_tensor",
                                           "all_to_all_single", "gather",
                                           "scatter",           "ring",
                                           "all_gather_object", "all_gather_uneven",
                                           "gather_uneven"};

struct Case {
  std::size_t group = 0;
  std::string operation;
  std::size_t reduction = 0;
  std::string type;
  int root = 0;  // a place in the group
  std::vector<std::int64_t> sizes;
  int seed = 0;

  std::string line() const {
    return fmt::format("{} {} {} {} {} {}, {}", group, operation, kReductions[reduction], type, root,
                       fmt::join(sizes, ","), seed);
  }
};

std::vector<Case> cases_of(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) { return random() % count; };
  std::vector<Case> cases;
  for (int i = 0; i < kCases; ++i) {
    Case one{.group = below(kGroups.size()),
             .operation = kOperations[static_cast<std::size_t>(i) % kOperations.size()],
             .reduction = 0,
             .type = std::next(kTypes.begin(), static_cast<std::ptrdiff_t>(below(kTypes.size())))->first,
             .root = 0,
             .sizes = {},
             .seed = static_cast<int>(below(100))};
    const bool reduces = one.operation.contains("reduce");
    if (reduces && one.type == "bool") one.type = "int64";  // a sum of bools may be 2 in this reduction
    const bool integers = at::isIntegralType(kTypes.at(one.type), true);
    one.reduction = below(integers ? kReductions.size() - 1 : 5);
    if (integers && one.reduction > 3) ++one.reduction;
    one.root = static_cast<int>(below(kGroups[one.group].size()));
    const std::size_t dimensions = 1 + below(3);
    for (std::size_t d = 0; d < dimensions; ++d) one.sizes.push_back(1 + static_cast<std::int64_t>(below(9)));
    if (i % 7 == 0) one.sizes[0] *= 300;
    if (i % 12 == 0) one.sizes.back() = 0;
    cases.push_back(std::move(one));
  }
  return cases;
}

at::Tensor tensor_of(const Case& one, at::IntArrayRef sizes, int place, int part) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  at::Tensor values = (at::arange(count, at::kLong) * 7 + place * 5 + part * 3 + one.seed).remainder(11);
  const at::ScalarType type = kTypes.at(one.type);
  if (type != at::kByte) values = values - 5;
  if (at::isFloatingType(type)) values = values.to(at::kDouble).div(3.0);
  return values.to(type).view(sizes);
}

std::vector<at::Tensor> results_of(const Case& one, const Group& group) {
  const int place = group.rank();
  const std::string& operation = one.operation;
  const ReduceOp op = kOps[one.reduction];
  const int root = group.ranks()[static_cast<std::size_t>(one.root)];
  const at::Tensor mine = tensor_of(one, one.sizes, place, 0);
  std::vector<at::Tensor> parts;
  for (int part = 0; part < group.size(); ++part) parts.push_back(tensor_of(one, one.sizes, place, part));
  const auto neighbour = [&](int step) {
    return group.ranks()[static_cast<std::size_t>((place + step + group.size()) % group.size())];
  };
  if (operation == "all_reduce") {
    all_reduce(group, mine, op);
  } else if (operation == "broadcast") {
    broadcast(group, mine, root);
  } else if (operation == "all_gather") {
    return all_gather(group, mine);
  } else if (operation == "all_gather_into_tensor") {
    const at::Tensor all = at::empty({group.size() * mine.numel()}, mine.options());
    all_gather_into_tensor(group, all, mine);
    return {all};
  } else if (operation == "reduce_scatter") {
    return {reduce_scatter(group, parts, op)};
  } else if (operation == "reduce_scatter_tensor") {
    reduce_scatter_tensor(group, mine, at::stack(parts), op);
  } else if (operation == "all_to_all_single") {
    std::vector<std::int64_t> sent_sizes{group.size() * (group.size() + 1) / 2},
        received_sizes{group.size() * (place + 1)}, sent_rows, received_rows;
    for (const auto size : one.sizes) sent_sizes.push_back(size), received_sizes.push_back(size);
    for (int each = 0; each < group.size(); ++each)
      sent_rows.push_back(each + 1), received_rows.push_back(place + 1);
    const at::Tensor received = at::empty(received_sizes, mine.options());
    all_to_all_single(group, received, tensor_of(one, sent_sizes, place, 0), received_rows, sent_rows);
    return {received};
  } else if (operation == "gather") {
    return gather(group, mine, root);
  } else if (operation.ends_with("_uneven")) {
    std::vector<std::int64_t> sizes = one.sizes;
    sizes[0] = std::max<std::int64_t>(sizes[0] + place - 1, 0);
    const at::Tensor uneven = tensor_of(one, sizes, place, 0);
    return operation == "gather_uneven" ? gather(group, uneven, root) : all_gather(group, uneven);
  } else if (operation == "scatter") {
    scatter(group, mine, place == one.root ? parts : std::vector<at::Tensor>(), root);
  } else if (operation == "ring") {
    const at::Tensor received = at::empty_like(mine);
    Work sending = isend(group, mine, neighbour(1)), receiving = irecv(group, received, neighbour(-1));
    sending.wait();
    receiving.wait();
    return {received};
  } else {
    std::vector<at::Tensor> all;
    for (const auto& each : all_gather_object(group, nlohmann::json{{"place", place}, {"seed", one.seed}}))
      all.push_back(at::tensor({each["place"].get<std::int64_t>(), each["seed"].get<std::int64_t>()}));
    return all;
  }
  return {mine};
}

// The line of every case of this rank, with the bytes of its results.
std::string results(const Job& job, const std::vector<Case>& cases) {
  std::vector<Group> groups;
  for (const auto& ranks : kGroups) groups.push_back(job.new_group(ranks));
  std::string bytes;
  for (const Case& one : cases) {
    if (!groups[one.group].is_member()) continue;
    bytes += one.line() + "\n";
    for (const at::Tensor& result : results_of(one, groups[one.group]))
      bytes.append(static_cast<const char*>(result.contiguous().const_data_ptr()), result.nbytes());
  }
  return bytes;
}

// The first line of a case that differs.
std::string first_difference_of(const std::string& left, const std::string& right,
                                const std::vector<Case>& cases, int rank) {
  const auto found = std::ranges::mismatch(left, right);
  const auto before = static_cast<std::size_t>(found.in1 - left.begin());
  std::string last = "the first";
  for (const Case& one : cases)
    if (std::ranges::find(kGroups[one.group], rank) != kGroups[one.group].end() &&
        left.find(one.line() + "\n") <= before)
      last = one.line();
  return last;
}

TEST(Collectives, EqualThoseOfTorchDistributed) {
  const ScratchDirectory scratch;
  constexpr std::uint32_t kSeed = 20;
  const auto cases = cases_of(kSeed);
  {
    std::ofstream groups(scratch / "groups.txt"), lines(scratch / "cases.txt");
    for (const auto& ranks : kGroups) groups << fmt::format("{}\n", fmt::join(ranks, " "));
    for (const Case& one : cases) lines << one.line() << "\n";
  }
  spawn(
      [&](Job& job) {
        at::set_num_threads(1);
        write_bytes(scratch / fmt::format("cpp-{}", job.rank()), results(job, cases));
      },
      kWorldSize);
  const std::string command = fmt::format("'{}' -B '{}' '{}'", MUSTER_TORCH_PYTHON, COLLECTIVES_PARITY_SCRIPT,
                                          scratch.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  for (int rank = 0; rank < kWorldSize; ++rank) {
    const std::string ours = read_bytes(scratch / fmt::format("cpp-{}", rank));
    const std::string theirs = read_bytes(scratch / fmt::format("python-{}", rank));
    EXPECT_GT(ours.size(), 10'000U);
    EXPECT_TRUE(ours == theirs) << "rank " << rank << ": " << first_difference_of(ours, theirs, cases, rank);
  }
}

}  // namespace
}  // namespace muster
