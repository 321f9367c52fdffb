// The ranks of the benchmark of pipelines, for every schedule in turn:
//
//   pipeline_run wide|tiny STEPS FILE   milliseconds of each step, and the values to compare with
//   pipeline_run memory FILE            peak MiB of a step by rank, and by the formula
//   pipeline_run split ROUNDS FILE      milliseconds of a step of split models, and the prediction
//
// Writes JSON to FILE. run.py has the same nets and schedules.
#include <fmt/format.h>
#include <fstream>
#include <muster/muster.h>
#include <nlohmann/json.hpp>
#include <string_view>
#include <torch/torch.h>

#include "bench/measure.h"
#include "bench/pipeline/replay.h"
#include "bench/pipeline/split.h"
#include "common/pipeline/make_schedule.h"
#include "runtime/model/allocated_bytes.h"

namespace muster::bench {
namespace {

using Json = nlohmann::json;

constexpr int kRanks = 2;
constexpr int kWarmUp = 2;

// Layers of Linear and ReLU, and microbatches of `rows`.
struct Net {
  int layers;
  std::int64_t width;
  std::int64_t rows;
  int microbatches;
};
constexpr Net kWide{.layers = 32, .width = 512, .rows = 128, .microbatches = 16};
constexpr Net kTiny{.layers = 20, .width = 32, .rows = 16, .microbatches = 32};

struct Chosen {
  const char* name;
  int chunks;
};
constexpr Chosen kSchedules[] = {
    {"GPipe", 1},         {"1F1B", 1},      {"Interleaved1F1B", 2},
    {"LoopedBFS", 2},     {"ZBH1", 1},      {"InterleavedZeroBubble", 2},
    {"ZBVZeroBubble", 2}, {"DualPipeV", 2},
};

at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return torch::nn::functional::mse_loss(output, target);
}

// The layers, under their names in the undivided model.
torch::nn::Sequential layers_of(const Net& net, int first, int count) {
  torch::nn::Sequential layers;
  for (int layer = first; layer < first + count; ++layer) {
    layers->push_back(fmt::format("linear{}", layer), torch::nn::Linear(net.width, net.width));
    layers->push_back(fmt::format("relu{}", layer), torch::nn::ReLU());
  }
  return layers;
}

struct Pipeline {
  Pipeline(const Job& job, const Net& net, const Chosen& chosen)
      : plan(make_schedule(chosen.name,
                           {.ranks = kRanks, .microbatches = net.microbatches, .chunks = chosen.chunks})
                 .value()),
        inputs(at::randn({net.rows * net.microbatches, net.width})),
        targets(at::randn_like(inputs)) {
    const std::vector<int> ranks = ranks_of_stages(plan);
    const int layers = net.layers / plan.stages;
    for (int stage = 0; stage < plan.stages; ++stage) {
      if (ranks[static_cast<std::size_t>(stage)] == job.rank())
        stages.emplace_back(layers_of(net, stage * layers, layers), stage, plan.stages, job);
    }
    schedule.emplace(chosen.name, stages, net.microbatches, loss_of);
    replay.emplace(plan, stages, loss_of, inputs.narrow(0, 0, net.rows), targets.narrow(0, 0, net.rows));
  }
  void step() { schedule->step({.inputs = {inputs}, .target = targets}); }
  void zero_grad(bool set_to_none = true) {
    for (const PipelineStage& each : stages) each.module()->zero_grad(set_to_none);
  }

  Schedule plan;
  at::Tensor inputs, targets;
  std::vector<PipelineStage> stages;
  std::optional<PipelineSchedule> schedule;
  std::optional<Replay> replay;
};

// Milliseconds from the common start of all ranks to the end of the last rank.
template <class Work>
double together(const Job& job, Work work) {
  job.barrier();
  const std::int64_t began = now_ns();
  work();
  return all_reduce(job, static_cast<double>(now_ns() - began) / 1e6, ReduceOp::kMax);
}

// The schedule's time from the stages' times, and the busiest rank's time if it never waits.
struct Predicted {
  double simulated;
  double without_bubble;
};
Predicted predict(const Job& job, Pipeline& pipeline) {
  job.barrier();
  const Replay::Times here = pipeline.replay->run();
  Json mine = {{"all", here.all}, {"stages", Json::array()}};
  for (const auto& [stage, times] : here.stages)
    mine["stages"].push_back({stage, times.forward, times.input, times.weight});
  std::vector<StageTimes> times(static_cast<std::size_t>(pipeline.plan.stages));
  double busiest = 0;
  for (const Json& rank : all_gather_object(job, mine)) {
    busiest = std::max(busiest, rank["all"].get<double>());
    for (const Json& each : rank["stages"])
      times[each[0].get<std::size_t>()] = {each[1].get<double>(), each[2].get<double>(),
                                           each[3].get<double>()};
  }
  return {simulate_schedule(pipeline.plan, times).makespan, busiest};
}

Json times_of(const Job& job, const Net& net, const Chosen& chosen, int steps) {
  Pipeline pipeline(job, net, chosen);
  Json times;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    pipeline.zero_grad();
    const double milliseconds = together(job, [&] { pipeline.step(); });
    if (step < kWarmUp) continue;
    pipeline.zero_grad();
    const Predicted predicted = predict(job, pipeline);
    times["step"].push_back(milliseconds);
    times["simulated"].push_back(predicted.simulated);
    times["without bubble"].push_back(predicted.without_bubble);
  }
  return times;
}

