// Groups on shared memory compared with Gloo's groups of the same ranks. Every test runs in spawned
// processes, and what they find is compared there.
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <numeric>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/comm/shm/backend.h"
#include "runtime/comm/shm/segment.h"
#include "runtime/torch_versions.h"
#include "tests/require.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Kind = c10d::ReduceOp::RedOpType;

struct Pair {
  c10d::ProcessGroup& shm;
  c10d::ProcessGroup& gloo;
};

const std::vector<at::ScalarType> kTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                                         at::kByte,  at::kBool,   at::kInt,  at::kLong};

// Small numbers: the product of five of them is exact in every type.
at::Tensor some(at::ScalarType type, std::int64_t count, int rank, unsigned seed) {
  std::mt19937 random(seed * 31 + static_cast<unsigned>(rank));
  const at::Tensor values = at::empty({count}, at::kFloat);
  for (std::int64_t i = 0; i < count; ++i)
    values.data_ptr<float>()[i] = static_cast<float>(random() % (type == at::kBool ? 2 : 4)) + 1.0F;
  return (type == at::kBool ? values - 1 : values).to(type);
}

std::string case_text(const char* what, at::ScalarType type, std::int64_t count) {
  return fmt::format("{} of {} {}", what, count, c10::toString(type));
}

void require_same(const at::Tensor& left, const at::Tensor& right, const std::string& what) {
  require(left.scalar_type() == right.scalar_type() && at::equal(left, right), what);
}

void compare_sums(Pair pair, at::ScalarType type, std::int64_t count, int rank) {
  std::vector<Kind> kinds{Kind::SUM, Kind::PRODUCT, Kind::MIN, Kind::MAX};
  if (at::isIntegralType(type, true)) kinds.insert(kinds.end(), {Kind::BAND, Kind::BOR, Kind::BXOR});
  for (const Kind kind : kinds) {
    // Gloo adds bools up as bytes, and leaves 2 in them.
    if (type == at::kBool && (kind == Kind::SUM || kind == Kind::PRODUCT)) continue;
    const std::string what =
        case_text("reduction", type, count) + fmt::format(" ({})", static_cast<int>(kind));
    std::vector<at::Tensor> one{some(type, count, rank, 1)}, other{some(type, count, rank, 1)};
    c10d::AllreduceOptions options;
    options.reduceOp = kind;
    pair.shm.allreduce(one, options)->wait();
    pair.gloo.allreduce(other, options)->wait();
    require_same(one[0], other[0], "all_reduce, " + what);
    c10d::ReduceOptions to_last;
    to_last.reduceOp = kind;
    to_last.rootRank = pair.shm.getSize() - 1;
    one[0] = some(type, count, rank, 2);
    other[0] = one[0].clone();
    const at::Tensor before = one[0].clone();
    pair.shm.reduce(one, to_last)->wait();
    pair.gloo.reduce(other, to_last)->wait();
    const bool is_root = pair.shm.getRank() == to_last.rootRank;
    require_same(one[0], is_root ? other[0] : before, "reduce, " + what);
    const std::int64_t size = pair.shm.getSize();
    at::Tensor input = some(type, count * size, rank, 3);
    at::Tensor mine = at::empty({count}, input.options()), theirs = at::empty({count}, input.options());
    c10d::ReduceScatterOptions scattered;
    scattered.reduceOp = kind;
    compat::reduce_scatter_single(pair.shm, mine, input, scattered)->wait();
    compat::reduce_scatter_single(pair.gloo, theirs, input, scattered)->wait();
    require_same(mine, theirs, "reduce_scatter, " + what);
  }
}

