#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <muster/data/data_loader.h>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "common/base/log.h"
#include "runtime/data/loader/device_copy.h"
#include "runtime/data/loader/loading.h"
#include "runtime/data/loader/prefetcher.h"
#include "runtime/data/loader/tickets.h"
#include "runtime/data/loader/turns.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/training_loop.h"

// The path of a batch:
//
//   Order ---> BatchPlan --> Ticket ------> LoadedBatch --> staged ---> the loop
//   (options)  (EpochPlans)  (Tickets)      (Loading,       (DeviceCopy)
//                                            BatchSource)
//
// 1. The options give one Order. EpochPlans makes a BatchPlan from it for each epoch: the samples of every
//    batch of this rank.
// 2. The class Tickets hands out one ticket for each batch to load, up to the end of the last epoch that a
//    loop asked for. For an iterable dataset, Turns chooses the shard that gives the next batch.
// 3. The workers of a Prefetcher take tickets. Loading loads the batch of a ticket from the BatchSource into
//    memory of BatchMemory. Only the BatchSource knows the types of samples and batches. Without workers, the
//    training thread loads the batches itself.
// 4. The Prefetcher returns batches in the order of the tickets, DeviceCopy copies one batch ahead to the
//    device, and next() gives it to the loop.
//
// Place says which batches the loop has received. state() needs only Place.

namespace muster {

namespace detail {

namespace {

constexpr int kDefaultPrefetchFactor = 2;

// Returns a text that says how a state divides the data into batches: "3 ranks x 32", or "3 x 32" if `ranks`
// is "". `ranks` is what follows the number of ranks: " ranks" or "".
std::string cut_of(const DataLoaderState& state, std::string_view ranks) {
  if (state.global_batch_size > 0)
    return fmt::format("a global batch of {} on {}{}", state.global_batch_size, state.ranks, ranks);
  if (state.batch_size > 0) return fmt::format("{}{} x {}", state.ranks, ranks, state.batch_size);
  return fmt::format("{}{}", state.ranks, ranks);
}

// Returns true if no shard of the stream has given a batch in this epoch. A loader with any number of shards
// can resume from such a state.
bool is_whole(const DataLoaderState& state) {
  return std::ranges::all_of(state.of_shards, [](std::int64_t batches) { return batches == 0; });
}

// Returns a text such as "saved with 2 ranks x 32, now 2 x 48". Returns "" if nothing has changed, or if the
// numbers of the save are not known.
std::string change_of(const DataLoaderState& saved, const DataLoaderState& now) {
  if (saved.ranks == 0 || cut_of(saved, "") == cut_of(now, "")) return "";
  return fmt::format("saved with {}, now {}", cut_of(saved, " ranks"), cut_of(now, ""));
}

}  // namespace

// A batch is in one of four places on its way to the loop: it has a ticket, a worker loads it or has loaded
// it, it is staged, or the loop has received it.
//
// - `place` names the first batch that the loop has not received. Only give(), skip_failed_batch(),
//   end_shard(), begin_pass() and load_state() change it. The class Tickets has its own copy of the place,
//   which runs ahead.
// - `tickets` is null when no batch is on its way. offer() creates it at `place`; drop() discards it with all
//   batches on their way, which are loaded again later. stop(), load_state() and every error call drop().
// - If `prefetcher` exists without `tickets`, it is halted: its workers can still be loading a batch, but
//   nobody takes that batch. offer() ends the halted prefetcher.
// - `staged` is the next batch for the loop. It was taken from the workers, and its copy to the device may
//   have begun. It can hold an error. `failed_ahead` is an exception that stage_ahead() caught. next() throws
//   either error only when the loop asks for that batch. So the loop can still use the batch that comes
//   before.
// - `current` is the batch that the loop holds, until the next call of next(). `info`, `given`,
//   `given_memory` and `given_indices` describe the last batch that the loop received.
// - `failed` names the batch of the error that next() has thrown. skip_failed_batch(), load_state() and the
//   following call of next() clear it.
//
// Only the training thread uses a State. Workers share `loading` and `tickets`, which any thread can use. A
// worker that hangs keeps them alive after the State has ended.
struct LoaderEngine::State {
  State(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size)
      : loading(std::make_shared<Loading>(std::move(source), std::move(options), rank, world_size)) {
    if (loading->streams()) place.turns = turns_from(0, no_batches());
  }

