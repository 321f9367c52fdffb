// A rank of a world that MPI has created, over the backend "mpi"; mpi_backend_test.cc starts it: mpi_rank
// STORE WHAT [COUNT].
//
// compare: compares every collective with Gloo's, over types, operations, sizes and groups.
// mixed: COUNT sequences of collectives and messages, several under way at a time.
// missing: the last rank stays away from each collective until the others have reported that.
// killed: the last rank is killed in the middle of all-reduces of COUNT elements.
// train: a training by DistributedDataParallel over MPI and over Gloo.
// large: 64 MiB, and messages between its pieces.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <functional>
#include <muster/muster.h>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <thread>

#include "runtime/comm/mpi/library.h"
#include "runtime/torch_versions.h"
#include "tests/train/mpi_all_reduce.h"

namespace {

using namespace muster;
using namespace std::chrono_literals;

void require_text(const std::string& text, const std::string& part) {
  require(text.contains(part), fmt::format("'{}' has '{}' in it", text, part));
}

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) throw std::runtime_error(std::string(variable) + " is not set");
  return std::atoi(text);
}

void compare_reductions(const Pair& pair, at::ScalarType type, std::int64_t count) {
  std::vector<Kind> kinds{Kind::MIN, Kind::MAX};
  if (type != at::kBool) kinds.insert(kinds.end(), {Kind::SUM, Kind::PRODUCT});
  if (at::isIntegralType(type, true)) kinds.insert(kinds.end(), {Kind::BAND, Kind::BOR, Kind::BXOR});
  const int size = pair.size();
  for (const Kind kind : kinds) {
    const std::string what = fmt::format("{} {} by {}", count, name_of(type), static_cast<int>(kind));
    pair.compare("all_reduce of " + what, [&](ProcessGroup& group) {
      return all_reduced(group, numbers(count, type, pair.rank(), 1), kind);
    });
    pair.compare("reduce of " + what, [&](ProcessGroup& group) {
      Tensors tensors{numbers(count, type, pair.rank(), 2)};
      c10d::ReduceOptions options;
      options.reduceOp = kind;
      options.rootRank = size - 1;
      group.reduce(tensors, options)->wait();
      return pair.rank() == size - 1 ? tensors : Tensors{};
    });
    if (count == 0) continue;
    pair.compare("reduce_scatter of " + what, [&](ProcessGroup& group) {
      c10d::ReduceScatterOptions options;
      options.reduceOp = kind;
      at::Tensor output = at::empty({count}, type);
      at::Tensor input = numbers(count * size, type, pair.rank(), 3);
      compat::reduce_scatter_single(group, output, input, options)->wait();
      Tensors outputs{at::empty({count}, type)};
      std::vector<Tensors> inputs{input.chunk(size)};
      group.reduce_scatter(outputs, inputs, options)->wait();
      // In place: the output is this rank's part of the input.
      Tensors parts = input.chunk(size);
      compat::reduce_scatter_single(group, parts[static_cast<std::size_t>(pair.rank())], input, options)
          ->wait();
      return Tensors{output, outputs[0], parts[static_cast<std::size_t>(pair.rank())]};
    });
  }
}

