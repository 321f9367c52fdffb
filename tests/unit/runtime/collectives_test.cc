// Compares the results of collectives with computed values; tests/train/collectives_parity_test.cc compares
// them with Python's.
#include <array>
#include <chrono>
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "runtime/comm/formation.h"
#include "tests/require.h"

namespace muster {
namespace {

using nlohmann::json;

// A tensor that tells whose it is.
at::Tensor tensor_of(int rank, at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return (at::arange(count) % 13 + rank + 1).view(sizes).to(type);
}

void require_same(const at::Tensor& is, const at::Tensor& expected, const std::string& what) {
  require(is.scalar_type() == expected.scalar_type() && at::equal(is, expected), what);
}

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  throw std::runtime_error("nothing was refused");
}

// Makes a group of three ranks of four, so that places and ranks differ.
void in_a_group_of_three(const std::function<void(const Group&)>& body) {
  spawn(
      [&](Job& job) {
        const Group group = job.new_group({1, 2, 3}, {.name = "three"});
        if (group.is_member()) body(group);
      },
      4);
}

TEST(AllReduce, ReducesInPlaceByEveryOperation) {
  in_a_group_of_three([](const Group& group) {
    const int place = group.rank();
    const auto reduced = [&](ReduceOp op, at::Tensor tensor) {
      all_reduce(group, tensor, op);
      return tensor;
    };
    const at::Tensor all = at::stack({tensor_of(0, {2, 5}), tensor_of(1, {2, 5}), tensor_of(2, {2, 5})});
    require_same(reduced(ReduceOp::kSum, tensor_of(place, {2, 5})), all.sum(0), "sum");
    require_same(reduced(ReduceOp::kMin, tensor_of(place, {2, 5})), all.amin(0), "min");
    require_same(reduced(ReduceOp::kMax, tensor_of(place, {2, 5})), all.amax(0), "max");
    require_same(reduced(ReduceOp::kProduct, tensor_of(place, {2, 5})), all.prod(0), "product");
    require_same(reduced(ReduceOp::kAvg, tensor_of(place, {2, 5})), all.mean(0), "avg");
    const at::Tensor bits = at::full({3}, 1 << place, at::kLong);
    require_same(reduced(ReduceOp::kBor, bits.clone()), at::full({3}, 7, at::kLong), "bor");
    require_same(reduced(ReduceOp::kBand, bits.clone()), at::zeros({3}, at::kLong), "band");
    require_same(reduced(ReduceOp::kBxor, bits.clone()), at::full({3}, 7, at::kLong), "bxor");
    require(refusal([&] { reduced(ReduceOp::kAvg, bits); }).contains("integers have no mean"), "avg");
    require(refusal([&] { reduced(ReduceOp::kBor, all); }).contains("need integers"), "bor of floats");
  });
}

TEST(AllReduce, RefusesAtOnceWhatGlooDoesNotReduce) {
  in_a_group_of_three([](const Group& group) {
    for (const auto type : {at::kShort, at::kUInt16, at::kUInt32, at::kUInt64, at::kComplexFloat,
                            at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      const std::string line = fmt::format(
          "Gloo does not reduce {}; it reduces Float, Double, Half, BFloat16, Char, Byte, Bool, Int, Long",
          c10::toString(type));
      const at::Tensor tensor = at::empty({3}, type);
      require(refusal([&] { all_reduce(group, tensor); }).ends_with(line), "all_reduce: " + line);
      require(refusal([&] { reduce_scatter_tensor(group, at::empty({1}, type), tensor); }).ends_with(line),
              "reduce_scatter_tensor: " + line);
      require(refusal([&] { reduce_scatter(group, {tensor, tensor, tensor}); }).ends_with(line),
              "reduce_scatter: " + line);
    }
    all_reduce(group, at::ones({1}));
  });
}

TEST(AllReduce, OfBoolsGivesBools) {
  in_a_group_of_three([](const Group& group) {
    const auto bits_of = [&](ReduceOp op) {
      const at::Tensor bools =
          at::tensor({1, group.rank() > 0 ? 1 : 0, group.rank() == 1 ? 1 : 0, 0}).to(at::kBool);
      all_reduce(group, bools, op);
      return bools.view(at::kByte);
    };
    const at::Tensor any = at::tensor({1, 1, 1, 0}, at::kByte), all = at::tensor({1, 0, 0, 0}, at::kByte);
    require_same(bits_of(ReduceOp::kSum), any, "sum");
    require_same(bits_of(ReduceOp::kProduct), all, "product");
    require_same(bits_of(ReduceOp::kBor), any, "bor");
    require_same(bits_of(ReduceOp::kBand), all, "band");
    require_same(bits_of(ReduceOp::kBxor), at::tensor({1, 0, 1, 0}, at::kByte), "bxor");
    require_same(reduce_scatter(group, std::vector<at::Tensor>(3, at::ones({1}, at::kBool))).view(at::kByte),
                 at::tensor({1}, at::kByte), "reduce_scatter");
  });
}

TEST(AllReduce, WorksOnWhatLiesScatteredInMemoryAndOnParameters) {
  in_a_group_of_three([](const Group& group) {
    const at::Tensor whole = at::zeros({4, 6});
    all_reduce(group, whole.slice(1, 0, 6, 2).fill_(1));
    require_same(whole.sum(0), at::tensor({12.F, 0.F, 12.F, 0.F, 12.F, 0.F}), "every second column");
    const at::Tensor parameter = torch::ones({2}, torch::requires_grad());
    all_reduce(group, parameter);
    require_same(parameter.detach(), at::full({2}, 3.F), "a parameter");
    const at::Tensor number = at::scalar_tensor(2.0);
    all_reduce(group, number);
    require_equal(number.item<float>(), 6.0F, "a tensor of no dimension");
    all_reduce(group, at::empty({0, 3}));
  });
}

TEST(Broadcast, TakesARankOfTheJob) {
  in_a_group_of_three([](const Group& group) {
    for (const auto type : {at::kShort, at::kComplexFloat, at::kBool, at::kHalf, at::kDouble}) {
      const at::Tensor tensor = tensor_of(group.rank(), {3, 2}, type);
      broadcast(group, tensor, 3);
      require_same(tensor, tensor_of(2, {3, 2}, type), "of rank 3, which has place 2");
    }
    require(
        refusal([&] { broadcast(group, at::ones({1}), 0); })
            .contains(
                "broadcast of Float [1] from rank 0 in the group 'three' of ranks 1, 2, 3: rank 0 is not in it"),
        "a rank that is not a member");
  });
}

TEST(AllGather, TakesUnevenShapes) {
  in_a_group_of_three([](const Group& group) {
    const auto sizes = [](int place) { return std::vector<std::int64_t>{place, place + 1}; };
    const auto all = all_gather(group, tensor_of(group.rank(), sizes(group.rank()), at::kShort));
    require_equal(all.size(), std::size_t{3}, "tensors");
    for (int each = 0; each < 3; ++each)
      require_same(all[static_cast<std::size_t>(each)], tensor_of(each, sizes(each), at::kShort), "one");
    const at::Tensor output = at::empty({3, 4});
    all_gather_into_tensor(group, output, tensor_of(group.rank(), {4}));
    require_same(output, at::stack({tensor_of(0, {4}), tensor_of(1, {4}), tensor_of(2, {4})}),
                 "into a tensor");
    require(refusal([&] {
              all_gather(group, tensor_of(0, {2}, group.rank() == 1 ? at::kLong : at::kInt));
            }).contains("rank 1 has a tensor of Int, and rank 2 one of Long"),
            "types");
    require(refusal([&] {
              all_gather_into_tensor(group, at::empty({5}), at::ones({2}));
            }).contains("the output is Float [5]; it must have 3 times the input's elements"),
            "a wrong output");
  });
}

TEST(ReduceScatter, GivesEachItsPart) {
  in_a_group_of_three([](const Group& group) {
    const int place = group.rank();
    for (const bool even : {true, false}) {
      std::vector<at::Tensor> inputs;
      for (int each = 0; each < 3; ++each)
        inputs.push_back(tensor_of(place, {even ? 2 : each + 1, 3}) * (each + 1));
      const at::Tensor mine = reduce_scatter(group, inputs);
      const at::IntArrayRef sizes = inputs[static_cast<std::size_t>(place)].sizes();
      require_same(mine, (tensor_of(0, sizes) + tensor_of(1, sizes) + tensor_of(2, sizes)) * (place + 1),
                   "part");
    }
    const at::Tensor output = at::empty({2});
    reduce_scatter_tensor(group, output, tensor_of(place, {3, 2}), ReduceOp::kAvg);
    require_same(output, (at::arange(6.F).view({3, 2})[place] + 2), "mean");
    require(refusal([&] {
              reduce_scatter(group, {at::ones({1})});
            }).contains("1 inputs are given; 3 are needed, one for each member"),
            "too few");
  });
}

TEST(AllToAll, TurnsRowsIntoColumns) {
  in_a_group_of_three([](const Group& group) {
    const int place = group.rank();
    std::vector<at::Tensor> inputs;
    for (int each = 0; each < 3; ++each)
      inputs.push_back(tensor_of(10 * place + each, {place, each + 1}, each == 1 ? at::kDouble : at::kByte));
    const auto outputs = all_to_all(group, inputs);
    for (int each = 0; each < 3; ++each)
      require_same(outputs[static_cast<std::size_t>(each)],
                   tensor_of(10 * each + place, {each, place + 1}, place == 1 ? at::kDouble : at::kByte),
                   "from one");
    const at::Tensor even = at::empty({3, 2});
    all_to_all_single(group, even, tensor_of(place, {3, 2}));
    require_same(
        even,
        at::stack({tensor_of(0, {3, 2})[place], tensor_of(1, {3, 2})[place], tensor_of(2, {3, 2})[place]}),
        "equal parts");
    // Place p sends p + 1 rows to each.
    const at::Tensor output = at::empty({6, 2}, at::kLong);
    all_to_all_single(group, output, at::full({3 * (place + 1), 2}, place, at::kLong), {1, 2, 3},
                      {place + 1, place + 1, place + 1});
    require_same(output.select(1, 0), at::tensor({0, 1, 1, 2, 2, 2}, at::kLong), "uneven parts");
    require(refusal([&] {
              all_to_all_single(group, at::empty({4}), at::ones({3}));
            }).contains("the output has 4 rows, which cannot be divided evenly among 3 members"),
            "uneven");
  });
}

TEST(GatherAndScatter, GoToAndFromOneRank) {
  in_a_group_of_three([](const Group& group) {
    const int place = group.rank();
    const auto gathered = gather(group, tensor_of(place, {place + 1}, at::kInt), 2);
    require_equal(gathered.size(), std::size_t{place == 1 ? 3U : 0U}, "only on rank 2");
    for (int each = 0; each < std::ssize(gathered); ++each)
      require_same(gathered[static_cast<std::size_t>(each)], tensor_of(each, {each + 1}, at::kInt), "one");
    const at::Tensor output = at::empty({2, 2}, at::kShort);
    std::vector<at::Tensor> inputs;
    for (int each = 0; place == 2 && each < 3; ++each) inputs.push_back(tensor_of(each, {2, 2}, at::kShort));
    scatter(group, output, inputs, 3);
    require_same(output, tensor_of(place, {2, 2}, at::kShort), "of rank 3's list");
    // A call that is refused at once does not count: the other ranks need not take part.
    if (place == 0)
      require(refusal([&] { scatter(group, output, {output}, 1); }).contains("1 inputs are given"),
              "too few");
    barrier(group);
  });
}

// Each sends many to each, and receives them in another order than they were sent in.
TEST(PointToPoint, HasAnyNumberUnderWay) {
  in_a_group_of_three([](const Group& group) {
    constexpr int kCount = 20;
    const int mine = group.ranks()[static_cast<std::size_t>(group.rank())];
    std::vector<Work> work;
    std::vector<std::pair<at::Tensor, at::Tensor>> received;  // with what it is to be
    for (const int other : group.ranks()) {
      if (other == mine) continue;
      for (int i = 0; i < kCount; ++i)
        work.push_back(isend(group, tensor_of(100 * mine + i, {i, 3}, at::kInt), other, i % 4));
      for (int i = kCount - 1; i >= 0; --i) {
        received.emplace_back(at::empty({(kCount - 1 - i) / 4 * 4 + i % 4, 3}, at::kInt), at::Tensor());
        // Messages with the same tag arrive in order.
        const int number = static_cast<int>(received.back().first.size(0));
        received.back().second = tensor_of(100 * other + number, {number, 3}, at::kInt);
        work.push_back(irecv(group, received.back().first, other, i % 4));
      }
    }
    for (Work& each : work) each.wait();
    for (const auto& [is, expected] : received) require_same(is, expected, "what was sent");
    require(refusal([&] { send(group, at::ones({1}), mine); }).contains("is this rank itself"), "to itself");
    require(refusal([&] {
              recv(group, at::ones({1}), 0);
            }).contains("rank 0 is not in the group 'three' of ranks 1, 2, 3"),
            "from outside");
  });
}

TEST(PointToPoint, ReceivesFromAnyRankAndIntoAnyLayout) {
  in_a_group_of_three([](const Group& group) {
    if (group.rank() > 0) {
      send(group, tensor_of(group.rank(), {3, 2}), 1);
      return;
    }
    std::vector<int> sources;
    for (int i = 0; i < 2; ++i) {
      const at::Tensor columns = at::zeros({2, 3}).t();
      sources.push_back(recv(group, columns));
      require_same(columns, tensor_of(sources.back() - 1, {3, 2}), "what it sent");
    }
    require(sources == std::vector{2, 3} || sources == std::vector{3, 2}, "from both");
  });
}

TEST(PointToPoint, AndBroadcastLeaveWhatTheySendAsItIs) {
  in_a_group_of_three([](const Group& group) {
    const bool sends = group.rank() == 0;
    const auto given = [&](const at::Tensor& tensor, bool by_broadcast) {
      const at::Tensor mine = sends ? tensor : at::empty(tensor.sizes(), tensor.options());
      if (by_broadcast) {
        broadcast(group, mine, 1);
      } else if (sends) {
        const std::array<int, 2> others{2, 3};
        for (const int each : others) isend(group, mine, each).wait();
      } else {
        recv(group, mine, 1);
      }
      return mine;
    };
    for (const bool by_broadcast : {false, true}) {
      const std::string how = by_broadcast ? "broadcast" : "send";
      require_same(given(at::ones({1}).expand({8}), by_broadcast), at::ones({8}), how + ": expanded");
      const at::Tensor weight = at::ones({4, 8}).requires_grad_();
      const at::Tensor output = at::relu(weight * 2);
      given(output.t().detach(), by_broadcast);
      require_equal(output._version(), 0, how + ": the version of its tensor");
      output.sum().backward();
      void* const read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      require(read_only != MAP_FAILED, "mmap");
      given(at::from_blob(read_only, {16, 8}).t(), by_broadcast);
      munmap(read_only, 4096);
    }
  });
}

TEST(Objects, TravelAsStringsAndAsJson) {
  in_a_group_of_three([](const Group& group) {
    const int place = group.rank();
    const std::string mine(static_cast<std::size_t>(place) * 1000, static_cast<char>('a' + place));
    const auto all = all_gather_object(group, mine);
    require_equal(all.size(), std::size_t{3}, "strings");
    require_equal(all[0], std::string(), "an empty one");
    require_equal(all[2], std::string(2000, 'c'), "a long one");
    const json value{{"place", place}, {"list", json::array({1, 2.5, "three", nullptr})}};
    require(all_gather_object(group, value)[2] == json{{"place", 2}, {"list", value["list"]}}, "values");
    require_equal(broadcast_object(group, mine, 3), std::string(2000, 'c'), "broadcast");
    require(broadcast_object(group, value, 2)["place"] == 1, "broadcast of a value");
    require_equal(gather_object(group, mine, 1).size(), std::size_t{place == 0 ? 3U : 0U}, "gather");
    std::vector<json> parts;
    if (place == 1) parts = {json("first"), json(2), json::object()};
    require(scatter_object(group, parts, 2) ==
                std::vector<json>{"first", 2, json::object()}[static_cast<std::size_t>(place)],
            "scatter");
    if (place == 0) send_object(group, value, 3);
    if (place == 2) require(recv_object<json>(group, 1)["place"] == 0, "sent");
    if (place == 0) send_object(group, std::string("text"), 3);
    if (place == 2) require_equal(recv_object(group, 1), std::string("text"), "sent");
  });
}

TEST(Collectives, WhatARankWritesDownWhileItWaitsGoesWithTheCall) {
  spawn(
      [](Job& job) {
        const std::string key = "call/1";
        if (job.rank() == 1) wait_for_key(*job.store(), key, std::chrono::seconds(60));
        require(job.rank() == 0 || job.store()->check({key}), "rank 0 says what it waits in");
        all_reduce(job, at::ones({1}));
        require(job.rank() == 1 || !job.store()->check({key}), "nobody needs that any more");
      },
      2);
}

// Nothing is sent, and everything works.
TEST(Collectives, OfOneRankGiveItsOwn) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({job.rank() < 0 ? 1 : 0});
        if (!group.is_member()) return;
        const at::Tensor tensor = tensor_of(0, {2, 3});
        all_reduce(group, tensor);
        broadcast(group, tensor, 0);
        require_same(all_gather(group, tensor)[0], tensor, "all_gather");
        require_same(reduce_scatter(group, {tensor}), tensor, "reduce_scatter");
        require_same(all_to_all(group, {tensor})[0], tensor, "all_to_all");
        require_same(gather(group, tensor, 0)[0], tensor, "gather");
        const at::Tensor output = at::empty({2, 3});
        scatter(group, output, {tensor}, 0);
        require_same(output, tensor, "scatter");
        barrier(group);
        require_equal(all_gather_object(group, std::string("x"))[0], std::string("x"), "object");
      },
      2);
}

}  // namespace
}  // namespace muster
