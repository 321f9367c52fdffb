// Checkpoints of pipelines: other cuts of the model, other numbers of replicas and the whole model can load
// them, and all continue the training alike.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>
#include <muster/muster.h>
#include <set>
#include <torch/torch.h>

#include "common/pipeline/make_schedule.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kTokens = 11;
constexpr std::int64_t kBatch = 16;  // over all replicas
constexpr int kMiddles = 10;

class Tokens : public Dataset<> {
 public:
  std::int64_t size() const override { return 4 * kBatch; }
  Example get(std::int64_t index) const override {
    ++reads;
    return {.data = at::scalar_tensor(index * index % kTokens, at::kLong),
            .target = at::scalar_tensor(index % kTokens, at::kLong)};
  }
  mutable std::int64_t reads = 0;
};

// A weight that is used at both ends.
struct EndsImpl : torch::nn::Module {
  EndsImpl(torch::nn::Embedding shared, bool first)
      : tokens(register_module("tokens", std::move(shared))), is_first(first) {}
  at::Tensor forward(const at::Tensor& x) {
    return is_first ? tokens(x) : torch::matmul(x, tokens->weight.t());
  }
  torch::nn::Embedding tokens;
  bool is_first;
};

struct MiddleImpl : torch::nn::Module {
  explicit MiddleImpl(double dropped) : dropout(register_module("dropout", torch::nn::Dropout(dropped))) {
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(norm(torch::tanh(linear(x)))); }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
  torch::nn::Dropout dropout;
};

PipelineLayers net_layers() {
  const auto make_tokens = [] {
    torch::nn::Embedding tokens(kTokens, kWidth);
    tokens->to(at::kDouble);
    return tokens;
  };
  PipelineLayers layers(7);
  for (const bool first : {true, false}) {
    for (int i = 0; !first && i < kMiddles; ++i)
      layers.add(fmt::format("middle.{}", i), [] { return std::make_shared<MiddleImpl>(0.2); });
    layers.add("", [first, make_tokens](SharedModules& shared) {
      return std::make_shared<EndsImpl>(shared.get<torch::nn::Embedding>("tokens", make_tokens), first);
    });
  }
  return layers;
}

// A way to divide model and batch among the ranks.
struct Cut {
  int ranks = 1;
  int replicas = 1;
  std::string schedule = "1F1B";
  int chunks = 1;
};

std::string text_of(const Cut& cut) {
  return fmt::format("{} replicas on {} ranks, {} with {} chunks", cut.replicas, cut.ranks, cut.schedule,
                     cut.chunks);
}

std::vector<PipelineStage> stages_of(const Cut& cut, const Group& group) {
  const PipelineLayers layers = net_layers();
  const int num_stages = group.size() * cut.chunks;
  const auto ranks = ranks_of_stages(
      make_schedule(cut.schedule, {.ranks = group.size(), .microbatches = 4, .chunks = cut.chunks}).value());
  std::vector<int> first_layers;
  for (int stage = 0; stage < num_stages; ++stage) first_layers.push_back(stage * layers.size() / num_stages);
  std::vector<PipelineStage> stages;
  for (int stage = 0; stage < num_stages; ++stage) {
    if (ranks[static_cast<std::size_t>(stage)] == group.rank())
      stages.push_back(layers.stage(first_layers, stage, group));
  }
  return stages;
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return F::cross_entropy(output, target);
}

// Parameters, buffers and the optimizer's state, by name.
using Values = std::map<std::string, at::Tensor>;

void add_values(Values& values, const torch::nn::Module& module, torch::optim::Adam& optimizer) {
  for (const auto& each : module.named_parameters()) {
    values[each.key()] = each.value();
    const auto& state =
        static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(each.value().unsafeGetTensorImpl()));
    values[each.key() + " exp_avg"] = state.exp_avg();
    values[each.key() + " exp_avg_sq"] = state.exp_avg_sq();
    values[each.key() + " step"] = at::scalar_tensor(state.step(), at::kLong);
  }
  for (const auto& each : module.named_buffers()) values[each.key()] = each.value();
}

void write_values(const std::string& directory, const Values& values) {
  std::filesystem::create_directories(directory);
  for (const auto& [name, value] : values) torch::save(value.detach().clone(), directory + "/" + name);
}

void require_values(const std::string& directory, const Values& values, double tolerance,
                    const std::string& what) {
  for (const auto& [name, value] : values) {
    at::Tensor expected;
    torch::load(expected, directory + "/" + name);
    const double difference = (value.detach() - expected).abs().to(at::kDouble).max().item<double>();
    require(difference <= tolerance, fmt::format("{}: '{}' differs by {}", what, name, difference));
  }
}