void compare_moves(const Pair& pair, at::ScalarType type, std::int64_t count) {
  const int size = pair.size();
  const int root = size / 2;
  const at::Tensor mine = numbers(count, type, pair.rank(), 4);
  const std::string what = fmt::format("{} {}", count, name_of(type));
  pair.compare("broadcast of " + what, [&](ProcessGroup& group) {
    Tensors tensors{mine.clone()};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group.broadcast(tensors, options)->wait();
    return tensors;
  });
  pair.compare("all_gather of " + what, [&](ProcessGroup& group) {
    std::vector<Tensors> outputs(1);
    for (int each = 0; each < size; ++each) outputs[0].push_back(at::zeros({count}, type));
    Tensors inputs{mine};
    group.allgather(outputs, inputs)->wait();
    at::Tensor flat = at::zeros({count * size}, type);
    at::Tensor input = mine;
    if (count > 0) compat::all_gather_single(group, flat, input)->wait();
    outputs[0].push_back(flat);
    return outputs[0];
  });
  pair.compare("gather of " + what, [&](ProcessGroup& group) {
    std::vector<Tensors> outputs;
    if (pair.rank() == root) outputs.emplace_back();
    for (int each = 0; each < size && pair.rank() == root; ++each)
      outputs[0].push_back(at::zeros({count}, type));
    Tensors inputs{mine};
    c10d::GatherOptions options;
    options.rootRank = root;
    group.gather(outputs, inputs, options)->wait();
    return outputs.empty() ? Tensors{} : outputs[0];
  });
  pair.compare("scatter of " + what, [&](ProcessGroup& group) {
    std::vector<Tensors> inputs;
    if (pair.rank() == root) inputs.emplace_back();
    for (int each = 0; each < size && pair.rank() == root; ++each)
      inputs[0].push_back(numbers(count, type, each, 5));
    Tensors outputs{at::zeros({count}, type)};
    c10d::ScatterOptions options;
    options.rootRank = root;
    group.scatter(outputs, inputs, options)->wait();
    return outputs;
  });
  // Rank a sends a + 2 b rows to rank b.
  pair.compare("all_to_all of " + what, [&](ProcessGroup& group) {
    std::vector<std::int64_t> give, get;
    for (int each = 0; each < size; ++each) {
      give.push_back(pair.rank() + 2 * each);
      get.push_back(each + 2 * pair.rank());
    }
    const auto rows = [](const auto& splits) {
      return std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
    };
    at::Tensor input = numbers(rows(give) * count, type, pair.rank(), 6).view({rows(give), count});
    at::Tensor output = at::zeros({rows(get), count}, type);
    if (count > 0) compat::all_to_all_single(group, output, input, get, give)->wait();
    return Tensors{output};
  });
}

// Checks what Gloo cannot do.
void check_alone(const Pair& pair) {
  const int size = pair.size();
  const auto group = pair.mpi.process_group();
  at::Tensor numbers_of_two_bytes = at::full({3}, pair.rank(), at::kShort);
  all_reduce(pair.mpi, numbers_of_two_bytes, ReduceOp::kMax);
  require_equal(numbers_of_two_bytes[2].item<int>(), size - 1, "the greatest rank");
  const Tensors of_all = all_gather(pair.mpi, at::full({pair.rank() + 1}, pair.rank()));
  require_equal(of_all.back().numel(), std::int64_t{size}, "a tensor of the last rank's own shape");
  Tensors inputs, outputs, expected;
  for (int each = 0; each < size; ++each) {
    inputs.push_back(numbers(pair.rank() + each, at::kShort, pair.rank(), each));
    outputs.push_back(at::empty({pair.rank() + each}, at::kShort));
    expected.push_back(numbers(pair.rank() + each, at::kShort, each, pair.rank()));
  }
  group->alltoall(outputs, inputs)->wait();
  require_tensors(outputs, expected, "all_to_all of tensors");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor mean = all_reduced(*group, at::full({5}, pair.rank() * 2, type), Kind::AVG)[0];
    require(at::equal(mean, at::full({5}, size - 1, type)), "the mean");
  }
  require(at::equal(all_reduced(*group, at::full({3}, pair.rank() == 0, at::kBool), Kind::SUM)[0],
                    at::ones({3}, at::kBool)),
          "the sum of bools");
  Tensors both{at::full({3}, 1.0), at::full({2}, 2.0)};
  group->allreduce_coalesced(both)->wait();
  require(both[1][0].item<double>() == 2.0 * size, "all_reduce of several tensors");
  Tensors wholes{at::empty({size}, at::kLong), at::empty({2 * size}, at::kInt)};
  Tensors parts{at::full({1}, pair.rank(), at::kLong), at::full({2}, pair.rank(), at::kInt)};
  compat::all_gather_single_coalesced(*group, wholes, parts)->wait();
  require(at::equal(wholes[0], at::arange(size)), "all_gather of several tensors");
  Tensors sums{at::empty({1}, at::kLong), at::empty({2}, at::kInt)};
  compat::reduce_scatter_single_coalesced(*group, sums, wholes)->wait();
  require(at::equal(sums[0], at::full({1}, pair.rank() * size, at::kLong)) &&
              at::equal(sums[1], at::full({2}, pair.rank() * size, at::kInt)),
          "reduce_scatter of several tensors");
  at::Tensor mine = at::full({2}, pair.rank()),
             row = at::empty({pair.rank() == 0 ? 2 * size : 0}, mine.options());
  compat::gather_single(*group, row, mine)->wait();
  require(pair.rank() != 0 || at::equal(row, at::arange(size).repeat_interleave(2)), "gather to one tensor");
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

