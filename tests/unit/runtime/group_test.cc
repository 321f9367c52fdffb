// Every test runs in spawned processes, and what they find is compared there. A rank that is to be gone
// without a word calls _exit(0), which spawn() does not take for a failure that ends the others.
#include <algorithm>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <limits>
#include <muster/muster.h>
#include <poll.h>
#include <unistd.h>

#include "runtime/comm/flight_record.h"
#include "runtime/comm/formation.h"
#include "runtime/comm/job_state.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/uncaught.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

float sum_of(const Group& group, int value) {
  const at::Tensor tensor = torch::full({1}, static_cast<float>(value));
  all_reduce(group, tensor);
  return tensor.item<float>();
}

// The message of the exception that the body throws.
template <class Exception, class Body>
std::string thrown_by(const Body& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  throw std::runtime_error("nothing was thrown");
}

void require_text(const std::string& text, const std::string& part) {
  require(text.contains(part), fmt::format("'{}' has '{}'", text, part));
}

TEST(Group, OfTheWorldIsAllOfTheJob) {
  spawn(
      [](Job& job) {
        const Group world = job.world();
        require_equal(world.rank(), job.rank(), "rank");
        require_equal(world.size(), 2, "size");
        require(world.ranks() == std::vector{0, 1}, "ranks");
        require_equal(world.description(), std::string("group 'world' of ranks 0, 1"), "description");
        require(world.process_group().get() == job.process_group().get(), "one process group");
        require_equal(sum_of(job, job.rank() + 1), 3.0F, "sum over the job");
      },
      2);
}

TEST(FlightRecord, SaysWhichCollectiveOfEachGroupIsTheNewest) {
  spawn(
      [](Job& job) {
        // Two of one name, and one that has none of its own.
        const Group both = job.new_group({0, 1}, {.backend = "gloo", .name = "both"});
        const Group also = job.new_group({0, 1}, {.backend = "gloo", .name = "both"});
        const Group unnamed = job.new_group({0, 1}, {.backend = "gloo"});
        for (int i = 0; i < 3; ++i) sum_of(both, i);
        for (const Group* const each : {&also, &unnamed}) barrier(*each);
        const std::vector<FlightRecord> records = flight_records();
        require_equal(records.size(), std::size_t{1}, "backends");
        require_equal(records.front().backend, std::string("gloo"), "backend");
        const auto& lines = records.front().lines;
        const auto has = [&](const std::string& group, const std::string& what) {
          return std::ranges::count_if(lines, [&](const std::string& line) {
                   return line.starts_with(fmt::format("newest collective in group '{}': #", group)) &&
                          line.contains(what) && line.contains(", finished up to #");
                 }) == 1;
        };
        require(has("both (group 0)", " all_reduce of Float [1]") && has("both (group 1)", " barrier") &&
                    has("group 2", " barrier"),
                fmt::format("{}", fmt::join(lines, "; ")));
      },
      2);
  EXPECT_TRUE(lines_of_record("").empty());
  EXPECT_TRUE(lines_of_record(R"({"entries": [{"is_p2p": false, "pg_id": 0}]})").empty());
}

TEST(Group, HasItsMembersInAscendingOrderAndNoOthers) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({2, 0}, {.name = "outer"});
        require(group.ranks() == std::vector{0, 2}, "ranks");
        require_equal(group.rank(), std::vector{0, -1, 1}[static_cast<std::size_t>(job.rank())], "place");
        require_equal(group.place_of(2), 1, "place of rank 2");
        job.barrier();  // rank 0 has the store
        if (group.is_member()) {
          require_equal(sum_of(group, job.rank() + 1), 4.0F, "sum");
          return;
        }
        const auto none = [&](const auto& body) {
          require_text(thrown_by<std::logic_error>(body),
                       "this rank, 1, is not in the group 'outer' of ranks 0, 2");
        };
        none([&] { group.process_group(); });
        none([&] { barrier(group); });
        none([&] { send(group, torch::ones({1}), 0); });
        none([&] { Checkpointer(group, {.directory = "/tmp"}); });
      },
      3);
}

