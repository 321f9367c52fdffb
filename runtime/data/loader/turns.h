// Of which shard of an iterable dataset the next batch comes: the shards of a rank take turns, and one that
// has ended is left out until the epoch is over, as PyTorch does with workers. Each is read by one worker.
//
// A plain value. What workers are asked to load is counted in one, what training has consumed in another.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/loader/prefetcher.h"

namespace muster {

class Turns {
 public:
  // After so many batches of each shard in this epoch; -1 - n: after n, and it has ended.
  Turns(std::int64_t epoch, const std::vector<std::int64_t>& batches, int workers);

  std::int64_t epoch() const { return epoch_; }
  // Of each shard in this epoch, as they were given, and of all.
  std::vector<std::int64_t> batches() const;
  std::int64_t passed() const;
  void begin_epoch(std::int64_t epoch);

  Ticket next() const;
  void pass(const Ticket& ticket);
  // The shard has nothing for this ticket. Of the last shard it is the end of the epoch. Of one of which that
  // is known it may be said again.
  void end(const Ticket& ticket);

 private:
  std::int64_t epoch_;
  std::vector<std::int64_t> batches_;
  std::vector<bool> ended_;
  int workers_;
};

}  // namespace muster