  // Returns a count of 0 for each shard of this rank.
  std::vector<std::int64_t> no_batches() const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(loading->shards.mine), 0);
  }
  Turns turns_from(std::int64_t epoch, const std::vector<std::int64_t>& batches) const {
    return {epoch, batches, std::max(loading->options.num_workers, 1)};
  }
  DataLoaderState here() const;
  Place place_of(const DataLoaderState& saved) const;
  void tell_change(const DataLoaderState& saved) const;
  void offer(std::int64_t end);
  std::optional<Prefetcher::Taken> take(bool wait);
  std::optional<Prefetcher::Taken> load(bool wait);
  void start_workers();
  void drop();
  void end_workers(std::optional<Seconds> within);
  std::optional<Seconds> patience() const;
  void time_out();
  void end_shard(const Ticket& ticket);
  void stage(bool wait);
  void give();
  void stage_ahead(std::int64_t end_of_loop);
  void set_info(const Ticket& ticket, const LoadedBatch& loaded);

  const std::uint64_t number = new_loader_number();
  const std::shared_ptr<Loading> loading;
  Place place;
  std::shared_ptr<Tickets> tickets;
  std::int64_t end = 0;       // `tickets` reach to the end of epoch `end - 1`; 0 without `tickets`
  std::uint64_t loop = 0;     // number of the newest loop
  bool by_passes = false;     // each loop goes over one epoch
  bool goes_on = false;       // the next pass begins at `place`, even within an epoch
  bool just_loaded = false;   // a state was loaded, and no loop over epochs has begun since
  bool may_be_empty = false;  // the warning of an empty loop is off: it was given, or a state was loaded
  std::optional<Ticket> failed;
  std::optional<Prefetcher::Taken> staged;
  std::exception_ptr failed_ahead;
  std::shared_ptr<void> current;
  Ticket given;
  std::vector<const void*> given_memory;    // the storages of the batch's tensors
  std::vector<std::int64_t> given_indices;  // bad samples included
  BatchInfo info;
  std::optional<DeviceCopy> device_copy;
  std::unique_ptr<Prefetcher> prefetcher;
};

// Lets the workers load up to the end of epoch `new_end - 1`.
void LoaderEngine::State::offer(std::int64_t new_end) {
  if (tickets && new_end == end) return;
  if (!tickets) {
    end_workers(patience());  // ends halted workers
    tickets = std::make_shared<Tickets>(loading, place);
  }
  end = new_end;
  tickets->offer(end, by_passes ? end + 1 : end);
  if (prefetcher) prefetcher->more();
}

void LoaderEngine::State::start_workers() {
  const DataLoaderOptions& options = loading->options;
  const std::int64_t factor = options.prefetch_factor.value_or(kDefaultPrefetchFactor);
  prefetcher = std::make_unique<Prefetcher>(
      Prefetcher::Work{.begin = [loading = loading](int worker) { loading->begin(worker); },
                       .next_ticket = [tickets = tickets] { return tickets->next(); },
                       .load = [tickets = tickets](const Ticket& ticket) { return tickets->load(ticket); }},
      Prefetcher::Limits{.workers = options.num_workers,
                         .batches = options.num_workers * factor,
                         .bytes = options.prefetch_bytes,
                         .in_order = options.in_order});
}

