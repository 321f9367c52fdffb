// Chooses which shard of an iterable dataset gives the next batch. The shards of a rank give batches in turn.
// If a shard has ended, it is left out until the epoch is over. PyTorch does the same with workers. Only one
// worker reads a shard.
//
// A Turns is a plain value. A loader has two of them: one counts the batches that workers load, and the other
// counts the batches that training has consumed.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/loader/prefetcher.h"

namespace muster {

class Turns {
 public:
  // `batches` has a number for each shard. If the shard has given n batches in this epoch, the number is n.
  // If the shard has also ended, it is `-1 - n`.
  Turns(std::int64_t epoch, const std::vector<std::int64_t>& batches, int workers);

  std::int64_t epoch() const { return epoch_; }
  // batches() returns how many batches each shard has given in this epoch. Its numbers mean the same as those
  // that the constructor takes. passed() returns how many batches all shards have given together.
  std::vector<std::int64_t> batches() const;
  std::int64_t passed() const;
  void begin_epoch(std::int64_t epoch);

  Ticket next() const;
  void pass(const Ticket& ticket);
  // Notes that the shard of `ticket` has no more batches in this epoch. If it was the last shard that had
  // batches, the next epoch begins. If the shard has already ended, or if the ticket is of an earlier epoch,
  // end() does nothing.
  void end(const Ticket& ticket);

 private:
  std::int64_t epoch_;
  std::vector<std::int64_t> batches_;
  std::vector<bool> ended_;
  int workers_;
};

}  // namespace muster
