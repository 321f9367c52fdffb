// Compares pipelines of a model with dropout, running statistics and a tied weight with one process that has
// the model in one stage.
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>
#include <muster/muster.h>
#include <torch/torch.h>

#include "common/base/file.h"
#include "common/pipeline/make_schedule.h"
#include "runtime/model/allocated_bytes.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/unit/runtime/pipeline_ranks.h"

namespace muster {
namespace {

// A model with all that may differ in a pipeline: dropout, running statistics, a weight used at both ends.
struct NetOptions {
  bool dropout = true;
  bool norm = true;
  bool tied = true;
};

constexpr std::int64_t kTokens = 11;

struct EndImpl : torch::nn::Module {
  explicit EndImpl(torch::nn::Embedding shared) : tokens(register_module("tokens", std::move(shared))) {}
  at::Tensor forward(const at::Tensor& x) { return torch::matmul(x, tokens->weight.t()); }
  torch::nn::Embedding tokens;
};

struct StartImpl : torch::nn::Module {
  explicit StartImpl(torch::nn::Embedding shared) : tokens(register_module("tokens", std::move(shared))) {}
  at::Tensor forward(const at::Tensor& x) { return tokens(x); }
  torch::nn::Embedding tokens;
};

torch::nn::Embedding make_tokens() {
  torch::nn::Embedding tokens(kTokens, kWidth);
  tokens->to(at::kDouble);
  return tokens;
}

struct MiddleImpl : torch::nn::Module {
  explicit MiddleImpl(const NetOptions& options) {
    linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    if (options.norm) norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    if (options.dropout) dropout = register_module("dropout", torch::nn::Dropout(0.3));
    to(at::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::tanh(linear(x));
    if (norm) x = norm(x);
    return dropout ? dropout(x) : x;
  }
  torch::nn::Linear linear = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Dropout dropout = nullptr;
};

PipelineLayers net_layers(const NetOptions& options) {
  PipelineLayers layers(7);
  layers.add("", [](SharedModules& shared) {
    return std::make_shared<StartImpl>(shared.get<torch::nn::Embedding>("tokens", make_tokens));
  });
  for (int i = 0; i < 10; ++i)
    layers.add(fmt::format("middle.{}", i), [options] { return std::make_shared<MiddleImpl>(options); });
  layers.add("", [](SharedModules& shared) {
    return std::make_shared<EndImpl>(shared.get<torch::nn::Embedding>("tokens", make_tokens));
  });
  return layers;
}

struct TokenBatch {
  TokenBatch(int step, std::int64_t size) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
    input = at::randint(kTokens, {size}, generator, at::dtype(at::kLong));
    target = at::randint(kTokens, {size}, generator, at::dtype(at::kLong));
  }
  at::Tensor input, target;
};

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

std::vector<PipelineStage> net_stages(const PipelineLayers& layers, const std::string& name,
                                      const Group& group, int chunks) {
  const int num_stages = group.size() * chunks;
  const auto ranks = ranks_of_stages(
      make_schedule(name, {.ranks = group.size(), .microbatches = 2 * num_stages, .chunks = chunks}).value());
  std::vector<int> first_layers;
  for (int stage = 0; stage < num_stages; ++stage)
    first_layers.push_back(layers_of(stage, num_stages, layers.size()).first);
  std::vector<PipelineStage> stages;
  for (int stage = 0; stage < num_stages; ++stage) {
    if (ranks[static_cast<std::size_t>(stage)] == group.rank())
      stages.push_back(layers.stage(first_layers, stage, group));
  }
  return stages;
}

// Parameters and buffers after some steps, by name.
using Values = std::map<std::string, at::Tensor>;

struct Training {
  PipelineOptions options{};
  int n_microbatches = 4;
  std::int64_t batch_size = 16;
  int steps = 5;
  int accumulate = 1;
  bool always_in_sync = false;
  double clip = 0;
  // The replica's number: its share of the batch begins `share` shares after the start.
  int share = 0;
  int shares = 1;
};

struct Trained {
  Values values;
  std::vector<double> losses;
  std::vector<double> norms;
};

Trained train_net(const NetOptions& net, const std::string& name, const Group& group, int chunks,
                  const Training& training) {
  const PipelineLayers layers = net_layers(net);
  PipelineSchedule schedule(name, net_stages(layers, name, group, chunks), training.n_microbatches,
                            cross_entropy, training.options);
  torch::optim::SGD optimizer(schedule.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  Trained trained;
  for (int step = 0; step < training.steps; ++step) {
    for (int part = 0; part < training.accumulate; ++part) {
      const TokenBatch batch(step * training.accumulate + part, training.batch_size);
      const std::int64_t size = training.batch_size / training.shares;
      schedule.set_requires_gradient_sync(training.always_in_sync || part + 1 == training.accumulate);
      schedule.step({.inputs = {batch.input.narrow(0, training.share * size, size)},
                     .target = batch.target.narrow(0, training.share * size, size)});
    }
    trained.losses.push_back(schedule.loss());
    if (training.clip > 0) trained.norms.push_back(schedule.clip_grad_norm_(training.clip).item<double>());
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const PipelineStage& stage : schedule.stages()) {
    for (const auto& each : stage.module()->named_parameters()) trained.values[each.key()] = each.value();
    for (const auto& each : stage.module()->named_buffers()) trained.values[each.key()] = each.value();
  }
  return trained;
}

void require_same(const Trained& one, const Trained& other, double tolerance, const std::string& what) {
  require_equal(one.losses.size(), other.losses.size(), what + ": steps");
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    require(std::abs(one.losses[i] - other.losses[i]) <= tolerance,
            fmt::format("{}: loss of step {} is {} and {}", what, i, one.losses[i], other.losses[i]));
  for (const auto& [name, value] : one.values) {
    const auto found = other.values.find(name);
    require(found != other.values.end(), fmt::format("{}: '{}' is there", what, name));
    const double difference =
        (value.to(at::kDouble) - found->second.to(at::kDouble)).abs().max().item<double>();
    require(difference <= tolerance, fmt::format("{}: '{}' differs by {}", what, name, difference));
  }
}

// This rank trains the model by itself, in one stage.
Trained train_alone(Job& job, const NetOptions& net, const Training& training) {
  std::optional<Group> alone;
  for (int rank = 0; rank < job.world_size(); ++rank) {
    const Group group = job.new_group({rank});
    if (rank == job.rank()) alone = group;
  }
  return train_net(net, "GPipe", *alone, 1, training);
}

TEST(Pipeline, HasTheRandomNumbersStatisticsAndTiedWeightsOfOneProcess) {
  for (const int ranks : {2, 3}) {
    spawn_ranks(ranks, [](Job& job) {
      const NetOptions net;
      for (const bool recompute : {false, true}) {
        const Training training{
            .options = {.recompute = recompute, .seed = 3}, .n_microbatches = 6, .batch_size = 24};
        const Trained alone = train_alone(job, net, training);
        for (const auto& [name, chunks] :
             {std::pair("GPipe", 1), std::pair("1F1B", 1), std::pair("Interleaved1F1B", 2),
              std::pair("ZBH1", 1), std::pair("ZBVZeroBubble", 2), std::pair("DualPipeV", 2)})
          require_same(train_net(net, name, job, chunks, training), alone, 1e-12,
                       fmt::format("{}, recompute {}", name, recompute));
      }
    });
  }
}

TEST(Pipeline, ReplicasShareABatch) {
  spawn_ranks(4, [](Job& job) {
    const auto mesh = init_device_mesh(job, {2, 2}, {"dp", "pp"});
    // Without batch norm: statistics of a batch's parts differ from those of the batch.
    const NetOptions net{.dropout = false, .norm = false};
    const Trained alone = train_alone(job, net, {.n_microbatches = 8, .clip = 0.5});
    for (const char* name : {"GPipe", "1F1B", "ZBH1"}) {
      const Trained shared = train_net(net, name, mesh.get_group("pp"), 1,
                                       {.options = {.replicas = mesh.get_group("dp")},
                                        .n_microbatches = 4,
                                        .clip = 0.5,
                                        .share = mesh.get_local_rank("dp"),
                                        .shares = 2});
      require_same(shared, alone, 1e-12, name);
    }
  });
}

TEST(Pipeline, GradientsAccumulateOverSteps) {
  for (const bool always_in_sync : {false, true}) {
    spawn_ranks(2, [&](Job& job) {
      const NetOptions net{.dropout = false, .norm = false};
      const Training training{.accumulate = 3, .always_in_sync = always_in_sync};
      const Trained alone = train_alone(job, net, training);
      for (const auto& [name, chunks] : {std::pair("1F1B", 1), std::pair("ZBVZeroBubble", 2)})
        require_same(train_net(net, name, job, chunks, training), alone, 1e-12, "three batches a step");
    });
  }
}

TEST(Pipeline, ClipsByTheNormOfTheWholeModel) {
  spawn_ranks(2, [](Job& job) {
    const NetOptions net{.dropout = false};
    const Training training{.clip = 0.05};
    const Trained alone = train_alone(job, net, training);
    for (const auto& [name, chunks] : {std::pair("1F1B", 1), std::pair("ZBVZeroBubble", 2)}) {
      const Trained cut = train_net(net, name, job, chunks, training);
      require_same(cut, alone, 1e-12, name);
      for (std::size_t i = 0; i < alone.norms.size(); ++i)
        require(std::abs(cut.norms[i] / alone.norms[i] - 1) <= 1e-12, "the norm before clipping");
    }
    require(alone.norms[0] > 0.05, "there was something to clip");
  });
}

// Layers of float32 whose norms differ by orders of magnitude: sums of these depend on their order.
PipelineLayers float_layers() {
  PipelineLayers layers(7);
  for (int i = 0; i < 12; ++i) {
    layers.add(fmt::format("blocks.{}", i), [i] {
      torch::nn::Sequential block(torch::nn::Linear(16, 16), torch::nn::Tanh(), torch::nn::Dropout(0.1));
      const torch::NoGradGuard no_grad;
      for (const at::Tensor& each : block->parameters()) each.mul_(i % 3 == 0 ? 3.0 : 0.7);
      return block;
    });
  }
  return layers;
}

Trained train_floats(const std::vector<int>& first_layers, const Group& group, double norm_type) {
  const PipelineLayers layers = float_layers();
  Schedule1F1B schedule(
      {layers.stage(first_layers, group.rank(), group)}, 4,
      [](const at::Tensor& output, const at::Tensor& target) { return at::mse_loss(output, target); });
  torch::optim::SGD optimizer(schedule.parameters(), torch::optim::SGDOptions(1.0).momentum(0.9));
  Trained trained;
  for (int step = 0; step < 12; ++step) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
    const at::Tensor batch = at::randn({32, 16}, generator);
    schedule.step({.inputs = {batch}, .target = batch});
    trained.losses.push_back(schedule.loss());
    trained.norms.push_back(schedule.clip_grad_norm_(0.05, norm_type).item<double>());
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& each : schedule.stages()[0].module()->named_parameters())
    trained.values[each.key()] = each.value();
  return trained;
}

// Training amplifies a last bit that differs.
TEST(Pipeline, ClipsToTheSameBitsWhereverItIsCut) {
  spawn_ranks(2, [](Job& job) {
    const Group alone[] = {job.new_group({0}), job.new_group({1})};
    for (const double norm_type : {2.0, 3.0}) {
      const Trained whole = train_floats({0}, alone[job.rank()], norm_type);
      for (const int second : {1, 4, 6, 11}) {
        const Trained cut = train_floats({0, second}, job, norm_type);
        for (std::size_t i = 0; i < whole.norms.size(); ++i)
          require(cut.norms[i] == whole.norms[i],
                  fmt::format("norm of step {}, cut at {}: {:.17g} and {:.17g}", i, second, cut.norms[i],
                              whole.norms[i]));
        require_same(cut, whole, /*tolerance=*/0, fmt::format("cut at {}", second));
      }
      require(whole.norms[0] > 0.05 && whole.norms[11] > 0.05, "there was something to clip");
    }
  });
}

TEST(Pipeline, EvaluatesBatchesOfAnySize) {
  spawn_ranks(2, [](Job& job) {
    const NetOptions net;
    const PipelineLayers layers = net_layers(net);
    const auto whole = layers.build(0, layers.size());
    PipelineSchedule schedule("ZBVZeroBubble", net_stages(layers, "ZBVZeroBubble", job, 2), 4, cross_entropy);
    const auto set_training = [&](bool on) {
      for (const PipelineStage& stage : schedule.stages()) stage.module()->train(on);
    };
    whole->eval();
    set_training(false);
    for (const int size : {16, 4, 8}) {
      const TokenBatch batch(size, size);
      const auto outputs = schedule.eval({.inputs = {batch.input}, .target = batch.target});
      const at::Tensor right = whole->forward({batch.input}).front();
      const double loss = cross_entropy(right, batch.target).item<double>();
      require(std::abs(schedule.loss() - loss) <= 1e-12, "all ranks know the loss");
      require_equal(outputs.size(), schedule.stages().back().is_last() ? 1UL : 0UL, "outputs");
      if (!outputs.empty())
        require((outputs[0] - right).abs().max().item<double>() <= 1e-12, "the undivided model's outputs");
    }
    set_training(true);
    const TokenBatch batch(0, 16);
    schedule.step({.inputs = {batch.input}, .target = batch.target});
    const double loss = schedule.loss();
    const PipelineProfile profile = schedule.profile();
    require(schedule.eval({.inputs = {batch.input}}).size() <= 1, "no target, no loss");
    require_equal(schedule.loss(), loss, "evaluation does not change the loss");
    require(std::abs(schedule.profile().simulated_ms / profile.simulated_ms - 1) <= 1e-6,
            "evaluation does not change the profile");
  });
}

TEST(Pipeline, ReportsWhereTheTimeOfAStepWent) {
  spawn_ranks(2, [](Job& job) {
    const PipelineLayers layers = net_layers({});
    PipelineSchedule schedule("1F1B", net_stages(layers, "1F1B", job, 1), 4, cross_entropy);
    const TokenBatch batch(0, 64);
    for (int step = 0; step < 3; ++step) schedule.step({.inputs = {batch.input}, .target = batch.target});
    const PipelineProfile profile = schedule.profile();
    const double sum = profile.compute_ms + profile.bubble_ms + profile.imbalance_ms + profile.link_ms;
    require(profile.step_ms > 0 && std::abs(sum - profile.step_ms) <= 1e-6 * profile.step_ms,
            "the parts are the step");
    require(profile.compute_ms > 0 && profile.bubble_ms > 0, "ranks compute, and wait");
    require_equal(profile.stages.size(), 2UL, "stages");
    for (const auto& stage : profile.stages)
      require(stage.forward_ms > 0 && stage.input_ms > 0 && stage.weight_ms > 0, "each takes its time");
    for (const std::string& picture : {profile.measured, profile.simulated}) {
      require_equal(std::ranges::count(picture, '\n'), 2L, "rows of the picture");
      require(picture.starts_with("rank 0  ") && picture.contains("\nrank 1  "), "a row for each");
    }
    require(profile.text().contains("% bubble"), "it says so in words");
  });
}

}  // namespace
}  // namespace muster
