// The place of a DataLoader in its data, and the tickets for the batches that follow this place.
//
// A loader has two places. One of them says which batches its loop has received. The other one belongs to
// Tickets. It says which batches the workers have taken, so it is ahead of the first. A Place is a plain
// value. Any thread can use a Tickets. If a worker hangs, it keeps the Tickets alive after the loader has
// ended.
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

// Says which batches have been passed. `ticket` or `turns` gives the first batch that has not been passed.
// The loop passes a batch when it receives the batch. The class Tickets passes a batch when it hands out the
// batch's ticket. If in_order is false, batches after the first one may also have been passed: they are in
// `passed`.
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

  // Allows tickets up to the end of epoch `end - 1`. The orders of epochs up to `end_of_orders - 1` may be
  // made ahead.
  void offer(std::int64_t end, std::int64_t end_of_orders);
  // Returns the next ticket. Returns nothing if it has already returned all tickets that offer() allows. If
  // the order of an epoch is not ready, next() waits until it is.
  std::optional<Ticket> next();
  // Loads the batch of the ticket. If the count of the result is 0, the shard of an iterable dataset has
  // ended.
  LoadedBatch load(const Ticket& ticket);

 private:
  // The ticket has given no batch, because its shard has ended. This function notes that.
  void end(const Ticket& ticket);

  const std::shared_ptr<Loading> loading_;
  std::mutex mutex_;
  Place to_load_;
  std::int64_t end_ = 0;
  std::atomic<std::int64_t> end_of_orders_ = 0;  // atomic: next() can hold the lock while it makes an order
};

}  // namespace muster::detail