struct PipelineTraining {
  PipelineTraining(Job& job, const Cut& cut, const std::string& directory, bool read_only)
      : mesh(init_device_mesh(job, {cut.replicas, cut.ranks / cut.replicas}, {"dp", "pp"})),
        schedule(cut.schedule, stages_of(cut, mesh.get_group("pp")), 4, cross_entropy,
                 {.replicas = mesh.get_group("dp"), .seed = 3}),
        has_data(schedule.stages().front().is_first() || schedule.stages().back().is_last()),
        loader(dataset, {.shuffle = true, .seed = 5, .global_batch_size = kBatch, .read = has_data},
               mesh.get_group("dp")),
        checkpoints(job, {.every = 1000, .directory = directory, .read_only = read_only}) {}
  void train(int steps) {
    for (auto& batch : loader.epochs(100)) {
      schedule.step({.inputs = {batch.data}, .target = batch.target});
      optimizer.step();
      optimizer.zero_grad();
      if (--steps == 0) return;
    }
  }
  Values values() {
    Values all;
    for (const PipelineStage& stage : schedule.stages()) add_values(all, *stage.module(), optimizer);
    return all;
  }
  DeviceMesh mesh;
  PipelineSchedule schedule;
  Tokens dataset;
  bool has_data;
  DataLoader<Example> loader;
  torch::optim::Adam optimizer{schedule.parameters(), torch::optim::AdamOptions(1e-2)};
  Checkpointer checkpoints;
  TrainState state{schedule, optimizer, loader};
};

class PipelineCheckpoints : public testing::Test {
 protected:
  template <class Body>
  void on_ranks(int ranks, const Body& body) {
    spawn(
        [&](Job& job) {
          torch::set_num_threads(1);
          body(job);
        },
        ranks);
  }
  // Makes three steps and a checkpoint, then three more steps, and keeps the values after these.
  void save(const Cut& cut) {
    on_ranks(cut.ranks, [&](Job& job) {
      PipelineTraining training(job, cut, directory_, /*read_only=*/false);
      training.train(3);
      require(training.checkpoints.save(training.state), "a save of " + text_of(cut));
      const bool is_first_replica = training.mesh.get_local_rank("dp") == 0;
      if (is_first_replica) write_values(scratch_ / "saved", training.values());
      training.train(3);
      if (is_first_replica) write_values(scratch_ / "expected", training.values());
      require_equal(training.dataset.reads > 0, training.has_data, "ranks of middle stages do not read");
    });
  }
  // Loads the checkpoint, trains on, and compares with the file `expected`, or writes it if there is none.
  void load(const Cut& cut, const std::string& expected) {
    const bool is_known = std::filesystem::exists(scratch_ / expected);
    on_ranks(cut.ranks, [&](Job& job) {
      PipelineTraining training(job, cut, directory_, /*read_only=*/true);
      training.checkpoints.restore(training.state);
      if (training.mesh.get_local_rank("dp") == 0)
        require_values(scratch_ / "saved", training.values(), 0, text_of(cut) + " has loaded");
      training.train(3);
      if (training.mesh.get_local_rank("dp") != 0) return;
      if (is_known)
        require_values(scratch_ / expected, training.values(), 1e-12, text_of(cut) + " has trained on");
      else
        write_values(scratch_ / expected, training.values());
    });
  }
  ScratchDirectory scratch_;
  std::string directory_ = scratch_ / "checkpoints";
};

TEST_F(PipelineCheckpoints, OfFourStagesContinueInAnyOtherCut) {
  save({.ranks = 4});
  for (const Cut& cut : {Cut{.ranks = 1}, Cut{.ranks = 1, .schedule = "ZBVZeroBubble", .chunks = 2},
                         Cut{.ranks = 2}, Cut{.ranks = 2, .schedule = "Interleaved1F1B", .chunks = 3},
                         Cut{.ranks = 2, .schedule = "ZBVZeroBubble", .chunks = 2},
                         Cut{.ranks = 4, .schedule = "Interleaved1F1B", .chunks = 2}})
    EXPECT_NO_THROW(load(cut, "expected")) << text_of(cut);
  // Replicas draw random numbers of their own, in one stage as in two.
  EXPECT_NO_THROW(load({.ranks = 2, .replicas = 2}, "of two replicas"));
  EXPECT_NO_THROW(load({.ranks = 4, .replicas = 2}, "of two replicas"));
}

TEST_F(PipelineCheckpoints, OfTwoReplicasInTwoStagesContinueInAnyOtherCut) {
  save({.ranks = 4, .replicas = 2});
  EXPECT_NO_THROW(load({.ranks = 4, .replicas = 2}, "expected"));
  EXPECT_NO_THROW(load({.ranks = 4, .replicas = 2, .schedule = "ZBVZeroBubble", .chunks = 2}, "expected"));
  for (const Cut& cut : {Cut{.ranks = 4}, Cut{.ranks = 1}, Cut{.ranks = 2, .schedule = "ZBH1"}})
    EXPECT_NO_THROW(load(cut, "of one replica")) << text_of(cut);
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "of one replica"));
}

