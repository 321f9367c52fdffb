// Threads that load batches ahead. The batches are limited in number and in bytes.
//
// The workers take tickets in order. A ticket can name the worker that must load it. take() returns batches
// in the order of the tickets, or in the order of loading if `in_order` is false. If a load fails, take()
// returns the error in the batch's place.
//
// Threads: one thread calls take(). The workers call the functions of Work without a lock: `load` in several
// workers at once, `next_ticket` in one at a time. The destructor joins the workers, except those that stop()
// has detached. Detached workers still use the functions, so the functions must own everything they refer to.
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
  // Where batch 0 begins in the epoch's order. This is above 0 if the run resumed within an epoch, with
  // another number of ranks or another batch size.
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

  // Waits for the next batch. Returns nothing if `timeout` passes first. Call it only if another batch will
  // come. If `begin` or `next_ticket` has thrown, throws that exception.
  std::optional<Taken> take(std::optional<Seconds> timeout);
  // Tells the workers that next_ticket() has tickets again.
  void more();
  // Returns the ticket that take() waits for, if a worker has begun to load it.
  std::optional<Ticket> awaited() const;
  // Keeps the workers from beginning another batch; does not wait for the batches that they are loading.
  // take() and more() must not be called afterwards.
  void halt();
  // Calls halt() and joins the workers. If a worker needs longer than `within`, detaches all workers
  // and returns false.
  bool stop(std::optional<Seconds> within);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::vector<std::jthread> threads_;
};

}  // namespace muster
