#include <atomic>
#include <muster/data/batch_memory.h>
#include <poll.h>
#include <torch/torch.h>

#include "bench/loader/run.h"

namespace muster::bench {

namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Every sample has 1 MiB.
class Large : public Dataset<at::Tensor> {
 public:
  std::int64_t size() const override { return 1 << 20; }
  at::Tensor get(std::int64_t index) const override { return at::full({kMiB}, index % 100, at::kByte); }
  at::Tensor get_batch(std::span<const std::int64_t> indices) const override {
    at::Tensor batch = batch_empty({std::ssize(indices), kMiB}, at::kByte).fill_(1);
    ++batches;
    return batch;
  }
  mutable std::atomic<std::int64_t> batches = 0;
};

// Waits until the workers have stopped loading for 0.1 s.
void wait_until_full(const Large& dataset) {
  for (std::int64_t before = -1; before != dataset.batches;) {
    before = dataset.batches;
    poll(nullptr, 0, 100);
  }
}

}  // namespace

nlohmann::json bound() {
  constexpr std::int64_t kBatch = 4;
  nlohmann::json rows = nlohmann::json::array();
  for (const std::int64_t limit : {16, 64, 256}) {
    const Large dataset;
    const double before = memory_mib("VmRSS");
    DataLoader<at::Tensor> loader(
        dataset,
        {.batch_size = kBatch, .num_workers = 2, .prefetch_factor = 1000, .prefetch_bytes = limit * kMiB}, 0,
        1);
    DataLoader<at::Tensor>::Iterator place(&loader, 1);
    for (int step = 0; step < 200; ++step) ++place;
    wait_until_full(dataset);
    // The loop has used the first batch and these 200.
    rows.push_back({{"limit_mib", limit},
                    {"loaded_ahead_mib", (dataset.batches - 201) * kBatch},
                    {"resident_mib", memory_mib("VmRSS") - before}});
  }
  return rows;
}

}  // namespace muster::bench
