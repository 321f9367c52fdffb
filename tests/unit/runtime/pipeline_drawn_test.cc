// Random pipelines: a seed draws ranks, replicas, schedule and microbatches, and layers that return views,
// the same tensor twice or several tensors, with a weight shared by both ends. Their gradients equal those of
// the undivided model. SEED=S draws others.
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <muster/muster.h>
#include <random>
#include <torch/torch.h>

#include "common/pipeline/make_schedule.h"
#include "tests/require.h"
#include "tests/unit/runtime/pipeline_ranks.h"

namespace muster {
namespace {

constexpr int kRanks = 4;
constexpr int kDrawn = 40;

enum class Gives { kOne, kChunks, kTwice, kTransposed, kExpanded, kInput, kCount };
constexpr const char* kNames[] = {"one", "chunks", "twice", "transposed", "expanded", "input"};

struct Drawn {
  int replicas = 1;
  std::string schedule;
  int chunks = 1;
  int n_microbatches = 1;
  bool recompute = false;
  bool shared = false;  // the first and the last layer share a weight
  std::vector<Gives> layers;

  int stages() const { return kRanks / replicas * chunks; }
  std::string text() const {
    std::string of_layers;
    for (const Gives each : layers) of_layers += fmt::format(" {}", kNames[static_cast<int>(each)]);
    return fmt::format("{} replicas, {} of {} stages, {} microbatches{}{}:{}", replicas, schedule, stages(),
                       n_microbatches, recompute ? ", recomputed" : "", shared ? ", a shared weight" : "",
                       of_layers);
  }
};

Drawn draw(std::mt19937_64& random) {
  const auto one_of = [&random](const auto& choices) { return choices[random() % std::size(choices)]; };
  for (;;) {
    Drawn drawn;
    drawn.replicas = one_of(std::array{1, 1, 2, 4});
    drawn.schedule = one_of(schedule_names());
    drawn.chunks = one_of(std::array{1, 2});
    drawn.n_microbatches = one_of(std::array{1, 2, 3, 4, 8});
    drawn.recompute = random() % 3 == 0;
    drawn.shared = random() % 2 == 0;
    const int layers = drawn.stages() + static_cast<int>(random() % 3);
    for (int i = 0; i < layers; ++i)
      drawn.layers.push_back(static_cast<Gives>(random() % static_cast<std::uint64_t>(Gives::kCount)));
    const bool is_one = make_schedule(drawn.schedule, {.ranks = kRanks / drawn.replicas,
                                                       .microbatches = drawn.n_microbatches,
                                                       .chunks = drawn.chunks})
                            .has_value();
    if (is_one) return drawn;
  }
}

// Layers `first` to `last` of the drawn model.
struct DrawnPartImpl : torch::nn::Module {
  DrawnPartImpl(const Drawn& of, int first_layer, int last_layer)
      : drawn(of), first(first_layer), last(last_layer) {
    const int count = static_cast<int>(drawn.layers.size());
    for (int i = first; i < last; ++i) {
      torch::manual_seed(100 + static_cast<std::uint64_t>(i));
      layers.push_back(register_module(fmt::format("layer{}", i), torch::nn::Linear(kWidth, 2 * kWidth)));
    }
    torch::manual_seed(99);
    if (drawn.shared && (first == 0 || last == count))
      shared = register_parameter("shared", torch::randn({kWidth, kWidth}) / kWidth);
    to(at::kDouble);
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> values = inputs;
    for (int i = first; i < last; ++i) values = give(i, values);
    return values;
  }
  std::vector<at::Tensor> give(int layer, const std::vector<at::Tensor>& values) {
    at::Tensor x = values.front().reshape({values.front().size(0), kWidth});
    if (values.size() == 2) x = x + values.back().reshape({x.size(0), kWidth});
    const int count = static_cast<int>(drawn.layers.size());
    if (shared.defined() && (layer == 0 || layer == count - 1)) x = x.mm(shared);
    const at::Tensor wide = torch::tanh(layers[static_cast<std::size_t>(layer - first)](x));
    const at::Tensor y = wide.narrow(1, 0, kWidth);
    if (layer == count - 1) return {y};
    switch (drawn.layers[static_cast<std::size_t>(layer)]) {
      case Gives::kChunks: return wide.chunk(2, -1);
      case Gives::kTwice: return {y, y};
      case Gives::kTransposed: return {torch::relu(y).view({-1, 2, kWidth / 2}).transpose(1, 2)};
      case Gives::kExpanded: return {y.mean(-1, true).expand({-1, kWidth}), y * x};
      case Gives::kInput: return {x, y};
      default: return {y};
    }
  }