void check_refusals(const Pair& pair) {
  const auto group = pair.mpi.process_group();
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string("nothing is refused");
  };
  require_text(refused([&] { all_reduced(*group, at::zeros({2}, at::kComplexFloat), Kind::SUM); }),
               "MPI does not reduce ComplexFloat");
  require_text(refused([&] { all_reduced(*group, at::zeros({2}, at::kInt), Kind::AVG); }),
               "integers have no mean");
  require_text(refused([&] { all_reduced(*group, at::zeros({2}), Kind::BXOR); }), "need integers");
  Tensors apart{at::zeros({4, 4}).t()};
  require_text(refused([&] { group->send(apart, (pair.rank() + 1) % pair.size(), 0); }),
               "must be contiguous");
}

// Only the receiver's call fails.
void check_message_that_is_too_long(const Pair& pair) {
  const auto group = pair.mpi.process_group();
  Tensors eight{at::ones({8})}, four{at::zeros({4})};
  const auto sent = group->send(eight, (pair.rank() + 1) % pair.size(), 77);
  const auto received = group->recv(four, (pair.rank() + pair.size() - 1) % pair.size(), 77);
  require_text(error_of([&] { received->wait(); }), "MPI_ERR_TRUNCATE");
  sent->wait();
}

// Two ranks compare all types. The larger worlds, where every call takes longer, share them.
std::vector<at::ScalarType> types_for(int world_size) {
  switch (world_size) {
    case 2:
      return {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kBool,
              at::kByte,  at::kChar,   at::kInt,  at::kLong};
    case 3: return {at::kFloat, at::kBFloat16, at::kByte};
    case 4: return {at::kHalf, at::kLong};
    default: return {at::kDouble, at::kBool};
  }
}

void compare(const Job& job) {
  std::vector<std::vector<int>> members{job.world().ranks()};
  if (job.world_size() > 2) members.push_back({0, job.world_size() - 1});
  if (job.world_size() > 3) members.push_back({1, 2, 3});
  for (const auto& ranks : members) {
    const Pair pair{job.new_group(ranks), job.new_group(ranks, {.backend = "gloo"})};
    if (!pair.mpi.is_member()) continue;
    for (const at::ScalarType type : types_for(job.world_size()))
      for (const std::int64_t count : {0, 7, 4099}) {
        compare_reductions(pair, type, count);
        compare_moves(pair, type, count);
      }
    compare_reductions(pair, at::kFloat, 1 << 18);
    compare_moves(pair, at::kFloat, 1 << 18);
    check_alone(pair);
    check_parts(pair, types_for(job.world_size()));
    check_rounding(pair);
    check_bits(pair);
    check_refusals(pair);
    check_message_that_is_too_long(pair);
    pair.mpi.process_group()->barrier()->wait();
  }
}

// One call of a sequence; all ranks draw the same calls.
struct Step {
  std::function<c10::intrusive_ptr<c10d::Work>()> start;
  std::function<void()> check;
  c10::intrusive_ptr<c10d::Work> work{};
};

class Sequence {
 public:
  Sequence(const std::vector<Group>& groups, std::uint64_t seed) : groups_(groups), random_(seed) {}

