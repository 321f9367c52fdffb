// Compares pipelines of spawned ranks with the undivided model, which each rank trains by itself on the same
// microbatches.
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

namespace F = torch::nn::functional;

constexpr int kLayers = 12;
constexpr int kSteps = 5;

// Some of a model's layers, with the names that they have in the whole model.
struct PartImpl : torch::nn::Module {
  PartImpl(int first, int last, at::ScalarType type) {
    for (int layer = first; layer < last; ++layer) {
      torch::manual_seed(100 + static_cast<std::uint64_t>(layer));
      layers.push_back(register_module(fmt::format("layer{}", layer), torch::nn::Linear(kWidth, kWidth)));
    }
    to(type);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Part);

at::Tensor mean_square(const at::Tensor& output, const at::Tensor& target) {
  return F::mse_loss(output, target);
}

struct Batch {
  Batch(int step, std::int64_t size, at::ScalarType type) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
    input = at::randn({size, kWidth}, generator, at::dtype(type));
    target = at::randn({size, kWidth}, generator, at::dtype(type));
  }
  at::Tensor input, target;
};

std::vector<PipelineStage> stages_of(const std::string& name, const Group& group, int chunks, int layers,
                                     at::ScalarType type) {
  const int num_stages = group.size() * chunks;
  const auto schedule =
      make_schedule(name, {.ranks = group.size(), .microbatches = 2 * num_stages, .chunks = chunks}).value();
  const auto ranks = ranks_of_stages(schedule);
  std::vector<PipelineStage> stages;
  for (int stage = 0; stage < num_stages; ++stage) {
    if (ranks[static_cast<std::size_t>(stage)] != group.rank()) continue;
    const auto [first, last] = layers_of(stage, num_stages, layers);
    stages.emplace_back(Part(first, last, type), stage, num_stages, group);
  }
  return stages;
}

// Trains the undivided model. Returns its loss in each step.
std::vector<double> train_undivided(Part& model, int n_microbatches, std::int64_t batch_size,
                                    at::ScalarType type) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch(step, batch_size, type);
    double loss = 0;
    for (int i = 0; i < n_microbatches; ++i) {
      const std::int64_t size = batch_size / n_microbatches;
      const auto part =
          mean_square(model(batch.input.narrow(0, i * size, size)), batch.target.narrow(0, i * size, size));
      (part / n_microbatches).backward();
      loss += part.item<double>() / n_microbatches;
    }
    losses.push_back(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  return losses;
}

// Requires that each of the rank's parameters equals the undivided model's.
void require_equal_parameters(const std::vector<PipelineStage>& stages, const Part& undivided,
                              double tolerance, const std::string& what) {
  const auto whole = undivided->named_parameters();
  for (const PipelineStage& stage : stages) {
    for (const auto& each : stage.module()->named_parameters()) {
      const double difference = (each.value() - whole[each.key()]).abs().max().item<double>();
      require(difference <= tolerance, fmt::format("{}: '{}' differs by {}", what, each.key(), difference));
    }
  }
}

struct Case {
  std::string name;
  int chunks;
  int n_microbatches;
};

std::vector<Case> cases_for(int ranks) {
  std::vector<Case> cases;
  for (const std::string_view name : schedule_names()) {
    for (const int chunks : {1, 2, 3}) {
      for (const int n_microbatches : {1, 2, 3, 4, 8, 16}) {
        const auto schedule =
            make_schedule(name, {.ranks = ranks, .microbatches = n_microbatches, .chunks = chunks});
        if (schedule) cases.push_back({std::string(name), chunks, n_microbatches});
      }
    }
  }
  return cases;
}

// The undivided model after its training, for each number of microbatches and type.
class Undivided {
 public:
  struct Trained {
    explicit Trained(Part begun) : model(std::move(begun)) {}
    Part model;
    std::vector<double> losses;
  };
  const Trained& trained(int n_microbatches, at::ScalarType type) {
    const auto [place, is_new] = all_.try_emplace({n_microbatches, type}, Part(0, kLayers, type));
    if (is_new)
      place->second.losses = train_undivided(place->second.model, n_microbatches, 2 * n_microbatches, type);
    return place->second;
  }

 private:
  std::map<std::pair<int, at::ScalarType>, Trained> all_;
};

