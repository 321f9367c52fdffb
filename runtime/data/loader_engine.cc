#include <algorithm>
#include <fmt/core.h>
#include <functional>
#include <muster/data_loader.h>
#include <mutex>
#include <span>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/control/step_time.h"
#include "runtime/control/training_loop.h"
#include "runtime/data/device_copy.h"
#include "runtime/data/loading.h"
#include "runtime/data/prefetcher.h"
#include "runtime/data/turns.h"

namespace muster {

namespace detail {

namespace {

constexpr int kDefaultPrefetchFactor = 2;

// The first batch that was not passed.
struct Place {
  Ticket ticket;               // of a dataset with indices
  std::optional<Turns> turns;  // of an iterable one
  std::int64_t epoch() const { return turns ? turns->epoch() : ticket.epoch; }
};

}  // namespace

struct LoaderEngine::State {
  State(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size)
      : loading(std::make_shared<Loading>(std::move(source), std::move(options), rank, world_size)) {
    if (loading->streams()) place.turns.emplace(0, std::vector<std::int64_t>(workers(), 0));
  }

  std::size_t workers() const { return static_cast<std::size_t>(loading->shards.mine); }
  void pass(Place& from, const Ticket& ticket) const;
  Place place_of(const DataLoaderState& saved) const;
  void offer(std::int64_t end);
  std::optional<Ticket> next_ticket();
  void start_workers();
  std::optional<Prefetcher::Taken> take(bool wait);
  std::optional<Prefetcher::Taken> load(bool wait);
  void stage(bool wait);
  void set_info(const Ticket& ticket, const LoadedBatch& loaded);

