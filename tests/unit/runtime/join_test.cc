// Ranks with unequal numbers of batches, without join, and with join in cases that
// tests/train/ddp_parity_test.cc does not compare with Python's.
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "runtime/parallel/attendance.h"
#include "runtime/rank/training_loop.h"
#include "tests/require.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

Tensor join_inputs(int seed) {
  torch::manual_seed(seed);
  return torch::randn({4, 6});
}

struct JoinNet : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  Tensor steps;
  JoinNet() {
    torch::manual_seed(2);
    linear = register_module("linear", torch::nn::Linear(6, 1));
    steps = register_buffer("steps", torch::zeros({1}));
  }
  Tensor forward(const Tensor& x) {
    if (is_training()) steps += 1;
    return linear(x);
  }
};

void join_step(DistributedDataParallel<JoinNet>& model, int seed) {
  model.zero_grad();
  model(join_inputs(seed)).mean().backward();
}

Tensor gradient_of(int seed) {
  JoinNet net;
  net.forward(join_inputs(seed)).mean().backward();
  return net.linear->weight.grad();
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing failed";
}

TEST(Join, DividesByAllRanksOrByRanksThatStillTrain) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(JoinNet(), job);
        for (const bool by_all : {true, false}) {
          model.join(
              [&] {
                for (int i = 0; i <= job.rank(); ++i) join_step(model, i);
              },
              {.divide_by_initial_world_size = by_all});
          // Only the last rank had an input for the last step.
          if (job.rank() == 2)
            require(torch::allclose(model.module()->linear->weight.grad(), gradient_of(2) / (by_all ? 3 : 1)),
                    "the last gradient");
        }
        join_step(model, job.rank());
        require(torch::allclose(model.module()->linear->weight.grad(),
                                (gradient_of(0) + gradient_of(1) + gradient_of(2)) / 3),
                "after the join all ranks take part again");
      },
      3);
}

TEST(Join, GivesAllRanksTheModelOfTheOneThatTrainedLongest) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(JoinNet(), job);
        model.join([&] {
          for (int i = 0; i < 5 - job.rank(); ++i) join_step(model, i);
          const torch::NoGradGuard no_grad;
          model.module()->linear->weight.fill_(job.rank());
        });
        require_equal(model.module()->linear->weight[0][0].item<float>(), 0.0F, "parameter of rank 0");
        require_equal(model.module()->steps.item<float>(), 5.0F, "buffer of rank 0");
      },
      2);
}

TEST(Join, LetsRanksThatStillTrainEvaluateToo) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(JoinNet(), job);
        model.join([&] {
          for (int i = 0; i < 2 + 3 * job.rank(); ++i) {
            join_step(model, i);
            const torch::NoGradGuard no_grad;
            model.eval();
            model(join_inputs(i));
            model.train();
          }
        });
        require_equal(model.module()->steps.item<float>(), 5.0F, "steps of rank 1");
      },
      2);
}

TEST(Join, EndsOnAllRanksWithTheFirstRankIfAsked) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(JoinNet(), job);
        int steps = 0;
        const auto join = [&] {
          model.join(
              [&] {
                for (int i = 0; i < 2 + 3 * job.rank(); ++i, ++steps) join_step(model, i);
              },
              {.throw_on_early_termination = true});
        };
        const std::string failure = failure_of(join);
        require(failure.contains(job.rank() == 0 ? "this rank (0) has no more inputs" : "rank 0 has no more"),
                failure);
        require_equal(steps, 2, "steps");
        join_step(model, job.rank());  // all ranks can continue
      },
      2);
}

TEST(Join, RethrowsTheExceptionOfItsBody) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(JoinNet(), job);
        const auto nested = [&] { model.join([&] { model.join([] {}); }); };
        require_equal(failure_of(nested), std::string("join: called inside another join of the same model"),
                      "nested");
        join_step(model, job.rank());
      },
      2);
}