void train_and_compare(const Job& job, Undivided& undivided, const Case& chosen, at::ScalarType type,
                       double tolerance, PipelineOptions options = {}) {
  const std::string what = fmt::format("{} of {} ranks, {} microbatches, {} chunks", chosen.name,
                                       job.world_size(), chosen.n_microbatches, chosen.chunks);
  const std::int64_t batch_size = 2 * chosen.n_microbatches;
  const auto& trained = undivided.trained(chosen.n_microbatches, type);
  const auto stages = stages_of(chosen.name, job, chosen.chunks, kLayers, type);
  PipelineSchedule schedule(chosen.name, stages, chosen.n_microbatches, mean_square, options);
  torch::optim::SGD optimizer(schedule.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch(step, batch_size, type);
    const auto loss = schedule.step({.inputs = {batch.input}, .target = batch.target});
    require_equal(loss.defined(), stages.back().is_last(), what + ": the last stage has the loss");
    if (loss.defined())
      require(std::abs(loss.item<double>() - trained.losses[static_cast<std::size_t>(step)]) <= tolerance,
              fmt::format("{}: loss of step {}", what, step));
    optimizer.step();
    optimizer.zero_grad();
  }
  require(std::abs(schedule.loss() - trained.losses.back()) <= tolerance, what + ": all ranks know the loss");
  require_equal_parameters(stages, trained.model, tolerance, what);
}

class PipelineSchedules : public testing::TestWithParam<int> {};

TEST_P(PipelineSchedules, TrainAsTheUndividedModel) {
  spawn_ranks(GetParam(), [](Job& job) {
    const auto cases = cases_for(job.world_size());
    require(cases.size() >= 30, "there are cases");
    Undivided undivided;
    for (const Case& each : cases) train_and_compare(job, undivided, each, at::kDouble, 1e-12);
  });
}