// Returns the next batch. If no batch is ready and `wait` is false, returns nothing. In an iterable dataset,
// a batch whose count is 0 says that a shard has ended.
std::optional<Prefetcher::Taken> LoaderEngine::State::take(bool wait) {
  const DataLoaderOptions& options = loading->options;
  if (options.num_workers == 0 || !options.read) {
    if (!wait) return std::nullopt;
    const at::NoGradGuard no_grad;
    loading->begin(0);
    Prefetcher::Taken taken{*tickets->next(), {}, nullptr};
    try {
      taken.batch = tickets->load(taken.ticket);
    } catch (...) {
      taken.error = std::current_exception();
    }
    return taken;
  }
  if (!prefetcher) start_workers();
  if (!wait) return prefetcher->take(Seconds(0));
  auto taken = prefetcher->take(patience());
  if (!taken) time_out();
  return taken;
}

// Returns how long to wait for a batch from a worker. Returns nothing if there is no limit.
std::optional<Seconds> LoaderEngine::State::patience() const {
  const Seconds timeout = loading->options.timeout;
  return timeout.count() > 0 ? std::optional(timeout) : std::nullopt;
}

// Discards all batches that are on their way to the loop. They will be loaded again later. This function does
// not wait for the workers: a worker can hang, and next() must be able to throw an error at once.
void LoaderEngine::State::drop() {
  if (prefetcher) prefetcher->halt();
  tickets.reset();
  end = 0;
  staged.reset();
  failed_ahead = nullptr;
}

// Ends the workers. If they need longer than `within`, this function does not wait for them any longer. They
// then go on by themselves, and keep alive what they use.
void LoaderEngine::State::end_workers(std::optional<Seconds> within) {
  if (prefetcher && !prefetcher->stop(within)) loading->source->abandon_readers();
  prefetcher.reset();
}

void LoaderEngine::State::time_out() {
  failed = prefetcher->awaited();
  end_workers(Seconds(0));
  throw std::runtime_error(
      fmt::format("DataLoader: {} gave no batch within {} s: {}", loading->source->name(),
                  loading->options.timeout.count(),
                  failed ? loading->describe(*failed)
                         : "worker_init_fn has not returned, or the order of the epoch is still being made"));
}

// Returns the next batch. Returns nothing in two cases: no batch is ready and `wait` is false, or the last
// epoch of an iterable dataset is over.
std::optional<Prefetcher::Taken> LoaderEngine::State::load(bool wait) {
  for (;;) {
    auto taken = take(wait);
    if (!taken || taken->error || taken->batch.count > 0) return taken;
    end_shard(taken->ticket);
    if (place.epoch() >= end) return std::nullopt;
  }
}

void LoaderEngine::State::end_shard(const Ticket& ticket) {
  const std::int64_t epoch = place.epoch();
  const bool none = place.turns->passed() == 0;
  place.turns->end(ticket);
  if (!none || place.epoch() == epoch) return;
  place.begin_epoch(epoch);
  const ShardRange& shards = loading->shards;
  throw std::runtime_error(fmt::format("DataLoader: {} gave no batch for shards {} to {} of {} in epoch {}",
                                       loading->source->name(), shards.first, shards.first + shards.mine - 1,
                                       shards.count, epoch));
}

// Takes the next batch into `staged`, and begins to copy it to the device. If no batch is ready and `wait` is
// false, it does nothing. If the batch has an error, `staged` keeps it until give() throws it.
void LoaderEngine::State::stage(bool wait) {
  if (staged) return;
  staged = load(wait);
  if (!staged || staged->error || !device_copy) return;
  try {
    device_copy->begin(staged->batch.tensors);
  } catch (...) {
    staged->error = std::current_exception();
  }
}

