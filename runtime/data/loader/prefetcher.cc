#include "runtime/data/loader/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <list>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <torch/torch.h>

#include "common/base/quiet_thread.h"
#include "runtime/data/loader/one_compute_thread.h"

namespace muster {

struct Prefetcher::Shared {
  struct Slot {
    std::optional<Ticket> ticket;  // none: next_ticket() threw
    bool begun = false;
    bool ready = false;
    std::int64_t bytes = 0;
    detail::LoadedBatch batch;
    std::exception_ptr error;
  };
  Shared(Work the_work, Limits the_limits) : work(std::move(the_work)), limits(the_limits) {}
  using Slots = std::list<Slot>;
  void work_as(int worker);
  void run(int worker);
  void add_ticket(int worker, std::unique_lock<std::mutex>& lock);
  void load(Slot& slot, std::unique_lock<std::mutex>& lock);
  void wake_taker(std::unique_lock<std::mutex>& lock);
  void wake_worker(std::unique_lock<std::mutex>& lock);
  bool has_room() const;
  bool wants_ticket() const { return !idle && !asking && has_room(); }
  Slots::iterator slot_for(int worker);
  Slots::iterator ready_slot();

  const Work work;
  const Limits limits;
  std::mutex mutex;
  std::condition_variable room;
  std::condition_variable ready;
  std::condition_variable worker_ended;
  Slots slots;                     // in the order of the tickets
  std::int64_t bytes = 0;          // of the ready slots
  std::int64_t largest_bytes = 0;  // the largest batch so far: the guess for batches that are being loaded
  std::int64_t loading = 0;        // slots that are not ready
  std::exception_ptr failed_begin;
  bool idle = false;            // next_ticket() had none
  bool asking = false;          // a worker is in next_ticket()
  std::int64_t times_more = 0;  // calls of more()
  bool stopping = false;
  std::int64_t ended = 0;  // workers that have ended
  // A wake-up takes as long as loading a small batch. So these say whether anybody waits.
  bool taker_waits = false;          // at `ready`
  std::int64_t workers_waiting = 0;  // at `room`
};

bool Prefetcher::Shared::has_room() const {
  if (std::ssize(slots) >= limits.batches) return false;
  return slots.empty() || bytes + (loading + 1) * largest_bytes <= limits.bytes;
}

// Returns a slot that this worker is allowed to load and that no worker has begun.
Prefetcher::Shared::Slots::iterator Prefetcher::Shared::slot_for(int worker) {
  return std::ranges::find_if(slots, [worker](const Slot& slot) {
    return !slot.begun && (slot.ticket->worker == kAnyWorker || slot.ticket->worker == worker);
  });
}

Prefetcher::Shared::Slots::iterator Prefetcher::Shared::ready_slot() {
  if (limits.in_order) return !slots.empty() && slots.front().ready ? slots.begin() : slots.end();
  return std::ranges::find_if(slots, &Slot::ready);
}

void Prefetcher::Shared::work_as(int worker) {
  run(worker);
  const std::lock_guard lock(mutex);
  ++ended;
  worker_ended.notify_one();
}

void Prefetcher::Shared::run(int worker) {
  // Training needs the cores. So a worker must not start its own threads for computations.
  const OneComputeThread one_thread;
  const at::NoGradGuard no_grad;
  try {
    work.begin(worker);
  } catch (...) {
    const std::lock_guard lock(mutex);
    failed_begin = std::current_exception();
    ready.notify_all();
    return;
  }
  std::unique_lock lock(mutex);
  for (;;) {
    auto slot = slot_for(worker);
    while (!stopping && slot == slots.end() && !wants_ticket()) {
      ++workers_waiting;
      room.wait(lock);
      --workers_waiting;
      slot = slot_for(worker);
    }
    if (stopping) return;
    if (slot != slots.end()) {
      load(*slot, lock);
      continue;
    }
    add_ticket(worker, lock);
  }
}

// Asks next_ticket() for the next ticket. If there is one, adds a slot for it. next_ticket() can throw, for
// example because a sampler cannot make the order of the next epoch. Then this function adds a slot with the
// exception, and no tickets follow.
void Prefetcher::Shared::add_ticket(int worker, std::unique_lock<std::mutex>& lock) {
  std::optional<Ticket> ticket;
  std::exception_ptr error;
  const std::int64_t before = times_more;
  asking = true;
  lock.unlock();  // next_ticket() can wait until an epoch's order is made
  try {
    ticket = work.next_ticket();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  asking = false;
  idle = error || (!ticket && times_more == before);
  if (error) {
    slots.push_back(Slot{.ticket = {}, .begun = true, .ready = true, .batch = {}, .error = error});
    wake_taker(lock);
  } else if (ticket) {
    slots.push_back(Slot{.ticket = ticket, .batch = {}, .error = nullptr});
    ++loading;
  }
  // If the ticket is for a certain worker, this worker may be asleep, so all workers are woken. Otherwise
  // this worker loads the batch, and another worker can ask for the next ticket.
  if (ticket && ticket->worker != kAnyWorker && ticket->worker != worker)
    room.notify_all();
  else
    wake_worker(lock);
}

// Wakes the thread in take() if it waits and its batch is there. The thread needs the lock at once, so this
// function gives the lock up before it wakes the thread.
void Prefetcher::Shared::wake_taker(std::unique_lock<std::mutex>& lock) {
  if (!taker_waits || ready_slot() == slots.end()) return;
  taker_waits = false;  // the next batch does not wake the thread once more
  lock.unlock();
  ready.notify_one();
  lock.lock();
}

// Wakes a worker if one waits and can ask for a ticket.
void Prefetcher::Shared::wake_worker(std::unique_lock<std::mutex>& lock) {
  if (workers_waiting == 0 || !wants_ticket()) return;
  lock.unlock();
  room.notify_one();
  lock.lock();
}

void Prefetcher::Shared::load(Slot& slot, std::unique_lock<std::mutex>& lock) {
  slot.begun = true;
  lock.unlock();
  detail::LoadedBatch loaded;
  std::exception_ptr error;
  std::int64_t loaded_bytes = 0;
  try {
    loaded = work.load(*slot.ticket);
    for (const at::Tensor* tensor : loaded.tensors) loaded_bytes += detail::tensor_bytes(*tensor);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --loading;
  slot.bytes = loaded_bytes;
  bytes += slot.bytes;
  largest_bytes = std::max(largest_bytes, slot.bytes);
  slot.batch = std::move(loaded);
  slot.error = error;
  slot.ready = true;
  wake_taker(lock);
  wake_worker(lock);  // if the batch is smaller than the guess, there can be room for another
}

Prefetcher::Prefetcher(Work work, Limits limits)
    : shared_(std::make_shared<Shared>(std::move(work), limits)) {
  try {
    for (int worker = 0; worker < limits.workers; ++worker)
      threads_.push_back(start_quiet_thread(
          fmt::format("muster-load-{}", worker),
          [shared = shared_, worker](const std::stop_token&) { shared->work_as(worker); }));
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    stop(std::nullopt);
    throw std::runtime_error(fmt::format("DataLoader: num_workers = {}: only {} threads could be started: {}",
                                         limits.workers, started, error.code().message()));
  }
}

Prefetcher::~Prefetcher() {
  stop(std::nullopt);
}

void Prefetcher::halt() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->room.notify_all();
}

bool Prefetcher::stop(std::optional<Seconds> within) {
  halt();
  bool ended = true;
  if (within) {
    std::unique_lock lock(shared_->mutex);
    ended = shared_->worker_ended.wait_for(lock, *within,
                                           [this] { return shared_->ended == std::ssize(threads_); });
  }
  for (std::jthread& thread : threads_) {
    if (!ended) thread.detach();
  }
  threads_.clear();  // joins the threads that were not detached
  return ended;
}

std::optional<Prefetcher::Taken> Prefetcher::take(std::optional<Seconds> timeout) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  auto slot = shared.slots.end();
  const auto arrived = [&] {
    slot = shared.ready_slot();
    shared.taker_waits = slot == shared.slots.end() && !shared.failed_begin;
    return !shared.taker_waits;
  };
  if (!timeout) {
    shared.ready.wait(lock, arrived);
  } else if (!shared.ready.wait_for(lock, *timeout, arrived)) {
    shared.taker_waits = false;
    return std::nullopt;
  }
  if (slot == shared.slots.end()) std::rethrow_exception(shared.failed_begin);
  if (!slot->ticket) std::rethrow_exception(slot->error);
  Taken taken{*slot->ticket, std::move(slot->batch), slot->error};
  shared.bytes -= slot->bytes;
  shared.slots.erase(slot);
  shared.wake_worker(lock);
  return taken;
}

void Prefetcher::more() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->idle = false;
    ++shared_->times_more;
  }
  shared_->room.notify_all();
}

std::optional<Ticket> Prefetcher::awaited() const {
  const std::lock_guard lock(shared_->mutex);
  const auto& slots = shared_->slots;
  return slots.empty() || !slots.front().begun ? std::nullopt : slots.front().ticket;
}

}  // namespace muster