  void run() {
    std::vector<Step> under_way;
    const auto end_one = [&] {
      under_way.front().work->wait();
      under_way.front().check();
      under_way.erase(under_way.begin());
    };
    for (int number = 0; number < 12; ++number) {
      auto step = draw(number);
      const std::size_t most = draw_below(4);
      if (step) {
        step->work = step->start();
        under_way.push_back(std::move(*step));
      }
      while (under_way.size() > most) end_one();
    }
    while (!under_way.empty()) end_one();
  }

 private:
  std::uint64_t draw_below(std::uint64_t end) { return random_() % end; }

  std::optional<Step> draw(int number) {
    const Group& group = groups_[draw_below(groups_.size())];
    const auto count = static_cast<std::int64_t>(draw_below(8) == 0 ? 40000 : 1 + draw_below(300));
    const int root = static_cast<int>(draw_below(static_cast<std::uint64_t>(group.size())));
    const std::uint64_t kind = draw_below(6);
    const int other =
        (root + 1 + static_cast<int>(draw_below(static_cast<std::uint64_t>(group.size() - 1)))) %
        group.size();
    if (!group.is_member()) return std::nullopt;
    const auto pg = group.process_group();
    const int rank = group.rank(), size = group.size();
    const at::Tensor tensor = numbers(count, at::kInt, rank, number);
    at::Tensor sum = at::zeros({count}, at::kInt);
    Tensors all;
    for (int each = 0; each < size; ++each) {
      all.push_back(numbers(count, at::kInt, each, number));
      sum += all.back();
    }
    const at::Tensor from_root = all[static_cast<std::size_t>(root)];
    const auto equals = [=](const at::Tensor& mine, const at::Tensor& expected) {
      return [=] { require(at::equal(mine, expected), fmt::format("call {} of kind {}", number, kind)); };
    };
    switch (kind) {
      case 0:
        return Step{[=] {
                      Tensors tensors{tensor};
                      return pg->allreduce(tensors);
                    },
                    equals(tensor, sum)};
      case 1:
        return Step{[=] {
                      Tensors tensors{tensor};
                      c10d::BroadcastOptions options;
                      options.rootRank = root;
                      return pg->broadcast(tensors, options);
                    },
                    equals(tensor, from_root)};
      case 2: {
        const at::Tensor output = at::empty({count * size}, at::kInt);
        return Step{[=] {
                      at::Tensor to = output, from = tensor;
                      return compat::all_gather_single(*pg, to, from);
                    },
                    equals(output, at::cat(all))};
      }
      case 3: {
        const at::Tensor output = at::empty({count}, at::kInt);
        const at::Tensor input = at::cat(Tensors(static_cast<std::size_t>(size), tensor));
        return Step{[=] {
                      at::Tensor to = output, from = input;
                      return compat::reduce_scatter_single(*pg, to, from);
                    },
                    equals(output, sum)};
      }
      case 4: return Step{[=] { return pg->barrier(); }, [] {}};
      default: break;
    }
    return message(group, root, other, number, count);
  }

  // A message from one place to another.
  static std::optional<Step> message(const Group& group, int root, int other, int number,
                                     std::int64_t count) {
    const auto pg = group.process_group();
    const int rank = group.rank();
    const at::Tensor tensor = numbers(count, at::kInt, root, number);
    if (rank == root)
      return Step{[=] {
                    Tensors tensors{tensor};
                    return pg->send(tensors, other, number);
                  },
                  [] {}};
    if (rank != other) return std::nullopt;
    const at::Tensor came = at::empty({count}, at::kInt);
    return Step{[=] {
                  Tensors tensors{came};
                  return count % 2 == 0 ? pg->recv(tensors, root, number)
                                        : pg->recvAnysource(tensors, number);
                },
                [=] { require(at::equal(came, tensor), fmt::format("message {}", number)); }};
  }

  const std::vector<Group>& groups_;
  std::mt19937_64 random_;
};

void mixed(const Job& job, int count) {
  std::vector<Group> groups{job.world(), job.new_group({0, 1, 2}), job.new_group({1, 3})};
  for (int seed = 0; seed < count; ++seed) Sequence(groups, static_cast<std::uint64_t>(seed)).run();
}