void LoaderEngine::State::set_info(const Ticket& ticket, const LoadedBatch& loaded) {
  const PlannedBatch& planned = loaded.planned;
  info = {.epoch = ticket.epoch,
          .batch = place.turns ? place.turns->passed() : ticket.batch,
          .indices = {},
          .skipped = {},
          .padding_count = 0,
          .weight = planned.weight};
  auto bad = loaded.skipped.begin();
  for (std::int64_t i = 0; i < loaded.count; ++i) {
    const std::int64_t index = planned.indices[static_cast<std::size_t>(i)];
    if (bad != loaded.skipped.end() && *bad == i) {
      info.skipped.push_back(index);
      ++bad;
      continue;
    }
    info.indices.push_back(index);
    if (i >= loaded.count - planned.padding) ++info.padding_count;
  }
}

// Gives the staged batch to the loop, or throws its error. A batch counts as received from here on.
void LoaderEngine::State::give() {
  failed = staged->ticket;
  if (staged->error) std::rethrow_exception(staged->error);
  if (device_copy) device_copy->finish();
  given = staged->ticket;
  set_info(given, staged->batch);
  given_indices = std::move(staged->batch.planned.indices);
  place.pass(given, *loading);
  given_memory = memory_of(staged->batch.tensors);
  current = std::move(staged->batch.batch);
  staged.reset();
  failed.reset();
  goes_on = false;
}

// Begins to copy the next batch while the loop computes with the current one. If the copy fails, the loop
// still gets the current batch.
void LoaderEngine::State::stage_ahead(std::int64_t end_of_loop) {
  if (!device_copy || place.epoch() >= end_of_loop) return;
  try {
    stage(/*wait=*/false);
  } catch (...) {
    failed_ahead = std::current_exception();
  }
}

LoaderEngine::LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank,
                           int world_size, std::shared_ptr<DeviceCopier> copier) {
  const std::string name = source->name();
  const std::int64_t size = source->size().value_or(world_size);
  if (size <= 0) throw std::invalid_argument(fmt::format("DataLoader: {} has no samples", name));
  if (size < world_size && (options.global_batch_size > 0 || options.uneven_ranks != UnevenRanks::kPad)) {
    throw std::invalid_argument(
        fmt::format("DataLoader: {} has {} samples, fewer than the {} ranks", name, size, world_size));
  }
  state_ = std::make_unique<State>(std::move(source), std::move(options), rank, world_size);
  Loading& loading = *state_->loading;
  if (loading.order.batches == 0) {
    throw std::invalid_argument(fmt::format("DataLoader: {} samples of {} for {} ranks give no batch of {}",
                                            size, name, world_size, loading.options.batch_size));
  }
  const auto& device = loading.options.device;
  if (!copier && device && !device->is_cpu()) copier = make_device_copier(*device);
  if (copier) state_->device_copy.emplace(std::move(copier));
}

LoaderEngine::~LoaderEngine() {
  if (!state_) return;
  forget_batch(state_->number);
  stop();
}

std::uint64_t LoaderEngine::begin_loop() {
  return ++state_->loop;
}

void* LoaderEngine::next(std::int64_t end, std::uint64_t begun) {
  State& state = *state_;
  if (begun != state.loop)
    throw std::logic_error(
        "DataLoader: another loop over this loader has begun inside this one; "
        "give the inner loop its own loader");
  put_batch_back(state.number);
  const InStepPart waiting(kDataPart);
  state.current.reset();  // frees its memory for the next batch
  state.failed.reset();
  const TrainingLoop loop{state.number, end, share().first, share().second};
  try {
    if (state.failed_ahead) std::rethrow_exception(state.failed_ahead);
    if (end < state.end) stop();  // drops batches that were loaded ahead, beyond the end of this loop
    if (state.place.epoch() < end) {
      state.offer(end);
      state.stage(/*wait=*/true);
    }
    if (!state.staged) {
      if (!state.loading->options.persistent_workers) stop();
      end_loop(loop);
      return nullptr;
    }
    state.give();
    const auto describe = [&state] {
      return fmt::format("{}, {}", state.loading->source->name(),
                         state.loading->describe(state.given, state.given_indices));
    };
    take_batch(loop, describe, std::move(state.given_memory));
  } catch (...) {
    state.drop();
    state.goes_on = true;
    throw;
  }
  state.stage_ahead(end);
  return state.current.get();
}