TEST_F(PipelineCheckpoints, EqualThoseOfTheUndividedModel) {
  const Cut cut{.ranks = 2, .schedule = "ZBVZeroBubble", .chunks = 2};
  save(cut);
  on_ranks(1, [&](Job& job) {
    const PipelineLayers layers = net_layers();
    const auto whole = layers.build(0, layers.size());
    torch::optim::Adam optimizer(whole->parameters(), torch::optim::AdamOptions(1e-2));
    const Tokens dataset;
    DataLoader loader(dataset, {.shuffle = true, .seed = 5, .global_batch_size = kBatch}, job);
    TrainState state(*whole, optimizer, loader);
    Checkpointer(job, {.directory = directory_, .read_only = true}).restore(state);
    Values values;
    add_values(values, *whole, optimizer);
    require_values(scratch_ / "saved", values, 0, "the undivided model");
    require_equal(loader.state().consumed, 3 * kBatch, "its place in the data");
    require(Checkpointer(job, {.directory = directory_ + " of all"}).save(state),
            "a save of the whole model");
  });
  directory_ += " of all";
  EXPECT_NO_THROW(load({.ranks = 2}, "after the whole model"));
}

// Programs without a pipeline make a loader with the job. In a pipeline, stages would then get other data.
class PipelineData : public PipelineCheckpoints {
 protected:
  // Returns the error of a rank that makes its loader with a group of this size, at its own place.
  template <class Use>
  void expect_refusal(const std::set<int>& of_ranks, const Use& use) {
    on_ranks(2, [&](Job& job) {
      const DeviceMesh mesh = init_device_mesh(job, {1, 2}, {"dp", "pp"});
      PipelineSchedule schedule("1F1B", stages_of({.ranks = 2}, mesh.get_group("pp")), 4, cross_entropy);
      const Tokens dataset;
      DataLoader loader(dataset, {.batch_size = 8}, job);
      std::string said;
      try {
        use(schedule, loader);
      } catch (const std::invalid_argument& refused) {
        said = refused.what();
      } catch (const std::runtime_error&) {  // the other rank is gone
      }
      if (of_ranks.contains(job.rank()))
        require_equal(
            said,
            std::string("pipeline: one stage reads the samples of rank 0 of 2, another those of rank 1 of 2, "
                        "so inputs would meet the wrong targets. "
                        "Make all stages of a pipeline read the same samples: "
                        "`DataLoader(dataset, options, /*rank=*/0, /*world_size=*/1)`, "
                        "or with replicas `DataLoader(dataset, options, mesh.get_group(\"dp\"))`"),
            "the refusal");
    });
  }
};

TEST_F(PipelineData, OtherDataForEachStageIsRefusedByTheFirstStep) {
  expect_refusal({1}, [](PipelineSchedule& schedule, DataLoader<Example>& loader) {
    for (auto& batch : loader) schedule.step({.inputs = {batch.data}, .target = batch.target});
  });
  expect_refusal({1}, [](PipelineSchedule& schedule, DataLoader<Example>& loader) {
    for (auto& batch : loader) schedule.eval({.inputs = {batch.data}, .target = batch.target});
  });
}

TEST_F(PipelineData, OtherDataForEachStageIsRefusedByATrainState) {
  expect_refusal({0, 1}, [](PipelineSchedule& schedule, DataLoader<Example>& loader) {
    torch::optim::SGD optimizer(schedule.parameters(), 0.1);
    const TrainState state(schedule, optimizer, loader);
  });
}

TEST_F(PipelineData, IsAcceptedIfEqualForAllStagesOrNotFromALoader) {
  on_ranks(2, [&](Job& job) {
    const DeviceMesh mesh = init_device_mesh(job, {1, 2}, {"dp", "pp"});
    PipelineSchedule schedule("1F1B", stages_of({.ranks = 2}, mesh.get_group("pp")), 4, cross_entropy);
    const Tokens dataset;
    DataLoader loader(dataset, {.batch_size = 16}, 0, 1);
    for (auto& batch : loader) schedule.step({.inputs = {batch.data}, .target = batch.target});
    DataLoader elsewhere(dataset, {.batch_size = 16}, job);
    for (auto& batch : elsewhere) {
      (void)batch;
      break;
    }
    const at::Tensor tokens = at::arange(kBatch) % kTokens;
    schedule.step({.inputs = {tokens}, .target = tokens});
    schedule.eval({.inputs = {tokens}});
  });
}

}  // namespace
}  // namespace muster
