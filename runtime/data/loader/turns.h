// Chooses the shard of an iterable dataset that gives the next batch. The shards of a rank give batches in
// turn; a shard that has ended is left out until the epoch is over, as PyTorch does with workers. Only one
// worker reads a shard.
//
// A Turns is a plain value. A loader has two: one counts the batches that workers load, the other those that
// training has consumed.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/loader/prefetcher.h"

namespace muster {

class Turns {
 public:
  // `batches` has a number for each shard: n if the shard gave n batches in this epoch, or `-1 - n` if the
  // shard has also ended.
  Turns(std::int64_t epoch, const std::vector<std::int64_t>& batches, int workers);

  std::int64_t epoch() const { return epoch_; }
  // batches() returns how many batches each shard gave in this epoch, in the constructor's form. passed()
  // returns how many all shards gave together.
  std::vector<std::int64_t> batches() const;
  std::int64_t passed() const;
  void begin_epoch(std::int64_t epoch);

  Ticket next() const;
  void pass(const Ticket& ticket);
  // Notes that the ticket's shard has no more batches. When the last shard has ended, begins the next epoch.
  // Does nothing for a shard that has already ended, or for a ticket of an earlier epoch.
  void end(const Ticket& ticket);

 private:
  std::int64_t epoch_;
  std::vector<std::int64_t> batches_;
  std::vector<bool> ended_;
  int workers_;
};

}  // namespace muster