void LoaderEngine::begin_epochs(std::int64_t end) {
  State& state = *state_;
  if (end < 0) throw std::invalid_argument(fmt::format("DataLoader: epochs({}) must be at least 0", end));
  const bool just_loaded = std::exchange(state.just_loaded, false);
  if (end == 0 || state.place.epoch() < end || state.loading->rank != 0) return;
  if (just_loaded)
    log::warning(
        "DataLoader: nothing is left to train: the loaded state is already at the end of epochs({}) of {}",
        end, state.loading->source->name());
  if (std::exchange(state.may_be_empty, true)) return;
  log::warning(
      "DataLoader: a loop over epochs({0}) has no batch: it ends before epoch {0}, "
      "and the loader of {1} is at epoch {2} already; for one more pass write `for (auto& batch : loader)`",
      end, state.loading->source->name(), state.place.epoch());
}

std::int64_t LoaderEngine::begin_pass() {
  State& state = *state_;
  state.by_passes = true;
  // If in_order is false, the loop may have received later batches of this epoch, but not yet the first one.
  if ((state.place.batch() > 0 || !state.place.passed.empty()) && !state.goes_on) {
    stop();
    state.place.begin_epoch(state.place.epoch() + 1);
  }
  return state.place.epoch() + 1;
}

void LoaderEngine::skip_failed_batch() {
  State& state = *state_;
  if (!state.failed)
    throw std::logic_error(
        "DataLoader: skip_failed_batch() must follow an error about one batch, and there was none");
  state.place.pass(*std::exchange(state.failed, std::nullopt), *state.loading);
}

std::int64_t LoaderEngine::epoch() const {
  return state_->current ? state_->info.epoch : state_->place.epoch();
}

std::pair<int, int> LoaderEngine::share() const {
  return {state_->loading->rank, state_->loading->world_size};
}

const BatchInfo& LoaderEngine::info() const {
  return state_->info;
}

std::int64_t LoaderEngine::batches_per_epoch() const {
  if (state_->loading->streams())
    throw std::logic_error("DataLoader: an iterable dataset does not say how many batches it has");
  return state_->loading->batches(state_->current ? state_->given : state_->place.ticket);
}

DataLoaderState LoaderEngine::state() const {
  if (!state_->loading->options.in_order)
    throw std::logic_error(
        "DataLoader: a loader with in_order = false has no position from which a run could resume");
  const Place& place = state_->place;
  if (place.turns) {
    DataLoaderState state = state_->here();
    state.epoch = place.epoch();
    state.consumed = place.turns->passed();
    state.of_shards = place.turns->batches();
    state.first_shard = state_->loading->shards.first;
    state.shards = state_->loading->shards.count;
    return state;
  }
  const Ticket& next = place.ticket;
  const bool whole = next.batch == 0 && next.first == 0;
  DataLoaderState state = state_->here();
  state.epoch = next.epoch;
  state.consumed = whole ? 0 : state_->loading->plan(next)->consumed_before(next.batch);
  return state;
}

// Returns a state for the place 0 of epoch 0. Everything else in the state comes from the options and the
// dataset.
DataLoaderState LoaderEngine::State::here() const {
  const DataLoaderOptions& options = loading->options;
  const bool per_rank = options.global_batch_size == 0 && !options.batch_sampler;
  return {.epoch = 0,
          .consumed = 0,
          .dataset_size = loading->source->size().value_or(0),
          .order = loading->order.description,
          .ranks = loading->world_size,
          .batch_size = per_rank ? options.batch_size : 0,
          .global_batch_size = options.global_batch_size};
}