const std::vector<
    std::pair<std::string, std::function<c10::intrusive_ptr<c10d::Work>(ProcessGroup&, int, int)>>>
    kCalls{
        {"all_reduce",
         [](ProcessGroup& group, int, int) {
           Tensors tensors{at::ones({4})};
           return group.allreduce(tensors);
         }},
        {"all_reduce",
         [](ProcessGroup& group, int, int) {
           Tensors tensors{at::ones({1 << 16})};  // sent in parts, as messages
           return group.allreduce(tensors);
         }},
        {"all_gather_into_tensor",
         [](ProcessGroup& group, int, int size) {
           at::Tensor output = at::empty({4 * size}), input = at::ones({4});
           return compat::all_gather_single(group, output, input);
         }},
        {"reduce_scatter_tensor",
         [](ProcessGroup& group, int, int size) {
           at::Tensor output = at::empty({4}), input = at::ones({4 * size});
           return compat::reduce_scatter_single(group, output, input);
         }},
        {"all_to_all_single",
         [](ProcessGroup& group, int, int size) {
           at::Tensor output = at::empty({size}), input = at::ones({size});
           std::vector<std::int64_t> none, no_more;
           return compat::all_to_all_single(group, output, input, none, no_more);
         }},
        {"barrier", [](ProcessGroup& group, int, int) { return group.barrier(); }},
        {"recv",
         [](ProcessGroup& group, int, int size) {
           Tensors tensors{at::empty({4})};
           return group.recv(tensors, size - 1, 5);
         }},
    };

// MPI's threads must leave signals to the program's threads.
void require_quiet_threads() {
  std::set<std::string> names;  // MPI's own threads keep the name of the thread that started them
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    std::string name, blocked;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) name = line.substr(line.find('\t') + 1);
      if (line.starts_with("SigBlk:")) blocked = line.substr(line.find('\t') + 1);
    }
    if (!name.starts_with("muster-mpi")) continue;
    names.insert(name);
    // All signals but SIGKILL, SIGSTOP and two that the C library uses itself.
    require_equal(blocked, std::string("fffffffe7ffbfeff"), name);
  }
  require_equal(fmt::to_string(fmt::join(names, " ")), std::string("muster-mpi muster-mpi-ask"), "threads");
}

void missing(const Job& job) {
  const int last = job.world_size() - 1;
  if (job.rank() != last) {
    const std::string error = error_of([&] {
      make_mpi({.store = job.store(),
                .prefix = "not for all",
                .ranks = job.world().ranks(),
                .rank = job.rank(),
                .world_size = job.world_size(),
                .timeout = 300ms,
                .backend = nullptr});
    });
    require(error.contains(fmt::format("was not created within 300 ms: rank {} did not join", last)), error);
  }
  for (const auto& [name, call] : kCalls) {
    const Group group = job.new_group(job.world().ranks(), {.timeout = 600ms});
    if (job.rank() != last) {
      const std::string error =
          error_of([&] { call(*group.process_group(), group.rank(), group.size())->wait(); });
      require_text(error, "mpi: " + name);
      require_text(error, "has not ended within 600 ms");
      require_text(error, name == "recv" ? fmt::format("from rank {}, tag 5", last)
                                         : fmt::format("rank {} does not wait in it", last));
      require_text(error_of([&] { group.process_group()->barrier()->wait(); }), "mpi: barrier: " + name);
    }
  }
  if (job.rank() != last) require_quiet_threads();
  // A wait that times out does not end the call.
  Tensors tensor{at::full({1}, job.rank())};
  auto work = job.rank() == last ? nullptr : job.process_group()->allreduce(tensor);
  if (work != nullptr) require_text(error_of([&] { work->wait(50ms); }), "timed out");
  job.store()->add("waited", 1);
  while (job.store()->add("waited", 0) < job.world_size()) std::this_thread::sleep_for(5ms);
  if (work == nullptr) work = job.process_group()->allreduce(tensor);
  work->wait();
  require(tensor[0].item<int>() == last * (last + 1) / 2, "the sum after a wait that timed out");
}

