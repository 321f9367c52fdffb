// What a DataLoader can be told, what it says of a batch, and what it needs to go on after a restart.
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

// What becomes of a sample that cannot be read or does not fit its batch.
enum class BadSample {
  kStop,  // the loop throws
  kSkip,  // the batch is smaller by it; info() names it
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  // per rank
  bool shuffle = false;
  // The order, of which each rank takes its part; or this rank's DistributedSampler, which has taken it
  // already and says itself what becomes of uneven ranks. Excludes shuffle.
  std::shared_ptr<const Sampler> sampler = nullptr;
  // Batches of all ranks together, cut among them. Excludes batch_size, shuffle, sampler and drop_last. What
  // it gives is checked as each epoch begins.
  std::shared_ptr<const BatchSamplerBase> batch_sampler = nullptr;
  int num_workers = 0;      // threads; 0 loads in the training thread
  bool pin_memory = false;  // page-locked batches, for faster copies to a GPU; without a GPU it has no effect
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  // For one batch from a worker, and for the workers to end when the loader stops or goes: who takes longer
  // is left behind, and uses the dataset. 0 waits as long as it takes.
  std::chrono::duration<double> timeout = std::chrono::seconds(0);
  std::function<void(int worker_id)> worker_init_fn = nullptr;  // called in each worker as it starts
  std::optional<int> prefetch_factor = std::nullopt;            // batches loaded ahead per worker; none: 2
  // Workers live on when a loop over epochs has ended. Within one loop they always do.
  bool persistent_workers = false;
  bool in_order = true;  // false: whichever batch is ready first, not after one that takes long
  // PyTorch's generator: of the order and of sample_random(). The same on all ranks.
  std::uint64_t seed = 0;

  // Beyond PyTorch. A batch size over all ranks, cut into equal parts whatever their number; excludes
  // batch_size.
  std::int64_t global_batch_size = 0;
  UnevenRanks uneven_ranks = UnevenRanks::kPad;
  // Of an iterable dataset: into how many shards it is cut, at least one a rank. A run then goes on with
  // another number of ranks and workers. 0: as many as workers of all ranks.
  std::int64_t shards = 0;
  BadSample bad_sample = BadSample::kStop;
  // false: nothing is read, and batches are empty, but the loop and the place in the data are those of the
  // others: for the inner ranks of a pipeline. Not for an iterable dataset.
  bool read = true;
  std::int64_t prefetch_bytes = std::int64_t{1} << 30;  // loaded ahead at most; one batch may be larger
  // Batches come on this device, the next one being copied while this one is used.
  std::optional<at::Device> device = std::nullopt;
};

// Of one batch.
struct BatchInfo {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  // in its epoch, from 0; in one that was gone on with anew, from where that was
  // Of its samples, in order. Sample n of shard s of an iterable dataset of c shards is n * c + s.
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> skipped;  // of the bad samples that it lacks
  std::int64_t padding_count = 0;     // so many at its end are repeated to make the ranks even
  // A mean over this batch times `weight`, averaged over the ranks, is the mean over the global batch. It is
  // not 1 where ranks have unequal shares of a batch: with global_batch_size, with a batch_sampler, and in
  // the last batch with UnevenRanks::kKeep. It does not know of samples that were skipped.
  double weight = 1;

  // [batch], bool: false for repeated samples, which an evaluation does not count.
  at::Tensor mask() const;
};

// What training has consumed, over all ranks: so many entries of this epoch's order. The rest says for what
// that is valid, and by whom it was saved.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;
  std::int64_t dataset_size = 0;
  std::string order;                   // the sampler's description
  int ranks = 0;                       // 0: not known
  std::int64_t batch_size = 0;         // per rank; 0 with one of these:
  std::int64_t global_batch_size = 0;  // or a batch_sampler
  // Of an iterable dataset: the batches of each shard of this rank that were consumed in this epoch; -1 - n:
  // n, and the shard has come to its end.
  std::vector<std::int64_t> of_shards = {};
  std::int64_t first_shard = 0;
  std::int64_t shards = 0;  // of all ranks
};

}  // namespace muster