TEST(Join, RefusesAStaticGraphIfARankHadNoBackwardPass) {
  try {
    spawn(
        [](Job& job) {
          DistributedDataParallel model(JoinNet(), job, {.static_graph = true});
          model.join([&] {
            if (job.rank() == 1) join_step(model, 0);
          });
        },
        2);
    FAIL() << "a rank without a graph joined";
  } catch (const SpawnError& error) {
    EXPECT_EQ(error.rank(), 0);
    EXPECT_THAT(error.what(), HasSubstr("with static_graph each rank needs at least one"));
  }
}

TEST(UnequalBatches, EndWithAnErrorThatNamesTheRankWithFewer) {
  try {
    spawn(
        [](Job& job) {
          DistributedDataParallel model(JoinNet(), job);
          for (int i = 0; i < 5 - 3 * job.rank(); ++i) join_step(model, i);
        },
        2);
    FAIL() << "a rank trained alone";
  } catch (const SpawnError& error) {
    EXPECT_EQ(error.rank(), 0);
    EXPECT_THAT(error.what(),
                HasSubstr("(this rank has begun 3 reductions of gradients; rank 1 has ended after 2; "
                          "unequal numbers of batches need DistributedDataParallel::join"));
  }
}

TEST(Attendance, ExplainsOnlyErrorsAboutPeers) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  Attendance attendance(store, 1);
  EXPECT_EQ(attendance.explain("Connection closed by peer"), "") << "nothing was reduced yet";
  for (int i = 0; i < 3; ++i) attendance.reduces();
  EXPECT_EQ(attendance.explain("no such file"), "");
  EXPECT_EQ(attendance.explain("Timed out waiting 1000ms for recv operation to complete"),
            " (this rank has begun 3 reductions of gradients; no other rank has ended)");
  attendance.ends();
  EXPECT_EQ(attendance.explain("Connection closed by peer"), "") << "all ended after equally many";
  attendance.reduces();
  EXPECT_THAT(attendance.explain("Connection closed by peer"),
              HasSubstr("4 reductions of gradients; rank 1 has ended after 3"));
  store.reset();
  EXPECT_EQ(attendance.explain("Connection closed by peer"), "") << "the job is over";
}

TEST(Attendance, NoticesBeforeAReductionThatARankHasEnded) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Attendance here(store, 0), other(store, 1);
  for (Attendance* each : {&here, &other}) {
    each->accumulates(/*meets=*/true);
    each->reduces();
  }
  other.ends();
  here.accumulates(/*meets=*/false);
  EXPECT_EQ(here.deserted(), "") << "rank 0 does not need rank 1 yet";
  here.accumulates(/*meets=*/true);
  EXPECT_THAT(here.deserted(), HasSubstr("this rank waits in reduction 2 of gradients, "
                                         "and rank 1 has come to the end of its data after 1;"));
}

// The test runs in a process of its own, because a batch that was taken changes later tests.
TEST(Attendance, WaitsForARankThatIsBetweenTwoLoops) {
  spawn(
      [](const Job&) {
        const auto store = c10::make_intrusive<c10d::HashStore>();
        const TrainingLoop first{.loader = 1, .end = 1}, second{.loader = 1, .end = 2};
        take_batch(first, nullptr);
        Attendance other(store, 1);
        other.reduces();
        end_loop(first);
        Attendance here(store, 0);
        here.reduces();
        here.accumulates(/*meets=*/true);
        require(here.deserted().contains("rank 1 has come to the end of its data after 1;"), "in the loop");
        take_batch(second, nullptr);
        here.accumulates(/*meets=*/true);
        require(here.deserted().empty(), "in the next loop");
      },
      1);
}

TEST(Attendance, KnowsWhatARankHasBegunBeforeItEnded) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Attendance here(store, 0), other(store, 1);
  for (Attendance* each : {&here, &other}) each->accumulates(/*meets=*/true);
  other.ends();
  EXPECT_EQ(here.deserted(), "") << "rank 1 has taken part in the collective before reduction 1";
  here.reduces();
  EXPECT_THAT(here.deserted(), HasSubstr("this rank waits in reduction 1 of gradients, "
                                         "and rank 1 has come to the end of its data after 0;"));
}

}  // namespace
}  // namespace muster
