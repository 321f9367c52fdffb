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

// The treatment of a sample that cannot be read or does not fit its batch.
enum class BadSample {
  kStop,  // the loop throws
  kSkip,  // the batch goes without it; info() names it
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  // per rank
  bool shuffle = false;
  // Gives the order over all ranks, which the loader divides among them. A DistributedSampler already gives
  // this rank's part: the loader does not divide the order, and uses the sampler's uneven_ranks. Excludes
  // shuffle.
  std::shared_ptr<const Sampler> sampler = nullptr;
  // Gives the batches over all ranks; the loader divides each batch among the ranks. Excludes batch_size,
  // shuffle, sampler and drop_last. The loader checks an epoch's batches when the epoch begins.
  std::shared_ptr<const BatchSamplerBase> batch_sampler = nullptr;
  int num_workers = 0;      // threads; 0 loads in the training thread
  bool pin_memory = false;  // page-locked batches, for faster copies to a GPU; without a GPU it has no effect
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  // How long the loop waits for one batch, and how long the loader waits for its workers when it stops or is
  // destroyed. A worker that takes longer is left running and keeps using the dataset. 0: no limit.
  std::chrono::duration<double> timeout = std::chrono::seconds(0);
  std::function<void(int worker_id)> worker_init_fn = nullptr;  // called in each worker as it starts
  std::optional<int> prefetch_factor = std::nullopt;            // batches loaded ahead per worker; empty: 2
  // true: keeps the workers after a loop over epochs has ended. Within a loop they always stay.
  bool persistent_workers = false;
  bool in_order = true;  // false: take whichever batch is ready first
  // Seeds the order and sample_random(), in place of PyTorch's option `generator`. Must be the same on all
  // ranks.
  std::uint64_t seed = 0;

  // The batch size over all ranks, divided into equal parts for any number of ranks. Excludes batch_size.
  // PyTorch lacks this option and all that follow.
  std::int64_t global_batch_size = 0;
  UnevenRanks uneven_ranks = UnevenRanks::kPad;
  // For an iterable dataset: the number of shards that it is cut into, at least one per rank. With this
  // option a run can continue with another number of ranks and workers. 0: one shard for each worker, over
  // all ranks.
  std::int64_t shards = 0;
  BadSample bad_sample = BadSample::kStop;
  // false: reads nothing, and batches are empty, but the loop and the place in the data are the same as on
  // other ranks. Set it to false on ranks of a pipeline that have neither the first nor the last stage. Not
  // for an iterable dataset.
  bool read = true;
  // Limit in bytes for batches loaded ahead. A single batch can exceed it.
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
  // Multiply a mean over this batch by `weight`: the mean of the products over the ranks is then the mean
  // over the global batch. `weight` differs from 1 where ranks have unequal shares of a batch: with
  // global_batch_size, with a batch_sampler, and in the last batch with UnevenRanks::kKeep. Skipped samples
  // do not change `weight`.
  double weight = 1;

  // [batch], bool: false for repeated samples, which an evaluation must not count.
  at::Tensor mask() const;
};

// The training's place in the data, over all ranks: the ranks have consumed the first `consumed` entries of
// this epoch's order. The other fields say for which order and which ranks this place is valid.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  std::int64_t dataset_size = 0;
  std::string order;                   // the sampler's description
  int ranks = 0;                       // 0: unknown
  std::int64_t batch_size = 0;         // per rank; 0 if the loader has global_batch_size or a batch_sampler
  std::int64_t global_batch_size = 0;  // 0 if not set
  // For an iterable dataset, a number for each shard of this rank: n if the rank has consumed n batches of
  // the shard in this epoch, or `-(n + 1)` if the shard has ended after n batches.
  std::vector<std::int64_t> of_shards = {};
  std::int64_t first_shard = 0;
  std::int64_t shards = 0;  // over all ranks
};

}  // namespace muster