TEST(Group, MayOverlapOthersAndBeOfOne) {
  spawn(
      [](Job& job) {
        const std::vector<std::vector<int>> all{{0, 1, 2}, {1, 2, 3}, {0, 3}, {0, 1, 2, 3}, {3}, {0, 1, 2}};
        std::vector<Group> groups;
        for (const auto& ranks : all) groups.push_back(job.new_group(ranks));
        for (int round = 0; round < 3; ++round)
          for (std::size_t i = 0; i < groups.size(); ++i) {
            if (!groups[i].is_member()) continue;
            float expected = 0;
            for (const int rank : all[i]) expected += static_cast<float>(rank * 10 + round);
            require_equal(sum_of(groups[i], job.rank() * 10 + round), expected, groups[i].description());
          }
      },
      4);
}

// A group keeps what it needs.
TEST(Group, OutlivesTheHandleOfTheJob) {
  spawn(
      [](Job& job) {
        std::optional<Group> group = job.new_group({0, 1});
        Job copy = group->job();
        require_equal(copy.world_size(), 2, "world size");
        const Group other = *group;
        group.reset();
        require_equal(sum_of(other, 1), 2.0F, "sum");
      },
      2);
}

TEST(NewGroup, RefusesWhatCannotBeOnAllRanksInTheSameWords) {
  spawn(
      [](Job& job) {
        const auto refusal = [&](const std::vector<int>& ranks, const GroupOptions& options = {}) {
          return thrown_by<std::invalid_argument>([&] { job.new_group(ranks, options); });
        };
        require_equal(refusal({0, 3}),
                      std::string("new_group: rank 3 is not in the job, whose ranks are 0 to 2"), "beyond");
        require_text(refusal({-1, 0}), "rank -1 is not in the job");
        require_equal(refusal({1, 0, 1}), std::string("new_group: rank 1 is given twice"), "twice");
        require_equal(refusal({}), std::string("new_group: no ranks are given"), "none");
        require_equal(refusal({0}, {.backend = "zeus"}),
                      std::string("new_group: backend 'zeus' is not one of gloo, nccl, mpi, shm"), "backend");
        require_text(refusal({0}, {.backend = "nccl"}), "backend 'nccl' needs GPUs");
        require_text(refusal({0}, {.timeout = std::chrono::milliseconds(0)}), "timeout is 0 ms");
        require_equal(refusal({0}, {.nccl = {{.max_ctas = 0}}}),
                      std::string("new_group: nccl: max_ctas is 0; it must be 1 or more"), "CTAs");
        require_text(refusal({0}, {.nccl = {{.min_ctas = 4, .max_ctas = 2}}}),
                     "nccl: min_ctas is 4, above max_ctas, which is 2");
        // One rank alone is wrong: all hear of it.
        require_equal(refusal(job.rank() == 1 ? std::vector{0, 7} : std::vector{0, 1}),
                      std::string("new_group: rank 7 is not in the job, whose ranks are 0 to 2"), "one");
        const std::string text = refusal(job.rank() == 2 ? std::vector{0, 2} : std::vector{0, 1});
        require_text(text, "new_group: ranks call it with different arguments: rank ");
        require_text(text, "new_group of ranks 0, 1 (");
        require_text(text, "new_group of ranks 0, 2 (");
        require_text(refusal({0, 1}, {.name = job.rank() == 0 ? "a" : "b"}), "different arguments");
        require_text(refusal({0, 1}, {.nccl = {{.split = job.rank() == 0}}}), "nccl {split}");
        require_equal(sum_of(job.new_group({0, 1, 2}), 1), 3.0F, "afterwards it works");
      },
      3);
}