void compare_moves(Pair pair, at::ScalarType type, std::int64_t count, int rank) {
  const std::int64_t size = pair.shm.getSize();
  const auto mine = [&](unsigned seed) { return some(type, count, rank, seed); };
  for (int root = 0; root < size; ++root) {
    c10d::BroadcastOptions broadcast;
    broadcast.rootRank = root;
    std::vector<at::Tensor> one{mine(4)}, other{mine(4)};
    pair.shm.broadcast(one, broadcast)->wait();
    pair.gloo.broadcast(other, broadcast)->wait();
    require_same(one[0], other[0], case_text("broadcast", type, count));
    c10d::GatherOptions gather;
    gather.rootRank = root;
    std::vector<std::vector<at::Tensor>> all_one, all_other;
    if (root == pair.shm.getRank())
      for (auto* const all : {&all_one, &all_other})
        all->emplace_back(), std::ranges::generate_n(std::back_inserter(all->back()), size,
                                                     [&] { return at::zeros({count}, at::dtype(type)); });
    one = {mine(5)};
    pair.shm.gather(all_one, one, gather)->wait();
    pair.gloo.gather(all_other, one, gather)->wait();
    if (root == pair.shm.getRank())
      require_same(at::cat(all_one[0]), at::cat(all_other[0]), case_text("gather", type, count));
    at::Tensor row = at::zeros({root == pair.shm.getRank() ? count * size : 0}, at::dtype(type));
    compat::gather_single(pair.shm, row, one[0], gather)->wait();
    if (root == pair.shm.getRank())
      require_same(row, at::cat(all_other[0]), case_text("gather to one tensor", type, count));
    c10d::ScatterOptions scatter;
    scatter.rootRank = root;
    std::vector<std::vector<at::Tensor>> parts;
    if (root == pair.shm.getRank()) parts.push_back(some(type, count * size, rank, 6).chunk(size));
    one = {at::zeros({count}, at::dtype(type))};
    other = {at::zeros({count}, at::dtype(type))};
    pair.shm.scatter(one, parts, scatter)->wait();
    pair.gloo.scatter(other, parts, scatter)->wait();
    require_same(one[0], other[0], case_text("scatter", type, count));
  }
  at::Tensor input = mine(7);
  at::Tensor one = at::zeros({count * size}, input.options()),
             other = at::zeros({count * size}, input.options());
  compat::all_gather_single(pair.shm, one, input)->wait();
  compat::all_gather_single(pair.gloo, other, input)->wait();
  require_same(one, other, case_text("all_gather", type, count));
  std::vector<std::vector<at::Tensor>> lists(1);
  for (std::int64_t each = 0; each < size; ++each) lists[0].push_back(at::zeros({count}, input.options()));
  std::vector<at::Tensor> inputs{input};
  pair.shm.allgather(lists, inputs)->wait();
  require_same(at::cat(lists[0]), other, case_text("all_gather to a list", type, count));
  // Uneven: place p sends p + q + 1 rows to place q.
  std::vector<std::int64_t> splits;
  for (std::int64_t each = 0; each < size; ++each) splits.push_back(each + pair.shm.getRank() + 1);
  const std::int64_t rows = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  at::Tensor out = some(type, rows * count, rank, 8).view({rows, count});
  at::Tensor in_one = at::zeros_like(out), in_other = at::zeros_like(out);
  compat::all_to_all_single(pair.shm, in_one, out, splits, splits)->wait();
  compat::all_to_all_single(pair.gloo, in_other, out, splits, splits)->wait();
  require_same(in_one, in_other, case_text("all_to_all", type, count));
}

void with_both(int ranks, const std::function<void(Pair, Job&)>& body) {
  spawn(
      [&](Job& job) {
        at::set_num_threads(1);
        std::vector<int> all(static_cast<std::size_t>(job.world_size()));
        std::iota(all.begin(), all.end(), 0);
        const Group shm = job.new_group(all, {.backend = "shm"});
        body({*shm.process_group(), *job.process_group()}, job);
      },
      ranks);
}

TEST(Shm, GivesWhatGlooGives) {
  for (const int ranks : {2, 3, 4, 5})
    with_both(ranks, [](Pair pair, Job& job) {
      for (const at::ScalarType type : kTypes)
        for (const std::int64_t count : {1, 129, 5000}) {
          if (count == 5000 && type != at::kFloat && type != at::kByte) continue;
          compare_sums(pair, type, count, job.rank());
          compare_moves(pair, type, count, job.rank());
        }
    });
}