// The same training in one process.
Json single_times(const Net& net, int steps) {
  auto model = layers_of(net, 0, net.layers);
  const auto inputs = at::randn({net.rows * net.microbatches, net.width});
  const auto targets = at::randn_like(inputs);
  Json times;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    model->zero_grad();
    const std::int64_t began = now_ns();
    for (int i = 0; i < net.microbatches; ++i) {
      const auto part = [&](const at::Tensor& all) { return all.narrow(0, i * net.rows, net.rows); };
      (loss_of(model->forward(part(inputs)), part(targets)) / net.microbatches).backward();
    }
    if (step >= kWarmUp) times["step"].push_back(static_cast<double>(now_ns() - began) / 1e6);
  }
  return times;
}

Json memory_of(const Job& job, const Chosen& chosen) {
  constexpr double kMib = 1 << 20;
  const auto counted = std::make_shared<AllocatedBytes>();
  const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, counted);
  Pipeline pipeline(job, kWide, chosen);
  pipeline.step();
  pipeline.zero_grad(/*set_to_none=*/false);  // so that gradients exist before and after the step
  const auto bytes =
      pipeline.replay->bytes_of_microbatch([&] { return static_cast<double>(counted->now()); });
  const auto step = std::make_shared<AllocatedBytes>();
  {
    const c10::DebugInfoGuard counting_step(c10::DebugInfoKind::PROFILER_STATE, step);
    pipeline.step();
  }
  const auto peak = static_cast<double>(step->peak());
  double of_stages = 0;
  for (const auto& [stage, each] : bytes) of_stages += each;
  // In a V, the two stages of a rank count as one.
  const bool is_v = pipeline.stages.size() == 2 && ranks_of_stages(pipeline.plan).back() == 0;
  const double unit = is_v ? of_stages : of_stages / static_cast<double>(bytes.size());
  const std::vector<StageTimes> equal(static_cast<std::size_t>(pipeline.plan.stages));
  const double activations =
      simulate_schedule(pipeline.plan, equal).peak_activations[static_cast<std::size_t>(job.rank())];
  Json all = Json::array();
  for (Json& each :
       all_gather_object(job, Json{{"formula", activations * unit / kMib}, {"peak", peak / kMib}}))
    all.push_back(std::move(each));
  return all;
}

}  // namespace

int run(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  torch::set_num_threads(1);
  if (what == "memory" && argc == 3) {
    spawn(
        [&](Job& job) {
          Json all;
          for (const Chosen& each : kSchedules) all[each.name] = memory_of(job, each);
          if (job.rank() == 0) std::ofstream(argv[2]) << all;
        },
        kRanks);
    return 0;
  }
  if (what == "split" && argc == 4) {
    spawn(
        [&](Job& job) {
          const Json all = split_times(job, std::atoi(argv[2]));
          if (job.rank() == 0) std::ofstream(argv[3]) << all;
        },
        kRanks);
    return 0;
  }
  if ((what != "wide" && what != "tiny") || argc != 4) {
    fmt::print(stderr, "usage: pipeline_run wide|tiny STEPS FILE, split ROUNDS FILE, or memory FILE\n");
    return 2;
  }
  const Net& net = what == "wide" ? kWide : kTiny;
  const int steps = std::atoi(argv[2]);
  spawn(
      [&](Job& job) {
        Json all;
        for (const Chosen& each : kSchedules) all[each.name] = times_of(job, net, each, steps);
        job.barrier();
        if (job.rank() != 0) return;
        all["single process"] = single_times(net, steps);
        std::ofstream(argv[3]) << all;
      },
      kRanks);
  return 0;
}

}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::run(argc, argv);
}