TEST(NewGroup, SaysHowManyRanksHaveCalledIt) {
  spawn(
      [](Job& job) {
        if (job.rank() == 0) {
          job.store()->setTimeout(std::chrono::milliseconds(200));
          require_equal(
              thrown_by<std::runtime_error>([&] { job.new_group({0, 1}); }),
              std::string("new_group: 1 of 2 ranks called it in time; all ranks of the job must call it, "
                          "members or not"),
              "error");
          job.store()->setTimeout(std::chrono::minutes(1));
        }
        job.barrier();
      },
      2);
}

TEST(Collective, NamesTheRankThatIsGoneAndTheGroup) {
  spawn(
      [](Job& job) {
        const Group left = job.new_group({0, 2}, {.name = "left"});
        const Group right = job.new_group({1, 3, 4}, {.name = "right"});
        if (left.is_member()) {
          for (int i = 0; i < 50; ++i) require_equal(sum_of(left, 1), 2.0F, "the other group goes on");
          barrier(job.new_group({0, 1, 2, 4}));
          return;
        }
        if (job.rank() == 3) {
          sum_of(right, 1);
          // It takes part in making the last group, although it is not a member.
          job.new_group({0, 1, 2, 4});
          _exit(0);
        }
        sum_of(right, 1);
        const Group others = job.new_group({0, 1, 2, 4});
        const std::string text = thrown_by<std::runtime_error>([&] { sum_of(right, 1); });
        require_text(text,
                     "all_reduce (sum) of Float [1] in the group 'right' of ranks 1, 3, 4: rank 3 is gone");
        require_text(thrown_by<std::runtime_error>([&] {
                       const at::Tensor tensor = torch::ones({2});
                       recv(right, tensor, 3);
                     }),
                     "in the group 'right' of ranks 1, 3, 4");
        barrier(others);
      },
      5);
}

TEST(Collective, LetsAMemberLeaveThatHasDoneItsPart) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0, 1, 2}, {.name = "three"});
        if (job.rank() == 2) {
          while (who_is_gone(state_of(job), {1}).empty()) {
          }
          // Rank 0 has waited for a second, and looks for who is gone.
          group.store()->deleteKey("call/1");
          wait_for_key(*group.store(), "call/1", std::chrono::seconds(20));
        }
        const at::Tensor share = at::zeros({1});
        std::vector<at::Tensor> shares;
        if (job.rank() == 0) shares = {at::ones({1}), at::ones({1}), at::ones({1})};
        scatter(group, share, shares, 0);
        require_equal(share.item<float>(), 1.0F, "share");
        if (job.rank() == 1) return;
        require_text(thrown_by<std::runtime_error>([&] { barrier(group); }),
                     "barrier in the group 'three' of ranks 0, 1, 2: rank 1 is gone");
        if (job.rank() == 2) job.store()->set("done", "1");
        job.store()->wait({"done"});  // rank 0 serves the store
      },
      3);
}

TEST(Collective, MakesRoomForThoseWhoLookWhetherThisRankIsThere) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0, 1});
        const auto somebody_waits = [&] {
          pollfd ready{state_of(job).presence.fd.get(), POLLIN, 0};
          return poll(&ready, 1, 0) == 1;
        };
        if (job.rank() == 1) {
          for (int look = 0; look < 3; ++look)
            require_equal(find_gone(state_of(job), {0}), std::string(), "");
          job.store()->set("looked", "1");
        }
        job.store()->wait({"looked"});
        if (job.rank() == 0) require(somebody_waits(), "somebody waits before a call");
        sum_of(group, 1);
        if (job.rank() == 0) require(!somebody_waits(), "nobody waits after it");
        barrier(group);
      },
      2);
}

TEST(Collective, SaysWhichOnesTwoRanksAreIn) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0, 1}, {.name = "pair"});
        sum_of(group, 1);
        const at::Tensor tensor = torch::ones({4});
        const std::string text = thrown_by<std::runtime_error>([&] {
          if (job.rank() == 0)
            all_reduce(group, tensor, ReduceOp::kMax);
          else
            broadcast(group, tensor, 0);
        });
        require_text(text, "in the group 'pair' of ranks 0, 1: ranks are in different collectives: rank ");
        require_text(text, "rank 0 in all_reduce (max) of Float [4]");
        require_text(text, "rank 1 in broadcast of Float [4] from rank 0");
      },
      2);
}