TEST(Shm, GivesWhatGlooGivesOfLargeTensors) {
  for (const int ranks : {2, 3})
    with_both(ranks, [](Pair pair, Job& job) {
      for (const std::int64_t count : {70'001, 1 << 18}) {
        std::vector<at::Tensor> one{some(at::kFloat, count, job.rank(), 9)}, other{one[0].clone()};
        pair.shm.allreduce(one)->wait();
        pair.gloo.allreduce(other)->wait();
        require_same(one[0], other[0], case_text("all_reduce", at::kFloat, count));
        compare_moves(pair, at::kFloat, count / 8, job.rank());
      }
    });
  with_both(2, [](Pair pair, Job& job) {
    torch::manual_seed(job.rank());
    std::vector<at::Tensor> one{torch::randn({(64 << 20) / 4})}, other{one[0].clone()};
    pair.shm.allreduce(one)->wait();
    pair.gloo.allreduce(other)->wait();
    require_same(one[0], other[0], "64 MiB");
  });
}

TEST(Shm, TakesEmptyTensors) {
  with_both(3, [](Pair pair, Job&) {
    std::vector<at::Tensor> one{at::empty({0})};
    at::Tensor empty = at::empty({0}), other = at::empty({0});
    pair.shm.allreduce(one)->wait();
    pair.shm.broadcast(one)->wait();
    compat::all_gather_single(pair.shm, other, empty)->wait();
    compat::reduce_scatter_single(pair.shm, other, empty)->wait();
    std::vector<std::int64_t> none;
    compat::all_to_all_single(pair.shm, other, empty, none, none)->wait();
    pair.shm.barrier()->wait();
  });
}

TEST(Shm, AddsSparseTensorsUp) {
  with_both(3, [](Pair pair, Job& job) {
    const at::Tensor rows = at::full({job.rank() + 1}, job.rank(), at::kLong);
    rows[0].fill_(5);
    const auto make = [&] {
      return std::vector<at::Tensor>{
          at::sparse_coo_tensor(rows.unsqueeze(0), at::ones({rows.numel(), 2}), {7, 2})};
    };
    std::vector<at::Tensor> one = make(), other = make();
    pair.shm.allreduce(one)->wait();
    pair.gloo.allreduce(other)->wait();
    require_same(one[0].to_dense(), other[0].to_dense(), "sum");
  });
}

TEST(Shm, RefusesWhatItCannotDo) {
  with_both(2, [](Pair pair, Job&) {
    const auto refused = [](const auto& call, const std::string& text) {
      try {
        call();
      } catch (const c10::Error& error) {
        require(std::string(error.what_without_backtrace()).contains(text), error.what_without_backtrace());
        return;
      }
      throw std::logic_error("nothing was thrown about " + text);
    };
    std::vector<at::Tensor> strided{at::ones({4, 4}).slice(1, 0, 2)}, shorts{at::ones({2}, at::kShort)},
        floats{at::ones({2})};
    c10d::AllreduceOptions bits;
    bits.reduceOp = Kind::BAND;
    refused([&] { pair.shm.allreduce(strided); }, "contiguous");
    refused([&] { pair.shm.allreduce(shorts); }, "shm does not reduce Short");
    refused([&] { pair.shm.allreduce(floats, bits); }, "shm does not reduce Float by this operation");
    refused([&] { pair.shm.send(floats, pair.shm.getRank(), 0); }, "is not another member of the group");
    pair.shm.barrier()->wait();
  });
}

// In the order of the ranks, whatever the number and the size, and whoever comes first.
TEST(Shm, AddsUpInTheOrderOfTheRanks) {
  with_both(3, [](Pair pair, Job& job) {
    for (const std::int64_t count : {10, 9000, 200'000}) {
      std::vector<at::Tensor> all;
      for (int rank = 0; rank < 3; ++rank) {
        torch::manual_seed(rank + 3);
        all.push_back(torch::randn({count}));
      }
      std::vector<at::Tensor> mine{all[static_cast<std::size_t>(job.rank())].clone()};
      pair.shm.allreduce(mine)->wait();
      require_same(mine[0], (all[0] + all[1]) + all[2], fmt::format("sum of {}", count));
      mine[0] = all[static_cast<std::size_t>(job.rank())].clone();
      c10d::AllreduceOptions mean;
      mean.reduceOp = Kind::AVG;
      pair.shm.allreduce(mine, mean)->wait();
      require_same(mine[0], ((all[0] + all[1]) + all[2]) / 3, fmt::format("mean of {}", count));
    }
  });
}

TEST(Shm, HasFuturesAndWorkThatCanBeAsked) {
  with_both(2, [](Pair pair, Job& job) {
    std::vector<at::Tensor> mine{torch::full({50'000}, static_cast<float>(job.rank()))};
    const auto work = pair.shm.allreduce(mine);
    const auto doubled = work->getFuture()->then(
        [](c10::ivalue::Future& done) { return c10::IValue(done.value().toTensorVector()[0].sum() * 2); },
        c10::TensorType::get());
    doubled->wait();
    require_equal(doubled->value().toTensor().item<float>(), 100'000.0F, "what follows");
    require(work->isCompleted() && work->isSuccess() && work->exception() == nullptr, "the work's answers");
    require_equal(work->result().size(), std::size_t{1}, "results");
    // One that ends by itself, without being waited for.
    const auto other = pair.shm.allreduce(mine);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!other->isCompleted() && std::chrono::steady_clock::now() < end) sched_yield();
    require(other->isSuccess(), "it has ended");
    // A wait that is too short ends nothing.
    std::vector<at::Tensor> one{torch::zeros({1})};
    if (job.rank() == 0) {
      const auto late = pair.shm.recv(one, 1, 3);
      try {
        late->wait(std::chrono::milliseconds(1));
        throw std::logic_error("it was waited for");
      } catch (const c10::Error& error) {
        require(std::string(error.what()).contains("timed out"), error.what());
      }
      pair.gloo.barrier()->wait();
      late->wait();
      require_equal(one[0].item<float>(), 8.0F, "what was sent");
    } else {
      pair.gloo.barrier()->wait();
      one[0].fill_(8);
      pair.shm.send(one, 0, 3)->wait();
    }
  });
}

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Net() {
    torch::manual_seed(11);
    first = register_module("first", torch::nn::Linear(60, 320));
    second = register_module("second", torch::nn::Linear(320, 30));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }
};

std::vector<at::Tensor> trained(const Group& group, int rank) {
  DistributedDataParallel model(Net(), group, {.bucket_cap_mb = 0.05});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 20; ++step) {
    torch::manual_seed(step * 10 + rank);
    optimizer.zero_grad();
    model(torch::randn({16, 60})).pow(2).mean().backward();
    optimizer.step();
  }
  return model.parameters();
}

TEST(Shm, TrainsAsGlooDoesToTheLastBit) {
  spawn(
      [](Job& job) {
        at::set_num_threads(1);
        const auto one = trained(job.new_group({0, 1}, {.backend = "shm"}), job.rank());
        const auto other = trained(job.new_group({0, 1}, {.backend = "gloo"}), job.rank());
        for (std::size_t i = 0; i < one.size(); ++i)
          require_same(one[i], other[i], fmt::format("parameter {}", i));
      },
      2);
}

TEST(Shm, IsForSubgroupsAndGoesWithThem) {
  spawn(
      [](Job& job) {
        for (int round = 0; round < 10; ++round) {
          const Group left = job.new_group({0, 2}, {.backend = "shm"});
          const Group right = job.new_group({1, 2, 3}, {.backend = "shm"});
          for (const Group& group : {left, right}) {
            if (!group.is_member()) continue;
            const at::Tensor sum = torch::full({3}, static_cast<float>(job.rank()));
            all_reduce(group, sum);
            require_equal(sum[1].item<float>(), group.size() == 2 ? 2.0F : 6.0F, group.description());
          }
        }
      },
      4);
}

TEST(Shm, NamesAMemberThatIsGone) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0, 1, 2}, {.backend = "shm", .name = "trio"});
        barrier(group);
        if (job.rank() == 1) _exit(0);
        try {
          all_reduce(group, torch::ones({4}));
        } catch (const std::runtime_error& error) {
          const std::string text = error.what();
          require(text.contains("rank 1 is gone") || text.contains("rank 1 has ended"), text);
          require(text.contains("group 'trio' of ranks 0, 1, 2"), text);
          return;
        }
        throw std::logic_error("nothing was thrown");
      },
      3);
}

