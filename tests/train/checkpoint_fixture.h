// A training of one process and its checkpoints, for tests of their content and of refusals.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "runtime/comm/job_state.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {

namespace fs = std::filesystem;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

inline std::unique_ptr<torch::optim::Optimizer> make_adam(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                              torch::optim::AdamOptions(1e-2).amsgrad(true));
}

// Reads the environment as it is now; init() works only once.
inline Job make_job() {
  const auto world = read_world("env://", -1, -1, [](const char* name) { return std::getenv(name); });
  return join(world.value(), std::nullopt, {}, std::nullopt);
}

inline CheckpointerOptions in(const std::string& directory, CheckpointerOptions options) {
  options.every = 1000;
  options.directory = directory;
  return options;
}

// One training; it may use another directory than its own.
struct Training {
  explicit Training(const std::string& directory, const MakeOptimizer& make = make_adam,
                    const CheckpointerOptions& options = {.keep = 100})
      : optimizer(make(net->parameters())), checkpoints(job, in(directory, options)) {
    state.add("average", average);
    state.add("best", best);
    state.add("patience", patience);
  }
  void train(int steps) {
    for (auto& batch : loader.epochs(100)) {
      train_one(*net, *optimizer, batch);
      average.mul_(0.9).add_(batch.data.mean());
      best += 0.1;
      patience += 1;
      checkpoints.step(state);
      if (--steps == 0) return;
    }
  }
  std::string result() const {
    return bytes_of(*net) + std::to_string(best) + std::to_string(patience) +
           std::to_string(average.item<float>());
  }

  Job job = make_job();
  NoiseDataset dataset{64};
  std::shared_ptr<SmallNet> net = std::make_shared<SmallNet>();
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  DataLoader<Example> loader{dataset, {.batch_size = 8, .shuffle = true}, 0, 1};
  Checkpointer checkpoints;
  at::Tensor average = at::zeros({});
  double best = 0;
  std::int64_t patience = 0;
  TrainState state{*net, *optimizer, loader};
};

class CheckpointTest : public testing::Test {
 protected:
  // Checkpoints of steps 1 and 2 in a new directory.
  void save_two() {
    Training training(directory_);
    for (int step = 0; step < 2; ++step) {
      training.train(1);
      ASSERT_TRUE(training.checkpoints.save(training.state));
    }
  }
  std::int64_t restored_step(const std::string& directory) {
    Training training(directory);
    return training.checkpoints.restore(training.state);
  }
  std::string copy(const std::string& name) {
    fs::remove_all(scratch_ / name);
    fs::copy(directory_, scratch_ / name, fs::copy_options::recursive);
    return scratch_ / name;
  }
  ScratchDirectory scratch_;
  const std::string directory_ = scratch_ / "checkpoints";
};

}  // namespace muster