TEST_P(PipelineSchedules, TrainAlikeInSinglePrecisionAndWithRecomputation) {
  spawn_ranks(GetParam(), [](Job& job) {
    Undivided undivided;
    for (const Case& each : cases_for(job.world_size())) {
      if (each.n_microbatches != 8) continue;
      train_and_compare(job, undivided, each, at::kFloat, 1e-5);
      train_and_compare(job, undivided, each, at::kDouble, 1e-12, {.recompute = true});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PipelineSchedules, testing::Values(2, 3, 4));

// The most bytes that this rank has allocated during its second step.
double peak_bytes(const std::string& name, const Job& job, int chunks, int n_microbatches) {
  const auto bytes = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
  PipelineSchedule schedule(name, stages_of(name, job, chunks, kLayers, at::kFloat), n_microbatches,
                            mean_square);
  const Batch batch(0, 500 * n_microbatches, at::kFloat);
  schedule.step({.inputs = {batch.input}, .target = batch.target});
  const auto before = bytes->now();
  schedule.step({.inputs = {batch.input}, .target = batch.target});
  return static_cast<double>(bytes->peak() - before);
}

TEST(Pipeline, HoldsAsManyMicrobatchesAsItsScheduleSays) {
  spawn_ranks(2, [](Job& job) {
    for (const auto& [name, chunks] : {std::pair("1F1B", 1), std::pair("Interleaved1F1B", 2),
                                       std::pair("ZBH1", 1), std::pair("ZBVZeroBubble", 2)}) {
      const double few = peak_bytes(name, job, chunks, 8);
      const double many = peak_bytes(name, job, chunks, 64);
      require(many < 1.05 * few, fmt::format("{}: {} bytes, and {} of more microbatches", name, few, many));
    }
    require(peak_bytes("GPipe", job, 1, 64) > 6 * peak_bytes("GPipe", job, 1, 8), "GPipe holds all");
  });
}

// Two outputs. The next stage passes on the one that needs no gradient.
struct MaskedImpl : torch::nn::Module {
  explicit MaskedImpl(std::uint64_t seed) {
    torch::manual_seed(seed);
    linear = register_module(fmt::format("linear{}", seed), torch::nn::Linear(kWidth, kWidth));
    gate = register_module(fmt::format("gate{}", seed), torch::nn::Linear(kWidth, kWidth));
    to(at::kDouble);
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& memory,
                                                         const at::Tensor& mask) {
    const at::Tensor next = torch::tanh(linear(x) + memory).masked_fill(mask, 0);
    return {next, torch::sigmoid(gate(memory)) * next, mask};
  }
  torch::nn::Linear linear = nullptr, gate = nullptr;
};

TEST(Pipeline, StagesPassSeveralTensors) {
  spawn_ranks(3, [](Job& job) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    const at::Tensor x = at::randn({12, kWidth}, generator, at::dtype(at::kDouble));
    const at::Tensor memory = at::randn({12, kWidth}, generator, at::dtype(at::kDouble));
    const at::Tensor mask = x > 0.5;
    const at::Tensor target = at::zeros({12, kWidth}, at::dtype(at::kDouble));
    std::vector<std::shared_ptr<MaskedImpl>> whole;
    for (std::uint64_t stage = 0; stage < 3; ++stage) whole.push_back(std::make_shared<MaskedImpl>(stage));
    std::tuple now{x, memory, mask};
    for (const auto& each : whole) now = each->forward(std::get<0>(now), std::get<1>(now), std::get<2>(now));
    mean_square(std::get<0>(now), target).backward();

    const auto rank = static_cast<std::size_t>(job.rank());
    const PipelineStage stage(std::make_shared<MaskedImpl>(rank), job.rank(), 3, job);
    for (const char* name : {"GPipe", "1F1B", "ZBH1"}) {
      for (const bool recompute : {false, true}) {
        PipelineSchedule schedule(name, {stage}, 4, mean_square, {.recompute = recompute});
        schedule.step({.inputs = {x, memory, mask}, .target = target});
        for (const auto& each : stage.module()->named_parameters()) {
          const at::Tensor right = whole[rank]->named_parameters()[each.key()].grad();
          const at::Tensor& given = each.value().grad();
          require_equal(given.defined(), right.defined(), "no stage uses the last gate");
          if (given.defined())
            require((given - right).abs().max().item<double>() <= 1e-14,
                    fmt::format("{} by {} differs by {}", each.key(), name,
                                (given - right).abs().max().item<double>()));
        }
        stage.module()->zero_grad();
      }
    }
  });
}

TEST(Pipeline, ComputesInMixedPrecisionAsOneProcess) {
  spawn_ranks(2, [](Job& job) {
    const Batch batch(0, 8, at::kFloat);
    const auto autocast = [](bool on) {
      at::autocast::set_autocast_enabled(at::kCPU, on);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::clear_cache();
    };
    Part whole(0, 4, at::kFloat);
    autocast(true);
    for (int i = 0; i < 4; ++i) {
      const auto loss = mean_square(whole(batch.input.narrow(0, 2 * i, 2)).to(at::kFloat),
                                    batch.target.narrow(0, 2 * i, 2));
      (loss / 4).backward();
      at::autocast::clear_cache();
    }
    autocast(false);
    const PipelineStage stage(Part(2 * job.rank(), 2 * job.rank() + 2, at::kFloat), job.rank(), 2, job);
    PipelineSchedule schedule("1F1B", {stage}, 4, [](const at::Tensor& output, const at::Tensor& target) {
      require(output.scalar_type() == at::kBFloat16, "layers compute in bfloat16");
      return mean_square(output.to(at::kFloat), target);
    });
    autocast(true);
    schedule.step({.inputs = {batch.input}, .target = batch.target});
    autocast(false);
    for (const auto& each : stage.module()->named_parameters()) {
      const at::Tensor right = whole->named_parameters()[each.key()].grad();
      const double scale = right.abs().max().item<double>();
      require((each.value().grad() - right).abs().max().item<double>() <= 0.01 * scale, each.key());
    }
  });
}

// Multiplies by its weight without a transpose. torch::nn::Linear transposes first, and autocast caches
// copies of parameters only, not of tensors computed from them.
struct ProductImpl : torch::nn::Module {
  explicit ProductImpl(int layer) {
    torch::manual_seed(static_cast<std::uint64_t>(layer));
    weight = register_parameter(fmt::format("weight{}", layer), torch::randn({kWidth, kWidth}));
  }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(torch::mm(x, weight)); }
  at::Tensor weight;
};
TORCH_MODULE(Product);

// With recomputation, a stage's first forward pass has no graph. If autocast cached a copy of a weight from
// it, the copy would have no graph either, and the weight would get no gradient from the second forward pass.
// (In the very first step, the schedule finds the outputs' shapes with a graph.)
TEST(Pipeline, ComputesAgainInMixedPrecision) {
  spawn_ranks(2, [](Job& job) {
    const Batch batch(0, 8, at::kFloat);
    std::vector<at::Tensor> gradients;
    for (const bool recompute : {false, true}) {
      const PipelineStage stage(Product(job.rank()), job.rank(), 2, job);
      PipelineSchedule schedule("1F1B", {stage}, 4,
                                [](const at::Tensor& output, const at::Tensor& target) {
                                  require(output.scalar_type() == at::kBFloat16,
                                          "layers compute in bfloat16");
                                  return mean_square(output.to(at::kFloat), target);
                                },
                                {.recompute = recompute});
      for (int step = 0; step < 2; ++step) {
        stage.module()->zero_grad();
        const auto casting = autocast(at::kCPU);
        schedule.step({.inputs = {batch.input}, .target = batch.target});
        const at::Tensor gradient = stage.module()->parameters().front().grad();
        require(gradient.defined() && gradient.abs().sum().item<double>() > 0,
                fmt::format("the weight has a gradient in step {}, recompute {}", step, recompute));
        gradients.push_back(gradient.clone());
      }
    }
    for (const at::Tensor& gradient : gradients)
      require(at::equal(gradient, gradients.front()), "the gradient is that without recomputation");
  });
}

// Requires that `body` throws one line with this part.
template <class Body>
void require_refused(const std::string& part, const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    require(std::string(error.what()).contains(part) && !std::string(error.what()).contains('\n'),
            fmt::format("'{}' has '{}', in one line", error.what(), part));
    return;
  }
  throw std::runtime_error("nothing was thrown: " + part);
}

