#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <muster/comm/spawn.h>
#include <muster/train/classification_metrics.h>
#include <muster/train/metrics.h>
#include <sstream>
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

TEST(MeanMetric, WeightsAllValuesOfAllRanks) {
  spawn(
      [](Job& job) {
        MeanMetric mean(job);
        {
          const Warnings warnings;
          require(std::isnan(mean.compute()), "mean of nothing");
          require_equal(warnings.lines().size(), std::size_t{job.rank() == 0 ? 1U : 0U}, "only rank 0 warns");
          require(job.rank() != 0 || warnings.lines()[0].contains("no rank has given update() a value"),
                  "the warning's text");
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

TEST(Accuracy, IsTheShareOfCorrectPredictions) {
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
          require_equal(std::string(error.what()),
                        std::string("Accuracy: scores are [3, 2] and classes [2]; "
                                    "they must be [examples, classes] and [examples]"),
                        "error");
          return;
        }
        throw std::runtime_error("shapes that do not fit were accepted");
      },
      2);
}

// torchmetrics' results for the examples below, from metrics_golden.py.
std::map<std::string, std::vector<double>> golden() {
  std::map<std::string, std::vector<double>> values;
  std::ifstream file(MUSTER_METRICS_GOLDEN);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) values[name].push_back(value);
  }
  return values;
}

constexpr std::int64_t kExamples = 203;
constexpr std::int64_t kClasses = 6;

at::Tensor example_scores() {
  const at::Tensor i = torch::arange(kExamples).unsqueeze(1), k = torch::arange(kClasses).unsqueeze(0);
  at::Tensor scores = ((i * 37 + k * 101 + i * k * 13) % 97 + 1).to(torch::kDouble) / 98;
  scores.select(1, kClasses - 1).fill_(0);
  return scores;
}
at::Tensor example_targets() {
  const at::Tensor i = torch::arange(kExamples);
  return (i * i + 3 * i) % 11 % 4;
}

// This rank's examples in batches of 20, with a mask that leaves out repeated ones. All ranks have equally
// many examples.
template <class Use>
void each_batch(const Job& job, const Use& use) {
  const std::int64_t per_rank = (kExamples + job.world_size() - 1) / job.world_size();
  const at::Tensor all = job.rank() + torch::arange(per_rank) * job.world_size();
  const at::Tensor mask = all < kExamples;
  for (std::int64_t begin = 0; begin < per_rank; begin += 20)
    use((all % kExamples).slice(0, begin, begin + 20), mask.slice(0, begin, begin + 20));
}

void expect(const std::map<std::string, std::vector<double>>& golden, const std::string& name,
            const at::Tensor& values) {
  const std::vector<double>& held = golden.at(name);
  const at::Tensor flat = values.to(torch::kDouble).flatten().contiguous();
  require_equal(flat.numel(), std::ssize(held), name + ": numbers");
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double difference = std::abs(flat[i].item<double>() - held[static_cast<std::size_t>(i)]);
    require(difference <= 1e-6 * std::max(1.0, std::abs(held[static_cast<std::size_t>(i)])),
            fmt::format("{}: number {} is {}, torchmetrics says {}", name, i, flat[i].item<double>(),
                        held[static_cast<std::size_t>(i)]));
  }
}

const std::map<std::string, Average> kAverages{{"micro", Average::kMicro},
                                               {"macro", Average::kMacro},
                                               {"weighted", Average::kWeighted},
                                               {"none", Average::kNone},
                                               {"binary", Average::kBinary}};

template <class Metric>
void expect_scores(Job& job, const std::map<std::string, std::vector<double>>& golden,
                   const std::string& name) {
  const at::Tensor scores = example_scores(), targets = example_targets();
  for (const auto& [average_name, average] : kAverages) {
    if (!golden.contains(name + "." + average_name)) continue;  // AUROC has no kMicro
    const bool binary = average == Average::kBinary;
    Metric metric(job, {.num_classes = binary ? 2 : kClasses, .average = average});
    each_batch(job, [&](const at::Tensor& examples, const at::Tensor& mask) {
      const at::Tensor of_batch = scores.index_select(0, examples),
                       classes = targets.index_select(0, examples);
      metric.update(binary ? of_batch.select(1, 0) : of_batch, binary ? classes % 2 : classes, mask);
    });
    const Warnings warnings;
    expect(golden, name + "." + average_name, metric.compute());
    const bool warns = name == "auroc" && !binary && job.rank() == 0;
    require_equal(warnings.lines().size(), std::size_t{warns ? 1U : 0U}, name + ": warnings");
    if (warns)
      require_equal(
          warnings.lines()[0].contains("AUROC: class 4 has 0 of 203 examples; its area counts as 0"), true,
          warnings.lines()[0]);
  }
}