// It has looked into the store, and written down what it waits for, before the rank that serves it leaves.
TEST(Shm, ACallGoesOnWhereTheStoreHasGone) {
  spawn(
      [](Job& job) {
        const Group pair = job.new_group({1, 2}, {.backend = "shm", .name = "pair"});
        if (job.rank() == 0) return job.store()->wait({"one waits"});
        if (job.rank() == 2) {
          pair.store()->wait({"call/1"});
          job.store()->set("one waits", "");
          try {
            for (;;) job.store()->check({"one waits"});
          } catch (const c10::Error&) {
            // Rank 0 has left.
          }
        }
        const at::Tensor ones = torch::ones({4});
        all_reduce(pair, ones);
        require(ones.equal(torch::full({4}, 2.0)), "the sum");
      },
      3);
}

// Ranks in containers of their own do not see each other's processes.
TEST(Shm, IsRefusedWhereMemoryCannotBeShared) {
  spawn(
      [](Job& job) {
        const c10::intrusive_ptr<c10d::Store> store =
            c10::make_intrusive<c10d::PrefixStore>("elsewhere", job.store());
        if (job.rank() == 0) {
          store->set("segment", "another-host/1 1 3");
          store->wait({"refused"});
          return;
        }
        try {
          make_shm(store, {.rank = 1, .ranks = {4, 7}, .timeout = std::chrono::seconds(5)});
        } catch (const std::invalid_argument& error) {
          require_equal(
              std::string(error.what()),
              std::string("backend 'shm' joins ranks of one host: rank 7 cannot share memory with rank 4: "
                          "it is on another host, or in a container of its own"),
              "refusal");
          return;
        }
        throw std::logic_error("nothing was thrown");
      },
      2);
}

}  // namespace
}  // namespace muster