void killed(const Job& job, std::int64_t count) {
  const Group group = job.new_group(job.world().ranks(), {.timeout = 1s});
  for (int step = 0;; ++step) {
    if (job.rank() == job.world_size() - 1 && step == 3) std::raise(SIGKILL);
    Tensors tensors{at::ones({count})};
    group.process_group()->allreduce(tensors)->wait();
  }
}

Tensors trained(const Group& group) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(20, 300), torch::nn::ReLU(), torch::nn::BatchNorm1d(300),
                            torch::nn::Linear(300, 5));
  DistributedDataParallel model(net, group, {.bucket_cap_mb = 0.01});
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::manual_seed(static_cast<std::uint64_t>(group.rank()));
  for (int step = 0; step < 8; ++step) {
    optimizer.zero_grad();
    model.forward(torch::randn({8, 20})).square().mean().backward();
    optimizer.step();
  }
  return net->parameters();
}

void train(const Job& job) {
  const Tensors mine = trained(job);
  const Tensors expected = trained(job.new_group(job.world().ranks(), {.backend = "gloo"}));
  for (std::size_t each = 0; each < mine.size(); ++each)
    require(job.world_size() == 2 ? at::equal(mine[each], expected[each])
                                  : at::allclose(mine[each], expected[each], 1e-4, 1e-6),
            "parameters after a training");
}

void large(const Job& job) {
  const Pair pair{job.world(), job.new_group(job.world().ranks(), {.backend = "gloo"})};
  const auto group = job.process_group();
  const at::Tensor input = numbers(1 << 24, at::kFloat, job.rank(), 0);
  Tensors sum{input.clone()};
  const auto work = group->allreduce(sum);
  // Messages while the large transfer is under way.
  for (int turn = 0; turn < 20; ++turn) {
    Tensors ball{at::full({1}, turn)};
    const int peer = job.rank() ^ 1;
    if (peer < job.world_size() && job.rank() < peer) {
      group->send(ball, peer, turn)->wait();
      group->recv(ball, peer, turn)->wait();
      require(ball[0].item<int>() == turn + 1, "the ball");
    } else if (peer < job.world_size()) {
      group->recv(ball, peer, turn)->wait();
      ball[0] += 1;
      group->send(ball, peer, turn)->wait();
    }
  }
  work->wait();
  require_tensors(sum, all_reduced(*pair.gloo.process_group(), input, Kind::SUM), "64 MiB");
  Tensors copy{input.clone()};
  group->broadcast(copy)->wait();
  require(at::equal(copy[0], numbers(1 << 24, at::kFloat, 0, 0)), "64 MiB from rank 0");
}

void run(const Job& job, std::string_view what, int count) {
  if (what == "compare") return compare(job);
  if (what == "mixed") return mixed(job, count);
  if (what == "missing") return missing(job);
  if (what == "killed") return killed(job, count);
  if (what == "train") return train(job);
  if (what == "large") return large(job);
  throw std::runtime_error(fmt::format("'{}' is not a known check", what));
}

// Registered to run after the backend's own work at the end of the process.
void say_whether_mpi_is_finalized() {
  auto* const asked = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Finalized"));
  int is_finalized = 0;
  if (asked != nullptr) asked(&is_finalized);
  if (is_finalized != 0) std::printf("rank %d has finalized MPI\n", number_of("OMPI_COMM_WORLD_RANK"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::atexit(say_whether_mpi_is_finalized);
  try {
    torch::set_num_threads(1);
    const Job job = init({.init_method = std::string("file://") + argv[1],
                          .rank = number_of("OMPI_COMM_WORLD_RANK"),
                          .world_size = number_of("OMPI_COMM_WORLD_SIZE"),
                          .timeout = 60s,
                          .backend = std::getenv("MUSTER_BACKEND") == nullptr ? "mpi" : ""});
    run(job, argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
    std::printf("rank %d is done\n", job.rank());
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    std::fflush(stdout);
    return std::string_view(argv[2]) == "killed" ? 0 : 1;
  }
  return 0;
}
