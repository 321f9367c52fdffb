// Batches loaded ahead by threads, bounded in number and in bytes.
//
// Tickets are handed to the workers in order, each to the worker that it names; take() gives the batches in
// the same order, or, if told so, whichever is ready, and a failed load in the place of its batch. take() is
// for one thread; the functions run in the workers, `load` in several at once and `next_ticket` in one at a
// time, neither under a lock. The destructor joins the workers, but for those that stop() has left behind:
// they keep what they use alive, so the functions must own what they refer to.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <muster/data/detail/batch_source.h>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/clock.h"

namespace muster {

constexpr int kAnyWorker = -1;

// One batch of one epoch.
struct Ticket {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;   // of an iterable dataset: of its shard
  int worker = kAnyWorker;  // by whom it is to be loaded
  std::int64_t shard = 0;   // of an iterable dataset, counted from this rank's first one
  // The place in the order of the epoch at which its batch 0 begins. Not 0 where a run goes on within an
  // epoch at a place that is in the middle of a batch, as the ranks now cut it.
  std::int64_t first = 0;
};

class Prefetcher {
 public:
  struct Work {
    std::function<void(int worker)> begin;               // in each worker, first
    std::function<std::optional<Ticket>()> next_ticket;  // none: the workers wait for more()
    std::function<detail::LoadedBatch(const Ticket&)> load;
  };
  struct Limits {
    int workers;
    std::int64_t batches;  // loaded or being loaded, and not taken
    std::int64_t bytes;    // of the loaded ones; one batch may always be there
    bool in_order;
  };
  struct Taken {
    Ticket ticket;
    detail::LoadedBatch batch;
    std::exception_ptr error;  // why there is no batch
  };

  // std::runtime_error if so many threads cannot be started.
  Prefetcher(Work work, Limits limits);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  // Waits for the next batch, for so long if a time is given; none when it is over first. There must be one
  // more. Throws what is the matter with all: a worker that cannot begin, tickets that cannot be made.
  std::optional<Taken> take(std::optional<Seconds> timeout);
  // There are tickets again.
  void more();
  // The ticket that take() waits for, if a worker has begun it.
  std::optional<Ticket> awaited() const;
  // The workers begin nothing more, and nobody waits for what they are at. The end of take() and more().
  void halt();
  // Halts, and joins the workers. If a time is given and some need longer, all are left behind: false.
  bool stop(std::optional<Seconds> within);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::vector<std::jthread> threads_;
};

}  // namespace muster