// Gloo ends the process then, from a thread of its own.
TEST(Collective, SaysWhichShapesDifferAsItEndsTheProcess) {
  const ScratchDirectory scratch;
  try {
    spawn(
        [&](Job& job) {
          handle_uncaught_exceptions(std::to_string(job.rank()));
          const std::string path = scratch / fmt::format("stderr-{}", job.rank());
          require(freopen(path.c_str(), "w", stderr) != nullptr, "stderr goes to a file");
          const auto reduce = [&] { all_reduce(job, torch::ones({job.rank() == 0 ? 4 : 1000})); };
          if (job.rank() == 0) reduce();
          require_text(thrown_by<std::runtime_error>(reduce), "rank 0 in all_reduce (sum) of Float [4]");
        },
        2);
    FAIL() << "nothing has failed";
  } catch (const SpawnError&) {
    EXPECT_THAT(read_bytes(scratch / "stderr-0"), HasSubstr("ranks are in different collectives: rank "));
    EXPECT_THAT(read_bytes(scratch / "stderr-0"), HasSubstr("rank 0 in all_reduce (sum) of Float [4]"));
    EXPECT_THAT(read_bytes(scratch / "stderr-0"), HasSubstr("rank 1 in all_reduce (sum) of Float [1000]"));
  }
}

// One training of a group; the same as a training of a job of that size.
std::string train(const Group& group, std::uint64_t seed, const std::string& directory,
                  int stop_after = 100) {
  at::set_num_threads(1);
  torch::manual_seed(seed);
  auto net = std::make_shared<SmallNet>();
  DistributedDataParallel<SmallNet> model(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const NoiseDataset dataset(64);
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .seed = seed}, group);
  auto state = TrainState(model, optimizer, loader);
  Checkpointer checkpoints(group, {.every = 3, .directory = directory});
  checkpoints.restore(state);
  // Dropout differs from rank to rank, by the place in the group.
  if (checkpoints.steps() == 0) torch::manual_seed(seed * 100 + static_cast<std::uint64_t>(group.rank()));
  MeanMetric mean(group);
  for (auto& batch : loader.epochs(2)) {
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model.forward(batch.data), batch.target);
    loss.backward();
    clip_grad_norm_(model, 1.0);
    optimizer.step();
    mean.update(loss.detach());
    checkpoints.step(state);
    if (checkpoints.steps() == stop_after) break;
  }
  checkpoints.save(state);
  return fmt::format("{} {} {}", checkpoints.steps(), mean.compute(), bytes_of(*net));
}

TEST(Groups, TrainTwoModelsAtOnceAsEachIsTrainedAlone) {
  const ScratchDirectory scratch;
  const auto in = [&](const std::string& name) { return scratch / name; };
  for (const std::uint64_t seed : {1, 2})
    spawn(
        [&](Job& job) {
          const std::string result = train(job, seed, in(fmt::format("alone-{}", seed)));
          if (job.rank() == 0) write_bytes(in(fmt::format("alone-{}.result", seed)), result);
        },
        2);
  spawn(
      [&](Job& job) {
        const Group even = job.new_group({0, 2}, {.name = "even"});
        const Group odd = job.new_group({1, 3}, {.name = "odd"});
        const Group& mine = even.is_member() ? even : odd;
        const std::uint64_t seed = even.is_member() ? 1 : 2;
        // The second group breaks off and goes on from its checkpoint, while the first one trains through.
        if (seed == 2) train(mine, seed, in("group-2"), 7);
        const std::string result = train(mine, seed, in(fmt::format("group-{}", seed)));
        if (mine.rank() == 0) write_bytes(in(fmt::format("group-{}.result", seed)), result);
        job.barrier();  // rank 0 serves the store
      },
      4);
  EXPECT_NE(read_bytes(in("alone-1.result")), read_bytes(in("alone-2.result")));
  EXPECT_TRUE(read_bytes(in("alone-1.result")) == read_bytes(in("group-1.result")));
  // The metric of the resumed training counts only the second part.
  const auto parameters = [](const std::string& text) {
    return text.substr(text.find(' ', text.find(' ') + 1));
  };
  EXPECT_TRUE(parameters(read_bytes(in("alone-2.result"))) == parameters(read_bytes(in("group-2.result"))));
  EXPECT_TRUE(read_bytes(in("group-2.result")).starts_with("16 "));
}