void LoaderEngine::State::tell_change(const DataLoaderState& saved) const {
  const DataLoaderState now = here();
  const std::string change = change_of(saved, now);
  if (change.empty() || loading->rank != 0) return;
  const bool may_stay = saved.ranks != now.ranks && saved.batch_size > 0 && now.batch_size > 0;
  if (loading->streams()) {
    log::warning("DataLoader: {}: epoch {} continues, each sample still once", change, saved.epoch);
    return;
  }
  log::warning("DataLoader: {}: epoch {} continues at sample {}, each sample still once{}", change,
               saved.epoch, saved.consumed,
               may_stay ? fmt::format("; with .global_batch_size = {} instead of .batch_size, "
                                      "the batches are the same on any number of ranks",
                                      saved.ranks * saved.batch_size)
                        : "");
}

Place LoaderEngine::State::place_of(const DataLoaderState& saved) const {
  const auto refuse = [&](const std::string& why) {
    const std::string change = change_of(saved, here());
    throw std::invalid_argument(fmt::format("the data loader cannot resume from this state: {}{}{}", why,
                                            change.empty() ? "" : "; ", change));
  };
  const std::int64_t size = loading->source->size().value_or(0);
  if (saved.dataset_size != size)
    refuse(fmt::format("it was saved with {} samples, and {} now has {}", saved.dataset_size,
                       loading->source->name(), size));
  if (saved.order != loading->order.description)
    refuse(fmt::format("it was saved with the order {}, and the order is now {}", saved.order,
                       loading->order.description));
  if (saved.epoch < 0 || saved.consumed < 0)
    refuse(fmt::format("epoch = {} and consumed = {} must be at least 0", saved.epoch, saved.consumed));
  if (loading->streams()) {
    const ShardRange& here = loading->shards;
    const std::int64_t count = std::ssize(saved.of_shards);
    if (is_whole(saved)) return {.ticket = {}, .passed = {}, .turns = turns_from(saved.epoch, no_batches())};
    if (saved.shards != here.count)
      refuse(
          fmt::format("it was saved with {0} shards, and the stream now has {1}; "
                      "with .shards = {0} a run can resume with any number of ranks and workers",
                      saved.shards, here.count));
    if (saved.first_shard != here.first || count != here.mine)
      refuse(fmt::format("it has the shards {} to {}, and this rank reads {} to {}", saved.first_shard,
                         saved.first_shard + count - 1, here.first, here.first + here.mine - 1));
    return {.ticket = {}, .passed = {}, .turns = turns_from(saved.epoch, saved.of_shards)};
  }
  Ticket ticket{.epoch = saved.epoch};
  if (saved.consumed > 0) {
    const auto batch = loading->plan(ticket)->batch_at(saved.consumed);
    if (batch)
      ticket.batch = *batch;
    else if (loading->order.begins_anywhere)
      ticket.first = saved.consumed;
    else
      refuse(fmt::format("no batch begins at sample {} of epoch {}", saved.consumed, saved.epoch));
    if (ticket.batch == loading->batches(ticket)) ticket = {.epoch = saved.epoch + 1};
  }
  return {.ticket = ticket, .passed = {}, .turns = std::nullopt};
}

void LoaderEngine::check_state(const DataLoaderState& saved) const {
  state_->place_of(saved);
}

void LoaderEngine::load_state(const DataLoaderState& saved) {
  Place place = state_->place_of(saved);
  state_->tell_change(saved);
  stop();
  state_->place = std::move(place);
  state_->current.reset();
  state_->failed.reset();
  state_->goes_on = true;
  state_->just_loaded = state_->may_be_empty = true;
}

void LoaderEngine::stop() {
  state_->drop();
  state_->end_workers(state_->patience());
}

}  // namespace detail

at::Tensor BatchInfo::mask() const {
  const auto count = static_cast<std::int64_t>(indices.size());
  at::Tensor mask = at::ones({count}, at::kBool);
  mask.narrow(0, count - std::min(padding_count, count), std::min(padding_count, count)).fill_(false);
  return mask;
}

}  // namespace muster