TEST(Metrics, EqualTorchmetricsOverAnyNumberOfRanks) {
  const auto golden = muster::golden();
  ASSERT_EQ(golden.size(), 29U);
  for (const int ranks : {1, 3}) {
    spawn(
        [&](Job& job) {
          expect_scores<Precision>(job, golden, "precision");
          expect_scores<Recall>(job, golden, "recall");
          expect_scores<F1Score>(job, golden, "f1_score");
          expect_scores<AUROC>(job, golden, "auroc");
          const at::Tensor scores = example_scores(), targets = example_targets();
          const at::Tensor i = torch::arange(kExamples);
          const at::Tensor tokens = torch::where(i % 7 == 0, -100, i % 5);
          ConfusionMatrix confusion(job, kClasses);
          std::vector<Accuracy> top{Accuracy(job), Accuracy(job, 2), Accuracy(job, 3)};
          MeanSquaredError mse(job);
          Perplexity perplexity(job);
          Quantile quantile(job);
          each_batch(job, [&](const at::Tensor& examples, const at::Tensor& mask) {
            const at::Tensor of_batch = scores.index_select(0, examples);
            confusion.update(of_batch, targets.index_select(0, examples), mask);
            for (Accuracy& each : top) each.update(of_batch, targets.index_select(0, examples), mask);
            mse.update(of_batch.select(1, 0), of_batch.select(1, 1), mask);
            const at::Tensor here = tokens.index_select(0, examples);
            perplexity.update(of_batch * 9, here, mask.logical_and(here != -100));
            quantile.update(of_batch.select(1, 0), mask);
          });
          require(confusion.compute().scalar_type() == torch::kLong, "type of a confusion matrix");
          expect(golden, "confusion", confusion.compute());
          for (std::size_t k = 0; k < 3; ++k)
            expect(golden, fmt::format("top.{}", k + 1), torch::tensor(top[k].compute(), torch::kDouble));
          expect(golden, "mse", torch::tensor(mse.compute(), torch::kDouble));
          expect(golden, "perplexity", torch::tensor(perplexity.compute(), torch::kDouble));
          expect(golden, "quantile",
                 torch::tensor(quantile.compute({0, 0.01, 0.25, 0.5, 0.9, 0.999, 1}), torch::kDouble));
        },
        ranks);
  }
}

TEST(RunningMean, AveragesTheLastUpdatesOfAllRanks) {
  spawn(
      [](Job& job) {
        RunningMean of_all(job, 2);
        for (const double value : {100.0, 1.0, 3.0}) of_all.update(value + job.rank() * 4);
        require_equal(of_all.compute(), 4.0, "mean of 1, 3, 5, 7");
      },
      2);
  spawn(
      [](Job& job) {
        const auto golden = muster::golden();
        RunningMean mean(job, 5);
        for (std::int64_t step = 0; step < 20; ++step) {
          mean.update(example_scores()[step].slice(0, 0, 1 + step % 3));
          if (step % 6 == 2)
            expect(golden, fmt::format("running.{}", step), torch::tensor(mean.compute(), torch::kDouble));
        }
      },
      1);
}

TEST(Metrics, AMaskOfExamplesCoversAllTheirTokens) {
  spawn(
      [](Job& job) {
        Perplexity perplexity(job);
        const at::Tensor logits = torch::zeros({2, 3, 4});
        logits[1].fill_(std::nan(""));
        perplexity.update(logits, torch::tensor({{0, 1, 2}, {9, 9, 9}}), torch::tensor({true, false}));
        require_equal(std::abs(perplexity.compute() - 4) < 1e-12, true, "perplexity of even odds");
      },
      1);
}

TEST(Metrics, RefuseInputsThatDoNotFit) {
  spawn(
      [](Job& job) {
        const auto refusal = [](const auto& use) {
          try {
            use();
          } catch (const std::invalid_argument& error) {
            return std::string(error.what());
          }
          return std::string("none");
        };
        F1Score f1(job, {.num_classes = 3});
        const at::Tensor scores = torch::zeros({4, 3});
        require_equal(refusal([&] { f1.update(scores, torch::tensor({0, 1, 2, 3})); }),
                      std::string("the targets: an example has class 3; classes are 0 to 2"), "class");
        require_equal(
            refusal([&] { f1.update(torch::zeros({4}), torch::tensor({0, 1, 2, 1})); }),
            std::string(
                "predictions are [4] of Float; they must be classes [examples] or scores [examples, 3]"),
            "predictions");
        require_equal(
            refusal([&] { f1.update(scores, torch::tensor({0, 1, 2, 1}), torch::ones({4})); }),
            std::string("a confusion matrix: the mask is [4] of Float; it must be bools of shape [4]"),
            "mask");
        require_equal(refusal([&] { F1Score(job, {.num_classes = 3, .average = Average::kBinary}); }),
                      std::string("F1Score: kBinary is for 2 classes, not 3"), "options");
        require_equal(refusal([&] { Quantile(job).compute({1.5}); }),
                      std::string("Quantile: 1.5 is not between 0 and 1"), "quantile");
        require_equal(
            refusal([&] { Accuracy(job).update(scores, torch::tensor({0, 1, 2, 1}), torch::ones({4})); }),
            std::string("Accuracy: the mask is [4] of Float; it must be bools of shape [4]"),
            "mask of Accuracy");
        require_equal(
            refusal([&] { MeanSquaredError(job).update(scores, scores, torch::ones({4})); }),
            std::string("MeanSquaredError: the mask is [4] of Float; it must be bools of shape [4, 3], "
                        "or one for each example, [4]"),
            "mask of MeanSquaredError");
        require_equal(refusal([&] { Accuracy(job).update(scores, torch::tensor({0, 1, -100, 1})); }),
                      std::string("Accuracy: an example has class -100; classes are 0 to 2"),
                      "class of Accuracy");
        Accuracy masked(job);
        masked.update(scores, torch::tensor({0, -100, 0, 7}), torch::tensor({true, false, true, false}));
        require_equal(masked.compute(), 1.0, "Accuracy without masked examples");
        require_equal(refusal([&] { Accuracy(job, 4).update(scores, torch::tensor({0, 1, 2, 1})); }),
                      std::string("Accuracy: top_k is 4; it must be between 1 and 3, the number of classes"),
                      "top_k");
        // Masked targets may be anything.
        f1.update(scores, torch::tensor({0, -100, 0, 7}), torch::tensor({true, false, true, false}));
        require_equal(f1.compute().item<double>(), 1.0, "masked");
      },
      1);
}

}  // namespace
}  // namespace muster
