// Runs threads that load batches ahead. These threads are called workers. The number of batches and of their
// bytes is limited.
//
// The workers take tickets in order. A ticket can name the worker that must load its batch. take() returns
// the batches in the order of the tickets. If `in_order` is false, it returns them in the order in which they
// have been loaded. If loading a batch fails, take() returns the error in the place of this batch.
//
// Only one thread calls take(). The workers call the functions of Work without a lock. Several workers can
// call `load` at the same time, but only one at a time calls `next_ticket`. The destructor waits for the
// workers to end, but not for those that stop() has detached. Detached workers still use the functions, so
// the functions must own everything they refer to.
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

// Names one batch that a worker will load.
struct Ticket {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;   // its number in the epoch; for an iterable dataset, in its shard
  int worker = kAnyWorker;  // the worker that must load it
  std::int64_t shard = 0;   // for an iterable dataset, counted from this rank's first shard
  // The place in the order of the epoch where batch 0 begins. It is above 0 if the run has resumed in the
  // middle of an epoch, with another number of ranks or another batch size.
  std::int64_t first = 0;
};

class Prefetcher {
 public:
  struct Work {
    std::function<void(int worker)> begin;               // each worker calls it first
    std::function<std::optional<Ticket>()> next_ticket;  // none: the workers wait for more()
    std::function<detail::LoadedBatch(const Ticket&)> load;
  };
  struct Limits {
    int workers;
    std::int64_t batches;  // loaded or being loaded, and not yet taken
    std::int64_t bytes;    // of loaded batches; a single batch can exceed it
    bool in_order;
  };
  struct Taken {
    Ticket ticket;
    detail::LoadedBatch batch;
    std::exception_ptr error;  // why there is no batch
  };

  // Throws std::runtime_error if a thread cannot be started.
  Prefetcher(Work work, Limits limits);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  // Waits for the next batch and returns it. Returns nothing if the batch has not come within `timeout`. If a
  // worker's call of `begin` or `next_ticket` has thrown an exception, take() throws it. Call take() only if
  // another batch will come: otherwise it waits for ever.
  std::optional<Taken> take(std::optional<Seconds> timeout);
  // Call more() when next_ticket() has tickets again. Then the workers ask next_ticket() again.
  void more();
  // take() waits for the batch of a certain ticket. If a worker has begun to load this batch, returns the
  // ticket. Otherwise returns nothing.
  std::optional<Ticket> awaited() const;
  // After this call, the workers begin no other batch. But this function does not wait for the batches that
  // they are loading. Do not call take() or more() after it.
  void halt();
  // Calls halt(), and waits until the workers have ended. If they need longer than `within`, detaches all
  // workers and returns false.
  bool stop(std::optional<Seconds> within);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::vector<std::jthread> threads_;
};

}  // namespace muster