// Returns fewer columns from the third forward pass on.
struct ChangingImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return ++calls < 3 ? x : x.narrow(1, 0, 2); }
  int calls = 0;
};

TEST(Pipeline, NamesAStageWhoseOutputChangesShape) {
  spawn_ranks(1, [](Job& job) {
    PipelineSchedule schedule("GPipe", {PipelineStage(std::make_shared<ChangingImpl>(), 0, 1, job)}, 2,
                              mean_square);
    const Batch batch(0, 4, at::kDouble);
    require_refused("stage 0 returns Double [2, 2], but returned Double [2, 6] at first",
                    [&] { schedule.eval({.inputs = {batch.input}}); });
  });
}

// Receives are posted ahead. Messages that arrived for them when no rank waited any more kept Gloo's thread
// from ending, in two of five runs.
TEST(Pipeline, ARankThatCatchesAnErrorOfAStepEnds) {
  for (int i = 0; i < 5; ++i) {
    spawn(
        [](Job& job) {
          int losses = 0;
          const PipelineStage stage(Part(job.rank() * 2, job.rank() * 2 + 2, at::kFloat), job.rank(), 2, job);
          Schedule1F1B schedule({stage}, 4, [&](const at::Tensor& output, const at::Tensor& target) {
            if (++losses == 6) throw std::runtime_error("an error of the program's own");
            return mean_square(output, target);
          });
          const Batch batch(0, 8, at::kFloat);
          std::string said;
          try {
            for (int step = 0; step < 2; ++step)
              schedule.step({.inputs = {batch.input}, .target = batch.target});
          } catch (const std::runtime_error& error) {
            said = error.what();
          }
          require(!said.empty(), "both ranks fail");
        },
        2);
  }
}

TEST(Pipeline, RefusesParametersThatWereFrozenLater) {
  spawn_ranks(1, [](Job& job) {
    const Part part(0, 2, at::kDouble);
    for (const at::Tensor& each : part->parameters()) each.requires_grad_(false);
    const Part end(2, 4, at::kDouble);
    PipelineSchedule schedule("LoopedBFS", {PipelineStage(part, 0, 2, job), PipelineStage(end, 1, 2, job)}, 2,
                              mean_square);
    const Batch batch(0, 4, at::kDouble);
    schedule.step({.inputs = {batch.input}, .target = batch.target});
    require(!part->parameters()[0].grad().defined() && end->parameters()[0].grad().defined(),
            "one is frozen");
    for (const at::Tensor& each : part->parameters()) each.requires_grad_(true);
    require_refused("an output of stage 0 needs a gradient, unlike in the first step",
                    [&] { schedule.step({.inputs = {batch.input}, .target = batch.target}); });
  });
}

// Halves its input in place.
struct InPlaceImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return x.mul_(0.5); }
};

