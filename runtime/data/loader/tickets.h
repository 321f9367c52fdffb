// The place of a DataLoader in its data, and the tickets for the batches from a place on.
//
// A loader has two places. One says what its loop has received. The other is in Tickets: it says what the
// workers have taken, and runs ahead. A Place is a plain value. Any thread can use a Tickets. A worker that
// hangs keeps the Tickets alive after the loader has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "runtime/data/loader/loading.h"
#include "runtime/data/loader/prefetcher.h"
#include "runtime/data/loader/turns.h"

namespace muster::detail {

// Names the first batch that has not been passed. The loop passes a batch when it receives it; Tickets passes
// a batch when it hands out the ticket. With in_order = false, later batches may have been passed already.
struct Place {
  Ticket ticket;                                           // for a dataset with indices
  std::set<std::pair<std::int64_t, std::int64_t>> passed;  // later batches: epoch, batch
  std::optional<Turns> turns;                              // for an iterable dataset

  std::int64_t epoch() const { return turns ? turns->epoch() : ticket.epoch; }
  std::int64_t batch() const { return turns ? turns->passed() : ticket.batch; }
  Ticket next() const { return turns ? turns->next() : ticket; }
  void pass(const Ticket& other, Loading& loading);
  void begin_epoch(std::int64_t epoch);
};

class Tickets {
 public:
  Tickets(std::shared_ptr<Loading> loading, Place place)
      : loading_(std::move(loading)), to_load_(std::move(place)) {}

  // Allows tickets up to the end of epoch `end - 1`. Allows making orders ahead up
  // to epoch `end_of_orders - 1`.
  void offer(std::int64_t end, std::int64_t end_of_orders);
  // Returns the next ticket, or nothing if all allowed tickets have been handed out. Can wait until an
  // epoch's order is made.
  std::optional<Ticket> next();
  // Loads the ticket's batch. A count of 0 says that the shard of an iterable dataset has ended.
  LoadedBatch load(const Ticket& ticket);

 private:
  // Notes that the ticket gave no batch, because its shard has ended.
  void end(const Ticket& ticket);

  const std::shared_ptr<Loading> loading_;
  std::mutex mutex_;
  Place to_load_;
  std::int64_t end_ = 0;
  std::atomic<std::int64_t> end_of_orders_ = 0;  // atomic: next() can hold the lock while it makes an order
};

}  // namespace muster::detail
