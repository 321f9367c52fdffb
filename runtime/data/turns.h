// Whose batch of an iterable dataset comes next: the workers take turns, and one whose shard has ended is
// left out until the epoch is over, as in PyTorch.
//
// A plain value. What workers are asked to load is counted in one, what training has consumed in another.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/prefetcher.h"

namespace muster {

class Turns {
 public:
  // After so many batches of each worker in this epoch.
  Turns(std::int64_t epoch, std::vector<std::int64_t> batches);

  std::int64_t epoch() const { return epoch_; }
  // Of each worker, and of all, in this epoch.
  const std::vector<std::int64_t>& batches() const { return batches_; }
  std::int64_t passed() const;

  Ticket next() const;
  void pass(const Ticket& ticket);
  // The worker has nothing for this ticket. Of the last worker it is the end of the epoch. One of whom that
  // is known may say it again.
  void end(const Ticket& ticket);

 private:
  std::int64_t epoch_;
  std::vector<std::int64_t> batches_;
  std::vector<bool> ended_;
};

}  // namespace muster