TEST(Groups, HaveModelsOfTheirOwnInOneProcess) {
  try {
    spawn(
        [](Job& job) {
          const Group first = job.new_group({0, 1}, {.name = "first"});
          const Group second = job.new_group({0, 2}, {.name = "second"});
          std::vector<DistributedDataParallel<torch::nn::LinearImpl>> models;
          for (const Group* group : {&first, &second})
            if (group->is_member())
              models.emplace_back(std::make_shared<torch::nn::LinearImpl>(3, 2), *group);
          const NoiseDataset dataset(12);
          DataLoader loader(dataset, {.batch_size = 1, .drop_last = true}, 0, job.rank() == 2 ? 6 : 4);
          for ([[maybe_unused]] auto& batch : loader.epochs(1))
            for (auto& model : models) model.forward(torch::ones({1, 3})).sum().backward();
        },
        3);
    FAIL() << "rank 2 has two batches, and the others three";
  } catch (const SpawnError& error) {
    EXPECT_EQ(error.rank(), 0);
    EXPECT_THAT(error.what(),
                HasSubstr("(this rank has begun 3 reductions of gradients; rank 2 has ended after 2;"));
  }
}

TEST(Groups, HearInABackwardPassWhoIsGone) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0, 2}, {.name = "pair"});
        if (!group.is_member()) return;
        DistributedDataParallel<torch::nn::LinearImpl> model(std::make_shared<torch::nn::LinearImpl>(3, 2),
                                                             group);
        model.forward(torch::ones({1, 3})).sum().backward();
        if (job.rank() == 2) _exit(0);
        try {
          model.forward(torch::ones({1, 3})).sum().backward();
        } catch (...) {
          require_text(
              describe_current_exception(),
              "this rank has begun 2 reductions of gradients; rank 2 is gone, of the group 'pair' of ranks 0, 2)");
          return;
        }
        throw std::runtime_error("nothing was thrown");
      },
      3);
}

TEST(Groups, RefuseAModelThatDiffersByTheRanksOfTheJob) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({1, 2});
        if (!group.is_member()) return;
        const auto net = std::make_shared<torch::nn::LinearImpl>(3, job.rank());
        require_text(
            thrown_by<std::invalid_argument>(
                [&] { DistributedDataParallel<torch::nn::LinearImpl>(net, group); }),
            "parameter 'weight' is Float [1, 3] on cpu on rank 1, but Float [2, 3] on cpu on rank 2");
      },
      3);
}

TEST(Groups, NeedADirectoryOfTheirOwnForCheckpoints) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({0}, {.name = "one"});
        if (group.is_member())
          require_text(thrown_by<std::invalid_argument>([&] { Checkpointer(group, {}); }),
                       "Checkpointer: the group 'one' of rank 0 is not the whole job: .directory must name");
        job.barrier();  // rank 0 has the store, which rank 1 may still need to make the group
      },
      2);
}