  Drawn drawn;
  int first, last;
  std::vector<torch::nn::Linear> layers;
  at::Tensor shared;
};

at::Tensor mean_square_of(const at::Tensor& output, const at::Tensor& target) {
  return torch::nn::functional::mse_loss(output, target);
}

// Makes two steps whose gradients add up. All ranks have the same batches; each replica takes its share.
void compare(Job& job, const Drawn& drawn) {
  const DeviceMesh mesh = init_device_mesh(job, {drawn.replicas, kRanks / drawn.replicas}, {"dp", "pp"});
  const Group group = mesh.get_group("pp");
  const auto ranks = ranks_of_stages(
      make_schedule(drawn.schedule,
                    {.ranks = group.size(), .microbatches = drawn.n_microbatches, .chunks = drawn.chunks})
          .value());
  const int count = static_cast<int>(drawn.layers.size());
  std::vector<PipelineStage> stages;
  for (int stage = 0; stage < drawn.stages(); ++stage) {
    if (ranks[static_cast<std::size_t>(stage)] != group.rank()) continue;
    const auto [first, last] = layers_of(stage, drawn.stages(), count);
    stages.emplace_back(std::make_shared<DrawnPartImpl>(drawn, first, last), stage, drawn.stages(), group);
  }
  PipelineOptions options{.recompute = drawn.recompute, .replicas = mesh.get_group("dp")};
  if (drawn.shared && drawn.stages() > 1) options.tied_weights = {"shared"};
  PipelineSchedule schedule(drawn.schedule, stages, drawn.n_microbatches, mean_square_of, options);
  DrawnPartImpl whole(drawn, 0, count);
  const std::int64_t share = 2 * drawn.n_microbatches;
  for (int step = 0; step < 2; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(step));
    const at::Tensor input = at::randn({share * drawn.replicas, kWidth}, at::kDouble);
    const at::Tensor target = at::randn({share * drawn.replicas, kWidth}, at::kDouble);
    mean_square_of(whole.forward({input}).front(), target).backward();
    const std::int64_t begin = mesh.get_local_rank("dp") * share;
    schedule.step({.inputs = {input.narrow(0, begin, share)}, .target = target.narrow(0, begin, share)});
  }
  for (const PipelineStage& stage : stages) {
    for (const auto& each : stage.module()->named_parameters()) {
      const at::Tensor &given = each.value().grad(), right = whole.named_parameters()[each.key()].grad();
      require(given.defined(), each.key() + " has a gradient");
      const double difference = (given - right).abs().max().item<double>();
      require(difference <= 1e-12, fmt::format("the gradient of {} differs by {}", each.key(), difference));
    }
  }
}

TEST(Pipeline, RandomPipelinesHaveTheGradientsOfTheUndividedModel) {
  const char* const chosen = std::getenv("SEED");
  const std::uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
  spawn_ranks(kRanks, [seed](Job& job) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < kDrawn; ++i) {
      const Drawn drawn = draw(random);
      try {
        compare(job, drawn);
      } catch (const std::exception& error) {
        throw std::runtime_error(
            fmt::format("SEED={}, pipeline {}: {}: {}", seed, i, drawn.text(), error.what()));
      }
    }
  });
}

}  // namespace
}  // namespace muster