  const std::uint64_t number = new_loader_number();
  const std::shared_ptr<Loading> loading;
  Place place;       // what training has not consumed; out of order, after as many as it has
  std::mutex mutex;  // of where the workers' tickets come from:
  Place to_load;
  std::int64_t end_epoch = 0;
  std::optional<Prefetcher::Taken> staged;  // on the device already, and not consumed
  std::shared_ptr<void> current;
  BatchInfo info;
  bool hung = false;  // a worker was left behind
  std::optional<DeviceCopy> device_copy;
  std::unique_ptr<Prefetcher> prefetcher;  // the last member: its threads use the others
};

void LoaderEngine::State::pass(Place& from, const Ticket& ticket) const {
  if (from.turns) return from.turns->pass(ticket);
  Ticket& first = from.ticket;
  const bool last = first.batch + 1 == loading->plan(first.epoch)->size();
  first = last ? Ticket{.epoch = first.epoch + 1} : Ticket{.epoch = first.epoch, .batch = first.batch + 1};
}

// Lets the workers load up to the end of epoch `end` - 1.
void LoaderEngine::State::offer(std::int64_t end) {
  if (end == end_epoch) return;  // only this thread changes it
  {
    const std::lock_guard lock(mutex);
    if (end_epoch == 0) to_load = place;
    end_epoch = end;
  }
  if (prefetcher) prefetcher->more();
}

std::optional<Ticket> LoaderEngine::State::next_ticket() {
  const std::lock_guard lock(mutex);
  for (const Ticket& ticket : loading->take_ends()) to_load.turns->end(ticket);
  if (to_load.epoch() >= end_epoch) return std::nullopt;
  const Ticket ticket = to_load.turns ? to_load.turns->next() : to_load.ticket;
  pass(to_load, ticket);
  return ticket;
}

// Nothing if `wait` is false and none is ready. Of an iterable dataset it may be empty: a shard has ended.
std::optional<Prefetcher::Taken> LoaderEngine::State::take(bool wait) {
  const DataLoaderOptions& options = loading->options;
  if (options.num_workers == 0) {
    if (!wait) return std::nullopt;
    const at::NoGradGuard no_grad;
    loading->begin(0);
    const auto ticket = next_ticket();
    return Prefetcher::Taken{*ticket, loading->load(*ticket)};
  }
  if (!prefetcher) start_workers();
  if (!wait) return prefetcher->take(Seconds(0));
  auto taken = prefetcher->take(options.timeout.count() > 0 ? std::optional(options.timeout) : std::nullopt);
  if (taken) return taken;
  const auto awaited = prefetcher->awaited();
  prefetcher->abandon();
  prefetcher.reset();
  hung = true;
  throw std::runtime_error(fmt::format(
      "DataLoader: {} gave no batch within {} s: {}", loading->source->name(), options.timeout.count(),
      awaited ? loading->describe(*awaited) : "worker_init_fn has not returned"));
}

// Nothing if `wait` is false and no batch is ready, or if the last epoch of an iterable dataset is over.
std::optional<Prefetcher::Taken> LoaderEngine::State::load(bool wait) {
  for (;;) {
    auto taken = take(wait);
    if (!taken || taken->batch.count > 0) return taken;
    Turns& turns = *place.turns;
    const std::int64_t epoch = turns.epoch();
    const bool none = turns.passed() == 0;
    turns.end(taken->ticket);
    if (none && turns.epoch() > epoch) {
      const ShardRange& shards = loading->shards;
      throw std::runtime_error(fmt::format(
          "DataLoader: {} gave no batch for shards {} to {} of {} in epoch {}", loading->source->name(),
          shards.first, shards.first + shards.mine - 1, shards.count, epoch));
    }
    if (turns.epoch() >= end_epoch) return std::nullopt;
  }
}

void LoaderEngine::State::start_workers() {
  const DataLoaderOptions& options = loading->options;
  const std::int64_t factor = options.prefetch_factor.value_or(kDefaultPrefetchFactor);
  prefetcher = std::make_unique<Prefetcher>(
      Prefetcher::Work{.begin = [loading = loading](int worker) { loading->begin(worker); },
                       .next_ticket = [this] { return next_ticket(); },
                       .load = [loading = loading](const Ticket& ticket) { return loading->load(ticket); }},
      Prefetcher::Limits{.workers = options.num_workers,
                         .batches = options.num_workers * factor,
                         .bytes = options.prefetch_bytes,
                         .in_order = options.in_order});
}

// Takes the next batch, if it is there or is to be waited for, and begins to copy it to the device.
void LoaderEngine::State::stage(bool wait) {
  if (staged) return;
  staged = load(wait);
  if (staged && device_copy) device_copy->begin(staged->batch.tensors);
}

void LoaderEngine::State::set_info(const Ticket& ticket, const LoadedBatch& loaded) {
  info = {.epoch = ticket.epoch,
          .batch = place.turns ? place.turns->passed() : ticket.batch,
          .indices = loading->indices(ticket),
          .skipped = loaded.skipped};
  info.indices.resize(static_cast<std::size_t>(loaded.count));
  const auto is_skipped = [&](std::int64_t index) {
    return std::ranges::find(loaded.skipped, index) != loaded.skipped.end();
  };
  if (!place.turns) {
    const auto plan = loading->plan(ticket.epoch);
    const auto padding =
        std::span(info.indices).last(static_cast<std::size_t>(plan->padding_of(ticket.batch)));
    info.padding_count = std::ranges::count_if(padding, std::not_fn(is_skipped));
    info.weight = plan->weight_of(ticket.batch);
  }
  std::erase_if(info.indices, is_skipped);
}

LoaderEngine::LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank,
                           int world_size) {
  const std::string name = source->name();
  const std::int64_t size = source->size().value_or(world_size);
  if (size <= 0) throw std::invalid_argument(fmt::format("DataLoader: {} has no samples", name));
  if (size < world_size && (options.global_batch_size > 0 || options.uneven_ranks != UnevenRanks::kPad)) {
    throw std::invalid_argument(fmt::format("DataLoader: {} has {} samples, fewer than there are ranks ({})",
                                            name, size, world_size));
  }
  state_ = std::make_unique<State>(std::move(source), std::move(options), rank, world_size);
  Loading& loading = *state_->loading;
  if (!loading.streams() && loading.plan(0)->size() == 0) {
    throw std::invalid_argument(
        fmt::format("DataLoader: {} samples of {} for {} ranks give no batch of {}", size, name, world_size,
                    std::max(loading.options.batch_size, loading.options.global_batch_size)));
  }
  if (loading.options.device && !loading.options.device->is_cpu())
    state_->device_copy.emplace(*loading.options.device);
}

LoaderEngine::~LoaderEngine() {
  if (state_) forget_batch(state_->number);
}

void* LoaderEngine::next(std::int64_t end) {
  State& state = *state_;
  const DataLoaderOptions& options = state.loading->options;
  put_batch_back(state.number);
  const InStepPart waiting(kDataPart);
  state.current.reset();  // its memory can go to the next batch
  const auto over = [&] {
    if (!options.persistent_workers) stop();
    end_loop({.loader = state.number, .end = end});
    return nullptr;
  };
  if (state.place.epoch() >= end) return over();
  if (state.hung && state.loading->streams())
    throw std::runtime_error("DataLoader: a worker still hangs in " + state.loading->source->name());
  if (end < state.end_epoch) stop();  // what is loaded ahead may be beyond this end
  state.offer(end);
  state.stage(/*wait=*/true);
  if (!state.staged) return over();
  Prefetcher::Taken taken = *std::exchange(state.staged, std::nullopt);
  state.set_info(taken.ticket, taken.batch);
  state.pass(state.place, taken.ticket);
  if (state.device_copy) {
    state.device_copy->finish(taken.batch.tensors);
    if (state.place.epoch() < end) state.stage(/*wait=*/false);
  }
  state.current = std::move(taken.batch.batch);
  take_batch({.loader = state.number, .end = end}, [this, ticket = taken.ticket] {
    return fmt::format("{}, {}", state_->loading->source->name(), state_->loading->describe(ticket));
  });
  return state.current.get();
}

const BatchInfo& LoaderEngine::info() const {
  return state_->info;
}

std::int64_t LoaderEngine::batches_per_epoch() const {
  if (state_->loading->streams())
    throw std::logic_error("DataLoader: an iterable dataset does not say how many batches it has");
  return state_->loading->plan(state_->info.epoch)->size();
}

DataLoaderState LoaderEngine::state() const {
  const Loading& loading = *state_->loading;
  if (!loading.options.in_order)
    throw std::logic_error(
        "DataLoader: a loader with in_order = false has no place from which a run could go on");
  const Place& place = state_->place;
  if (place.turns) {
    return {.epoch = place.epoch(),
            .consumed = place.turns->passed(),
            .dataset_size = 0,
            .order = loading.order.description,
            .of_workers = place.turns->batches()};
  }
  const auto plan = state_->loading->plan(place.ticket.epoch);
  return {.epoch = place.ticket.epoch,
          .consumed = plan->global_offsets[static_cast<std::size_t>(place.ticket.batch)],
          .dataset_size = *loading.source->size(),
          .order = loading.order.description};
}

Place LoaderEngine::State::place_of(const DataLoaderState& saved) const {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("the data loader cannot go on from this state: " + why);
  };
  const std::int64_t size = loading->source->size().value_or(0);
  if (saved.dataset_size != size)
    refuse(fmt::format("it is of {} samples, and here {} has {}", saved.dataset_size, loading->source->name(),
                       size));
  if (saved.order != loading->order.description)
    refuse(fmt::format("it is of the order {}, and here it is {}{}", saved.order, loading->order.description,
                       loading->streams() ? "; an iterable dataset needs as many ranks and workers" : ""));
  if (saved.epoch < 0 || saved.consumed < 0 ||
      std::ranges::any_of(saved.of_workers, [](std::int64_t batches) { return batches < 0; }))
    refuse(fmt::format("epoch {}, sample {}", saved.epoch, saved.consumed));
  if (loading->streams()) {
    if (saved.of_workers.size() != workers())
      refuse(fmt::format("it tells of {} workers, and here are {}", saved.of_workers.size(), workers()));
    return {.ticket = {}, .turns = Turns(saved.epoch, saved.of_workers)};
  }
  const auto plan = loading->plan(saved.epoch);
  const auto batch = plan->batch_at(saved.consumed);
  if (!batch) {
    refuse(fmt::format("with {} ranks of batch size {} no batch begins at sample {} of epoch {}",
                       loading->world_size, loading->options.batch_size, saved.consumed, saved.epoch));
  }
  const Ticket ticket = *batch < plan->size() ? Ticket{.epoch = saved.epoch, .batch = *batch}
                                              : Ticket{.epoch = saved.epoch + 1};
  return {.ticket = ticket, .turns = std::nullopt};
}

void LoaderEngine::check_state(const DataLoaderState& saved) const {
  state_->place_of(saved);
}

void LoaderEngine::load_state(const DataLoaderState& saved) {
  Place place = state_->place_of(saved);
  stop();
  state_->place = std::move(place);
}

// What was loaded ahead is loaded again.
void LoaderEngine::stop() {
  state_->prefetcher.reset();
  state_->loading->take_ends();  // those of batches that will be loaded again
  state_->staged.reset();
  state_->end_epoch = 0;  // no worker lives
}

}  // namespace detail

at::Tensor BatchInfo::mask() const {
  const auto count = static_cast<std::int64_t>(indices.size());
  at::Tensor mask = at::ones({count}, at::kBool);
  mask.narrow(0, count - std::min(padding_count, count), std::min(padding_count, count)).fill_(false);
  return mask;
}

}  // namespace muster
