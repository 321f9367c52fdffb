// Two ranks that train with muster's DistributedDataParallel:
//
//   ddp_step cnn|tiny STEPS FILE   writes the median milliseconds of a step on rank 0 to FILE
//   ddp_step trace                 prints when each bucket was ready and reduced in one backward pass
#include "bench/ddp/step.h"

#include <fmt/format.h>
#include <fstream>
#include <muster/muster.h>
#include <mutex>
#include <string_view>

#include "bench/measure.h"

namespace muster::bench {
namespace {

constexpr int kRanks = 2;
constexpr int kWarmUp = 20;

double milliseconds(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

template <class Model>
void time_steps(const Job& job, int steps, const std::string& path) {
  torch::manual_seed(1);
  const auto [inputs, classes] = Model::batch();
  DistributedDataParallel model(Model::make(), job);
  torch::optim::Adam optimizer(model.parameters(), torch::optim::AdamOptions(1e-3));
  std::vector<double> times;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const std::int64_t began = now_ns();
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model(inputs), classes).backward();
    optimizer.step();
    if (step >= kWarmUp) times.push_back(milliseconds(began, now_ns()));
  }
  if (job.rank() == 0) std::ofstream(path) << median(times) << '\n';
}

struct BucketTimes {
  std::size_t bytes = 0;
  std::int64_t ready_ns = 0;
  std::int64_t reduced_ns = 0;
};

// Reduces as the Reducer does without a hook, and records the times.
class Tracing : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  Tracing(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::vector<BucketTimes>& times,
          std::mutex& mutex)
      : CppCommHookInterface(group), times_(times), mutex_(mutex) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> gradients{bucket.getBufferRef().div_(state_->getSize())};
    const std::size_t index = bucket.getIndex();
    {
      const std::scoped_lock lock(mutex_);
      times_.resize(std::max(times_.size(), index + 1));
      times_[index] = {.bytes = gradients[0].nbytes(), .ready_ns = now_ns()};
    }
    const auto note = [this, index](c10::ivalue::Future& reduced) {
      const std::scoped_lock lock(mutex_);
      times_[index].reduced_ns = now_ns();
      return c10::IValue(reduced.value().toTensorVector().front());
    };
    return state_->allreduce(gradients)->getFuture()->then(note, c10::TensorType::get());
  }

 private:
  std::vector<BucketTimes>& times_;
  std::mutex& mutex_;
};

void trace(const Job& job) {
  std::vector<BucketTimes> times;
  std::mutex mutex;
  const auto [inputs, classes] = Wide::batch();
  DistributedDataParallel model(Wide::make(), job, {.bucket_cap_mb = 4});
  model.register_comm_hook(std::make_unique<Tracing>(job.process_group(), times, mutex));
  std::int64_t began = 0, ended = 0;
  for (int step = 0; step < 10; ++step) {  // the last step counts
    model.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model(inputs), classes);
    job.barrier();
    began = now_ns();
    loss.backward();
    ended = now_ns();
  }
  if (job.rank() != 0) return;
  fmt::print("one backward pass of 8 layers of 4 MiB, 2 ranks, Gloo: milliseconds since it began\n");
  fmt::print("  {:<10}{:>10}{:>10}{:>10}\n", "bucket", "MiB", "ready", "reduced");
  for (std::size_t i = 0; i < times.size(); ++i)
    fmt::print("  {:<10}{:>10.1f}{:>10.2f}{:>10.2f}\n", i, static_cast<double>(times[i].bytes) / (1 << 20),
               milliseconds(began, times[i].ready_ns), milliseconds(began, times[i].reduced_ns));
  const std::int64_t computed = times.back().ready_ns;
  const auto early =
      std::ranges::count_if(times, [&](const BucketTimes& each) { return each.reduced_ns < computed; });
  fmt::print(
      "  the last gradient was ready at {:.2f}, when {} of {} buckets had been reduced; backward() ended at "
      "{:.2f}\n",
      milliseconds(began, computed), early, times.size(), milliseconds(began, ended));
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster;
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "trace") {
    spawn([](Job& job) { bench::trace(job); }, bench::kRanks);
  } else if (argc == 4) {
    const auto run = what == "cnn" ? bench::time_steps<bench::Cnn> : bench::time_steps<bench::Tiny>;
    spawn([&](Job& job) { run(job, std::atoi(argv[2]), argv[3]); }, bench::kRanks);
  } else {
    fmt::print(stderr, "usage: ddp_step cnn|tiny STEPS FILE, or ddp_step trace\n");
    return 2;
  }
  return 0;
}