TEST(Pipeline, RefusesToRecomputeAStageThatChangesItsInput) {
  spawn_ranks(1, [](Job& job) {
    PipelineSchedule schedule("GPipe", {PipelineStage(std::make_shared<InPlaceImpl>(), 0, 1, job)}, 2,
                              mean_square, {.recompute = true});
    const Batch batch(0, 4, at::kDouble);
    require_refused("stage 0 changes its input in place",
                    [&] { schedule.step({.inputs = {batch.input}, .target = batch.target}); });
  });
}

TEST(Pipeline, NamesAStageWhoseFirstOperationIsInPlace) {
  spawn_ranks(1, [](Job& job) {
    PipelineSchedule schedule("LoopedBFS",
                              {PipelineStage(Part(0, 2, at::kDouble), 0, 2, job),
                               PipelineStage(std::make_shared<InPlaceImpl>(), 1, 2, job)},
                              2, mean_square);
    const Batch batch(0, 4, at::kDouble);
    require_refused("stage 1 changes its input or a parameter in place, as a first layer ReLU(inplace) does",
                    [&] { schedule.step({.inputs = {batch.input}, .target = batch.target}); });
  });
}

TEST(Pipeline, RefusesWrongUseInOneLineOnAllRanks) {
  const ScratchDirectory scratch;
  const std::string file = scratch / "deadlock.csv";
  ASSERT_TRUE(write_file_durably(file, "0F0,0B0\n1B0,1F0\n"));
  spawn_ranks(2, [&](Job& job) {
    const auto stage = [&](int index, int num_stages) {
      return PipelineStage(Part(index, index + 1, at::kDouble), index, num_stages, job);
    };
    const int rank = job.rank();
    const auto make = [&](const std::string& name, std::vector<PipelineStage> stages, int count) {
      return PipelineSchedule(name, std::move(stages), count, mean_square);
    };
    require_refused("unknown schedule 1F1Bx", [&] { make("1F1Bx", {stage(rank, 2)}, 4); });
    require_refused("number of microbatches", [&] { make("GPipe", {stage(rank, 2)}, 4 + rank); });
    require_refused("n_microbatches is 0", [&] { make("GPipe", {stage(rank, 2)}, 0); });
    require_refused("rank 0 has the stages [1]; with GPipe of 2 stages on 2 ranks it must have [0]",
                    [&] { make("GPipe", {stage(1 - rank, 2)}, 4); });
    require_refused("3 stages cannot be shared equally by 2 ranks",
                    [&] { make("GPipe", {stage(rank, 3)}, 4); });
    require_refused("no stage 2 of 2", [&] { stage(2, 2); });
    require_refused("is in the stages 0 and 1: parameters must have the names of the undivided model", [&] {
      PipelineSchedule("GPipe", {PipelineStage(Part(0, 1, at::kDouble), rank, 2, job)}, 4, mean_square);
    });
    require_refused("rank 1", [&] { make(file, {stage(rank, 2)}, 1); });
    require_refused("schedule file", [&] { make("/nowhere/there.csv", {stage(rank, 2)}, 2); });
    require_refused("tied_weights names 'nothing', but no stage has it", [&] {
      PipelineSchedule("GPipe", {stage(rank, 2)}, 4, mean_square, {.tied_weights = {"nothing"}});
    });
    require_refused("rank 0 has a stage of 3 stages, others have stages of 4", [&] {
      make("Interleaved1F1B", {stage(rank, 4), stage(rank + 2, rank == 0 ? 3 : 4)}, 4);
    });
    require_refused("is for 2 ranks, 2 stages and 1 microbatches", [&] { make(file, {stage(rank, 2)}, 2); });

    auto schedule = make("GPipe", {stage(rank, 2)}, 4);
    const Batch batch(0, 8, at::kDouble);
    require_refused("4 microbatches do not divide", [&] {
      schedule.step({.inputs = {batch.input.narrow(0, 0, 6)}, .target = batch.target.narrow(0, 0, 6)});
    });
    require_refused(rank == 0 ? "its batch has no inputs" : "its batch has no target",
                    [&] { schedule.step(); });
    schedule.step({.inputs = {batch.input}, .target = batch.target});
    if (rank == 0) {
      const Batch other(0, 16, at::kDouble);
      require_refused("a microbatch is Double [4, 6], but the first one was Double [2, 6]",
                      [&] { schedule.step({.inputs = {other.input}}); });
    }
  });
}

}  // namespace
}  // namespace muster
