// A training on bad data: `bad_data_rank FAULT [FILE]`. Sample 13 of its 24 samples is bad; with 3 ranks,
// rank 1 reads it.
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
    if (index == 18 && fault_ == "slow_end") std::this_thread::sleep_for(std::chrono::seconds(1));
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
  // No batch norm: it cannot train on a batch of one sample.
  DistributedDataParallel model(torch::nn::Linear(12, 5), job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  for (auto& batch : loader.epochs(1)) train_one(model, optimizer, batch);
}

// A stream of 19 samples; with 3 ranks, rank 0 gets one sample more than the others.
class BadStream : public IterableDataset<> {
 public:
  std::unique_ptr<Reader> open(const Shard& shard) const override { return std::make_unique<Reading>(shard); }

 private:
  struct Reading : Reader {
    explicit Reading(const Shard& part) : index(part.index), step(part.count) {}
    std::optional<Example> next() override {
      if (index >= samples.size()) return std::nullopt;
      return samples.get(std::exchange(index, index + step));
    }
    const NoiseDataset samples{19};
    std::int64_t index, step;
  };
};

// Rank 0 has 3 batches, the others 2.
int train_unequal(const Job& job, std::string_view then) {
  const BadDataset dataset(19, "");
  const BadStream stream;
  auto loader = then == "streams"
                    ? DataLoader<>(stream, {.batch_size = 3}, job)
                    : DataLoader<>(dataset, {.batch_size = 3, .uneven_ranks = UnevenRanks::kKeep}, job);
  DistributedDataParallel model(torch::nn::Linear(12, 5), job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  for (auto& batch : loader.epochs(1)) train_one(model, optimizer, batch);
  if (then == "leaves") return 0;
  if (then == "barrier" || then == "streams") job.barrier();
  if (then == "reduces") all_reduce(job, 1.0);
  return 0;
}

// All ranks have the same number of batches. After each epoch rank 0 works alone while the others wait.
int train_equal(const Job& job) {
  const BadDataset dataset(24, "");
  DataLoader loader(dataset, {.batch_size = 4}, job);
  DistributedDataParallel model(torch::nn::Linear(12, 5), job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& batch : loader.epochs(epoch + 1)) train_one(model, optimizer, batch);
    if (job.rank() == 0 && epoch == 0) std::this_thread::sleep_for(std::chrono::seconds(8));
  }
  return 0;
}

// The ranks reduce gradients after every second batch. After the first epoch rank 1 works alone while the
// others wait. With 24 samples, all ranks have the same number of batches, and a second epoch follows. With
// 19 samples rank 0 has the last one, and leaves the loop after the others.
int train_accumulating(const Job& job, torch::nn::Sequential net, std::int64_t size,
                       std::int64_t batch_size) {
  const BadDataset dataset(size, size == 19 ? "slow_end" : "");
  DataLoader loader(dataset, {.batch_size = batch_size, .uneven_ranks = UnevenRanks::kKeep}, job);
  net->eval();  // batch norm cannot train on a batch of one sample
  DistributedDataParallel model(net, job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  GradientAccumulation accumulation(model, 2);
  const auto train_epoch = [&](int epoch) {
    for (auto& batch : loader.epochs(epoch + 1)) {
      const auto part = accumulation.part();
      torch::nn::functional::cross_entropy(model(batch.data), batch.target).backward();
      if (!part.is_last()) continue;
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  train_epoch(0);
  if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(8));
  if (size == 24)
    train_epoch(1);
  else
    job.barrier();
  return 0;
}

// Rank 0 has 3 batches, the others 2. Each step begins with a broadcast of buffers.
int train_oom_safe(const Job& job, torch::nn::Sequential net) {
  const BadDataset dataset(19, "");
  DataLoader loader(dataset, {.batch_size = 3, .uneven_ranks = UnevenRanks::kKeep}, job);
  net->eval();  // batch norm cannot train on a batch of one sample
  DistributedDataParallel model(net, job);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  OomSafeStep step(model, job);
  for (auto& batch : loader.epochs(1)) {
    optimizer.zero_grad();
    step(batch.data.size(0), [&](std::int64_t begin, std::int64_t count) {
      return torch::nn::functional::cross_entropy(net->forward(batch.data.narrow(0, begin, count)),
                                                  batch.target.narrow(0, begin, count));
    });
    optimizer.step();
  }
  job.barrier();
  return 0;
}

torch::nn::Sequential with_buffers() {
  return torch::nn::Sequential(torch::nn::Linear(12, 5), torch::nn::BatchNorm1d(5));
}

torch::nn::Sequential without_buffers() {
  return torch::nn::Sequential(torch::nn::Linear(12, 5));
}

int run(std::string_view fault, const std::string& file) {
  const Job job = init();
  constexpr std::string_view kUnequal = "unequal_";
  if (fault == "equal") return train_equal(job);
  if (fault == "equal_accumulates") return train_accumulating(job, with_buffers(), 24, 2);
  if (fault == "equal_reductions") return train_accumulating(job, without_buffers(), 19, 1);
  if (fault == "unequal_second_step") return train_accumulating(job, without_buffers(), 19, 3);
  if (fault == "unequal_oom_safe") return train_oom_safe(job, with_buffers());
  if (fault == "unequal_accumulates") return train_accumulating(job, with_buffers(), 19, 1);
  if (fault.starts_with(kUnequal)) return train_unequal(job, fault.substr(kUnequal.size()));
  if (fault == "truncated") IdxDataset(file, file);
  static const BadDataset dataset(fault == "empty" ? 0 : fault.starts_with("few") ? 2 : 24, fault);
  DataLoaderOptions options{.num_workers = 2};
  // Long enough for the earlier batches, even on a busy machine.
  if (fault == "blocks") options.timeout = std::chrono::seconds(2);
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
