// The place of a DataLoader in its data, and the tickets for the batches from a place on.
//
// A loader has two places: the one that its loop has reached, and the one of Tickets, which runs ahead of it.
// A Place is a plain value. A Tickets is safe from any thread; a worker that hangs keeps the Tickets alive
// after the loader has ended.
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

// Names the first batch that has not been passed. With in_order = false, later batches may have been passed.
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

  // Allows tickets up to the end of epoch `end` - 1. Orders are made ahead up to epoch `end_of_orders` - 1.
  void offer(std::int64_t end, std::int64_t end_of_orders);
  // Returns none if all allowed tickets have been handed out. May wait until an epoch's order is made.
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
  std::atomic<std::int64_t> end_of_orders_ = 0;  // atomic: next() may hold the lock while it makes an order
};

}  // namespace muster::detail
