#include <cmath>
#include <gmock/gmock.h>
#include <muster/metrics.h>
#include <muster/spawn.h>
#include <torch/torch.h>

#include "tests/require.h"
#include "tests/warnings.h"

namespace muster {
namespace {

TEST(Metrics, ReduceANumberOfEachRankToOne) {
  spawn(
      [](Job& job) {
        require_equal(all_reduce(job, job.rank() + 1), 6, "sum");
        require_equal(all_reduce(job, job.rank() + 1, ReduceOp::kMin), 1, "least");
        require_equal(all_reduce(job, 0.5 * job.rank(), ReduceOp::kMax), 1.0, "greatest");
        require_equal(all_reduce(job, (std::int64_t{1} << 60) + job.rank(), ReduceOp::kMax),
                      (std::int64_t{1} << 60) + 2, "all 64 bits");
      },
      3);
}

TEST(MeanMetric, WeighsAllValuesOfAllRanks) {
  spawn(
      [](Job& job) {
        MeanMetric mean(job);
        {
          const Warnings warnings;
          require(std::isnan(mean.compute()), "mean of nothing");
          require_equal(warnings.lines().size(), std::size_t{job.rank() == 0 ? 1U : 0U}, "one rank says so");
          require(job.rank() != 0 || warnings.lines()[0].contains("no rank has given update() a value"),
                  "what it says");
        }
        if (job.rank() == 0) mean.update(10.0, 3);
        if (job.rank() == 1) mean.update(torch::tensor({1.0F, 3.0F}, torch::requires_grad()), 2);
        require_equal(mean.compute(), 38.0 / 7, "mean");
        const Warnings warnings;
        require_equal(mean.compute(), 38.0 / 7, "mean again");
        require(warnings.lines().empty(), "no warning");
        mean.reset();
        mean.update(job.rank());
        require_equal(mean.compute(), 1.0, "mean since the reset");
      },
      3);
}

TEST(Accuracy, IsTheShareOfExamplesNamedRight) {
  spawn(
      [](Job& job) {
        Accuracy accuracy(job);
        const auto scores = torch::tensor({{0.1F, 0.9F}, {0.8F, 0.2F}, {0.3F, 0.7F}});
        accuracy.update(scores, job.rank() == 0 ? torch::tensor({1, 0, 1}) : torch::tensor({0, 0, 0}));
        if (job.rank() == 0) accuracy.update(scores.slice(0, 0, 2), torch::tensor({1, 1}));
        require_equal(accuracy.compute(), 5.0 / 8, "share");
        try {
          accuracy.update(scores, torch::tensor({1, 0}));
        } catch (const std::invalid_argument& error) {
          require_equal(
              std::string(error.what()),
              std::string("Accuracy: scores are [3, 2] and classes [2]; they must be [examples, classes] "
                          "and [examples]"),
              "error");
          return;
        }
        throw std::runtime_error("shapes that do not fit were taken");
      },
      2);
}

}  // namespace
}  // namespace muster
