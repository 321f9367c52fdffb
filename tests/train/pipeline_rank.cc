// A pipeline with one stage on each rank. Stage 1 hangs, stops or is slow at microbatch 3:
//
//   pipeline_rank hangs      waits for ever, after some steps
//   pipeline_rank stops      stops its process with SIGSTOP
//   pipeline_rank slow FILE  takes longer than the others until the file exists
#include <chrono>
#include <csignal>
#include <filesystem>
#include <muster/muster.h>
#include <string>
#include <thread>
#include <torch/torch.h>
#include <unistd.h>

namespace {

constexpr int kMicrobatches = 4;
constexpr int kSteps = 5;  // steps before that
constexpr std::int64_t kWidth = 4;

struct StageImpl : torch::nn::Module {
  StageImpl(std::string a_what, int a_stage) : what(std::move(a_what)), stage(a_stage) {
    linear = register_module("linear" + std::to_string(stage), torch::nn::Linear(kWidth, kWidth));
  }
  at::Tensor forward(const at::Tensor& x) {
    // Before the first step, the schedule runs a microbatch of its own to find the outputs' kinds.
    const bool is_here = calls++ == 1 + kSteps * kMicrobatches + 3 && stage == 1;
    while (is_here && what == "hangs") pause();  // in a loop: a dump of stacks interrupts pause()
    if (is_here && what == "stops") std::raise(SIGSTOP);
    if (what == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(stage == 1 ? 12 : 3));
    return linear(x);
  }
  std::string what;
  int stage;
  int calls = 0;
  torch::nn::Linear linear = nullptr;
};
TORCH_MODULE(Stage);

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const muster::Job job = muster::init();
  muster::PipelineStage stage(Stage(what, job.rank()), job.rank(), job.world_size(), job);
  muster::ScheduleGPipe schedule({stage}, kMicrobatches, [](const at::Tensor& output, const at::Tensor&) {
    return output.square().mean();
  });
  const at::Tensor batch = at::ones({kMicrobatches, kWidth});
  bool ends = false;
  for (int step = 0; !ends; ++step) {
    schedule.step({.inputs = {batch}, .target = batch});
    muster::step(step);
    ends =
        what == "slow" && muster::all_reduce(job, std::filesystem::exists(argv[2]), muster::ReduceOp::kMax);
  }
}
