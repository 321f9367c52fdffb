#include "runtime/data/turns.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace muster {

Turns::Turns(std::int64_t epoch, std::vector<std::int64_t> batches)
    : epoch_(epoch), batches_(std::move(batches)), ended_(batches_.size(), false) {
  CHECK(!batches_.empty());
}

std::int64_t Turns::passed() const {
  return std::accumulate(batches_.begin(), batches_.end(), std::int64_t{0});
}

Ticket Turns::next() const {
  std::size_t next = batches_.size();
  for (std::size_t worker = 0; worker < batches_.size(); ++worker) {
    if (!ended_[worker] && (next == batches_.size() || batches_[worker] < batches_[next])) next = worker;
  }
  return {.epoch = epoch_, .batch = batches_[next], .worker = static_cast<int>(next)};
}

void Turns::pass(const Ticket& ticket) {
  ++batches_[static_cast<std::size_t>(ticket.worker)];
}

void Turns::end(const Ticket& ticket) {
  if (ticket.epoch != epoch_) return;
  ended_[static_cast<std::size_t>(ticket.worker)] = true;
  if (!std::ranges::all_of(ended_, [](bool ended) { return ended; })) return;
  ++epoch_;
  std::ranges::fill(batches_, 0);
  std::fill(ended_.begin(), ended_.end(), false);
}

}  // namespace muster