// The ranks of a 2 x 2 mesh hold four parts of a model.
TEST(ClipGradNorm, IsOfAllThatRanksAlongGroupsHave) {
  spawn(
      [](Job& job) {
        const Group rows[] = {job.new_group({0, 1}), job.new_group({2, 3})};
        const Group columns[] = {job.new_group({0, 2}), job.new_group({1, 3})};
        const std::vector<Group> groups{rows[job.rank() / 2], columns[job.rank() % 2]};
        torch::manual_seed(5);
        const at::Tensor whole = torch::randn({4, 6});
        for (const double type : {2.0, 1.0, 3.0, std::numeric_limits<double>::infinity()}) {
          at::Tensor part = torch::zeros({6}, torch::requires_grad());
          part.mutable_grad() = whole[job.rank()].clone();
          const double norm = at::linalg_vector_norm(whole, type).item<double>();
          const double mine =
              clip_grad_norm_({part}, norm / 2, type, /*error_if_nonfinite=*/false, groups).item<double>();
          require(std::abs(mine - norm) < 1e-5 * norm, fmt::format("{} is the norm {}", mine, norm));
          require(at::allclose(part.grad(), whole[job.rank()] / 2, 1e-4, 1e-6), "scaled by the whole's norm");
        }
      },
      4);
}

// Rank 0 has doubles, rank 3 nothing.
TEST(ClipGradNorm, IsRightWhateverTypesTheStagesHave) {
  spawn(
      [](Job& job) {
        const std::vector<Group> world{job.world()};
        const double mine[] = {400, 300, 1200, 0};
        for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble}) {
          std::vector<at::Tensor> parameters;
          if (job.rank() < 3) {
            parameters.push_back(torch::zeros({3}, job.rank() == 0 ? at::kDouble : type).requires_grad_());
            parameters[0].mutable_grad() = torch::zeros_like(parameters[0].detach());
            parameters[0].mutable_grad()[1] = mine[job.rank()];
          }
          const double norm =
              clip_grad_norm_(parameters, 650, 2.0, /*error_if_nonfinite=*/true, world).item<double>();
          require(std::abs(norm - 1300) <= 4, fmt::format("{}: {} is the norm", c10::toString(type), norm));
          if (parameters.empty()) continue;
          const double scaled = parameters[0].grad()[1].item<double>();
          require(std::abs(scaled - mine[job.rank()] / 2) <= 4, fmt::format("{} is what is left", scaled));
        }
      },
      4);
}

TEST(Groups, AreWhereStepsAreMade) {
  spawn(
      [](Job& job) {
        const Group pair = job.new_group({0, 1});
        const Group all = job.new_group({0, 1, 2});
        int steps = 0;
        // The word for the group, or the world's, in which a step was made.
        const auto where = [&](const std::function<void()>& body) {
          body();
          step(++steps);
          return step_time().group();
        };
        const std::string word = state_of(pair).key;
        require(!word.empty() && word != state_of(all).key, "each group has a word");
        require_equal(where([&] { job.barrier(); }), std::string(), "barrier of the job");
        if (pair.is_member()) {
          require_equal(where([&] { sum_of(pair, 1); }), word, "collective");
          require_equal(where([&] { sum_of(pair, 1), sum_of(all, 1); }), std::string(), "two groups");
          require_equal(where([&] {
                          const at::Tensor one = torch::ones({1});
                          if (job.rank() == 0)
                            send(pair, one, 1);
                          else
                            recv(pair, one, 0);
                        }),
                        word, "point to point");
          DistributedDataParallel model(torch::nn::Linear(2, 1), pair);
          require_equal(where([&] { model(torch::ones({1, 2})).sum().backward(); }), word, "model");
        } else {
          require_equal(where([&] { sum_of(all, 1); }), state_of(all).key, "the other group");
        }
      },
      3);
}

TEST(StepProfile, OfAGroupNamesRanksOfTheJob) {
  spawn(
      [](Job& job) {
        const Group group = job.new_group({1, 2});
        if (!group.is_member()) return;
        for (int i = 0; i <= job.rank(); ++i) {
          const auto in = section("long");
          muster::step(i);
        }
        require_equal(step_profile(group).ranks, 2, "members");
        for (const StepPart& part : step_profile(group).parts)
          require(part.longest_rank == 1 || part.longest_rank == 2, "a rank of the group");
      },
      3);
}

}  // namespace
}  // namespace muster
