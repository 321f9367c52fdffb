#include "runtime/data/loader/tickets.h"

#include "runtime/rank/trace.h"

namespace muster::detail {

void Place::pass(const Ticket& other, Loading& loading) {
  if (turns) return turns->pass(other);
  if (std::pair(other.epoch, other.batch) != std::pair(ticket.epoch, ticket.batch)) {
    passed.emplace(other.epoch, other.batch);
    return;
  }
  do {
    if (++ticket.batch == loading.batches(ticket)) ticket = {.epoch = ticket.epoch + 1};
  } while (passed.erase({ticket.epoch, ticket.batch}) > 0);
}

void Place::begin_epoch(std::int64_t epoch) {
  if (turns)
    turns->begin_epoch(epoch);
  else
    *this = {.ticket = {.epoch = epoch}, .passed = {}, .turns = std::nullopt};
}

void Tickets::offer(std::int64_t end, std::int64_t end_of_orders) {
  const std::lock_guard lock(mutex_);
  end_ = end;
  end_of_orders_ = end_of_orders;
}

std::optional<Ticket> Tickets::next() {
  const std::lock_guard lock(mutex_);
  if (to_load_.epoch() >= end_) return std::nullopt;
  const Ticket ticket = to_load_.next();
  to_load_.pass(ticket, *loading_);
  return ticket;
}

LoadedBatch Tickets::load(const Ticket& ticket) {
  const Traced in_trace(TraceTrack::kData, "load", "batch", ticket.batch);
  LoadedBatch loaded = loading_->load(ticket);
  if (loading_->streams()) {
    if (loaded.count == 0) end(ticket);
  } else if (ticket.epoch + 1 < end_of_orders_) {
    loading_->make_plan_ahead(ticket.epoch + 1);
  }
  return loaded;
}

void Tickets::end(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  to_load_.turns->end(ticket);
}

}  // namespace muster::detail
