// A training whose data is bad: `bad_data_rank FAULT [FILE]`. Of its 24 samples number 13 is, which is rank
// 1's if there are 3 ranks.
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "tests/train/training.h"

namespace muster {
namespace {

class BadDataset : public NoiseDataset {
 public:
  BadDataset(std::int64_t size, std::string_view fault) : NoiseDataset(size), fault_(fault) {}
  std::string name() const override { return "noise.idx"; }
  Example get(std::int64_t index) const override {
    Example example = NoiseDataset::get(index);
    if (index != 13) return example;
    if (fault_ == "shape" || fault_ == "narrow") example.data = example.data.narrow(0, 0, 11);
    if (fault_ == "type") example.target = example.target.to(at::kInt);
    if (fault_ == "throws") throw std::runtime_error("torn image");
    if (fault_ == "throws_a_number") throw 7;
    while (fault_ == "blocks") std::this_thread::sleep_for(std::chrono::hours(1));
    return example;
  }

 private:
  std::string_view fault_;
};

void train(const Job& job, DataLoader<Example>& loader) {
  // No batch norm: it takes no batch of one sample.
  DistributedDataParallel model(torch::nn::Linear(12, 5), job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  for (auto& batch : loader.epochs(1)) train_one(model, optimizer, batch);
}

int run(std::string_view fault, const std::string& file) {
  Job job = init();
  if (fault == "truncated") IdxDataset(file, file);
  static const BadDataset dataset(fault == "empty" ? 0 : fault.starts_with("few") ? 2 : 24, fault);
  DataLoaderOptions options{.num_workers = 2, .timeout = std::chrono::milliseconds(500)};
  if (fault == "few")
    options.global_batch_size = 6;
  else
    options.batch_size = fault == "narrow" ? 1 : 3;
  DataLoader loader(dataset, options, job);
  train(job, loader);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return muster::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
}
