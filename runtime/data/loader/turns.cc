#include "runtime/data/loader/turns.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "common/base/check.h"

namespace muster {

Turns::Turns(std::int64_t epoch, const std::vector<std::int64_t>& batches, int workers)
    : epoch_(epoch), batches_(batches.size()), ended_(batches.size()), workers_(workers) {
  CHECK(!batches.empty() && workers > 0);
  for (std::size_t shard = 0; shard < batches.size(); ++shard) {
    ended_[shard] = batches[shard] < 0;
    batches_[shard] = ended_[shard] ? -1 - batches[shard] : batches[shard];
  }
  if (std::ranges::all_of(ended_, std::identity())) begin_epoch(epoch_ + 1);
}

std::vector<std::int64_t> Turns::batches() const {
  std::vector<std::int64_t> batches = batches_;
  for (std::size_t shard = 0; shard < batches.size(); ++shard)
    if (ended_[shard]) batches[shard] = -1 - batches[shard];
  return batches;
}

std::int64_t Turns::passed() const {
  return std::accumulate(batches_.begin(), batches_.end(), std::int64_t{0});
}

void Turns::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  std::ranges::fill(batches_, 0);
  std::fill(ended_.begin(), ended_.end(), false);
}

Ticket Turns::next() const {
  std::size_t next = batches_.size();
  for (std::size_t shard = 0; shard < batches_.size(); ++shard) {
    if (!ended_[shard] && (next == batches_.size() || batches_[shard] < batches_[next])) next = shard;
  }
  return {.epoch = epoch_,
          .batch = batches_[next],
          .worker = static_cast<int>(next % static_cast<std::size_t>(workers_)),
          .shard = static_cast<std::int64_t>(next)};
}

void Turns::pass(const Ticket& ticket) {
  ++batches_[static_cast<std::size_t>(ticket.shard)];
}

void Turns::end(const Ticket& ticket) {
  if (ticket.epoch != epoch_) return;
  ended_[static_cast<std::size_t>(ticket.shard)] = true;
  if (std::ranges::all_of(ended_, std::identity())) begin_epoch(epoch_ + 1);
}

}  // namespace muster
