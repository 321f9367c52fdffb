// A DataLoader's options, its description of a batch, and the state that it needs to continue after a
// restart.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <muster/data/distributed_sampler.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class BatchSamplerBase;

// Says what a loader does with a sample that cannot be read or does not fit its batch.
enum class BadSample {
  kStop,  // the loop throws
  kSkip,  // the batch goes without it; info() names it
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  // per rank
  bool shuffle = false;
  // The order of the samples, over all ranks. The loader divides it among the ranks. A DistributedSampler is
  // an exception: its order is already this rank's part, so the loader does not divide it, and uses the
  // uneven_ranks of the sampler. If `sampler` is set, shuffle must not be set.
  std::shared_ptr<const Sampler> sampler = nullptr;
  // The source of batches, over all ranks. The loader divides each of its batches among the ranks. If
  // `batch_sampler` is set, batch_size, shuffle, sampler and drop_last must not be set. The loader checks the
  // batches of an epoch when the epoch begins.
  std::shared_ptr<const BatchSamplerBase> batch_sampler = nullptr;
  int num_workers = 0;      // threads; 0 loads in the training thread
  bool pin_memory = false;  // page-locked batches, for faster copies to a GPU; without a GPU it has no effect
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  // The loop waits at most this long for one batch. When the loader stops or is destroyed, it waits at most
  // this long for its workers. If a worker takes longer, it keeps running and using the dataset. 0: there is
  // no limit.
  std::chrono::duration<double> timeout = std::chrono::seconds(0);
  std::function<void(int worker_id)> worker_init_fn = nullptr;  // called in each worker as it starts
  std::optional<int> prefetch_factor = std::nullopt;            // batches loaded ahead per worker; empty: 2
  // true: after a loop over epochs has ended, the workers are kept. Within a loop they are always kept.
  bool persistent_workers = false;
  bool in_order = true;  // false: take whichever batch is ready first
  // The seed of the order and of sample_random(). It takes the place of PyTorch's option `generator`. It must
  // be the same on all ranks.
  std::uint64_t seed = 0;

  // The number of examples in a batch, over all ranks. The batch is divided into equal parts for any number
  // of ranks. If this is set, batch_size must not be set. PyTorch has neither this option nor those that
  // follow.
  std::int64_t global_batch_size = 0;
  UnevenRanks uneven_ranks = UnevenRanks::kPad;
  // The number of shards into which an iterable dataset is cut. There must be at least one per rank. With
  // this option, a run can continue with another number of ranks and workers. 0: there is one shard for each
  // worker of each rank.
  std::int64_t shards = 0;
  BadSample bad_sample = BadSample::kStop;
  // false: the loader reads nothing, and batches are empty. But the loop and the place in the data are the
  // same as on other ranks. Set it to false on ranks of a pipeline that have neither the first nor the last
  // stage. It cannot be false for an iterable dataset.
  bool read = true;
  // The limit in bytes for batches that are loaded ahead. A single batch can be larger.
  std::int64_t prefetch_bytes = std::int64_t{1} << 30;
  // Copies each batch to this device while the loop uses the previous batch.
  std::optional<at::Device> device = std::nullopt;
};

// Describes one batch.
struct BatchInfo {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // in its epoch, from 0; from 0 again if the rest of the epoch was divided anew
  // The samples' indices, in order. Sample n of shard s of an iterable dataset with c shards has the index
  // `n * c + s`.
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> skipped;  // indices of the bad samples that were left out
  std::int64_t padding_count = 0;     // number of repeated samples at the end of the batch
  // If the program computes a mean over this batch, such as the loss, it must multiply the mean by `weight`.
  // The mean of these products over the ranks is then the mean over the global batch. `weight` differs from 1
  // if ranks have unequal shares of a batch. That can be so with global_batch_size, with a batch_sampler, and
  // in the last batch with UnevenRanks::kKeep. Skipped samples do not change `weight`.
  double weight = 1;

  // Returns a tensor [batch] of bools. It is false for repeated samples, which an evaluation must not count.
  at::Tensor mask() const;
};

// The place that the training has reached in the data, over all ranks. Together, the ranks have consumed the
// first `consumed` entries of the order of epoch `epoch`. The other fields say for which order and which
// ranks this place is valid.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  std::int64_t dataset_size = 0;
  std::string order;                   // the sampler's description
  int ranks = 0;                       // 0: unknown
  std::int64_t batch_size = 0;         // per rank; 0 if the loader has global_batch_size or a batch_sampler
  std::int64_t global_batch_size = 0;  // 0 if not set
  // For an iterable dataset, this has a number for each shard of this rank. The number is n if the rank has
  // consumed n batches of the shard in this epoch. If the shard has ended after n batches, it is `-(n + 1)`.
  std::vector<std::int64_t> of_shards = {};
  std::int64_t first_shard = 0;
  std::int64_t shards = 0;  // over all ranks
};

}  // namespace muster
