#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <muster/data_loader.h>
#include <muster/distributed_sampler.h>
#include <muster/elastic_sampler.h>
#include <muster/sampler.h>
#include <mutex>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/control/batch_in_hand.h"
#include "runtime/control/step_time.h"
#include "runtime/control/uncaught.h"
#include "runtime/data/argument.h"
#include "runtime/data/batch_memory.h"
#include "runtime/data/device_copy.h"
#include "runtime/data/prefetcher.h"

namespace muster {

namespace {

constexpr std::size_t kNamedSamples = 8;  // in an error message
constexpr int kDefaultPrefetchFactor = 2;

void exclude(bool both, const char* option, const char* other) {
  if (both)
    throw std::invalid_argument(fmt::format("DataLoader: {} and {} exclude each other", option, other));
}

void check_options(const DataLoaderOptions& options) {
  check_argument(options.batch_size >= 1, "DataLoader: batch_size", options.batch_size, "at least 1");
  check_argument(options.global_batch_size >= 0, "DataLoader: global_batch_size", options.global_batch_size,
                 "at least 1, or 0 for none");
  check_argument(options.num_workers >= 0, "DataLoader: num_workers", options.num_workers, "at least 0");
  check_argument(options.timeout.count() >= 0, "DataLoader: timeout", options.timeout.count(),
                 "at least 0 seconds");
  check_argument(options.prefetch_bytes >= 1, "DataLoader: prefetch_bytes", options.prefetch_bytes,
                 "at least 1");
  if (options.prefetch_factor) {
    check_argument(*options.prefetch_factor >= 1, "DataLoader: prefetch_factor", *options.prefetch_factor,
                   "at least 1");
  }
  exclude(options.sampler && options.shuffle, "sampler", "shuffle");
  exclude(options.global_batch_size > 0 && options.batch_size != 1, "global_batch_size", "batch_size");
  exclude(options.global_batch_size > 0 && options.uneven_ranks != UnevenRanks::kPad, "global_batch_size",
          "uneven_ranks");
  if (options.batch_sampler) {
    exclude(options.batch_size != 1, "batch_sampler", "batch_size");
    exclude(options.global_batch_size > 0, "batch_sampler", "global_batch_size");
    exclude(options.shuffle, "batch_sampler", "shuffle");
    exclude(options.sampler != nullptr, "batch_sampler", "sampler");
    exclude(options.drop_last, "batch_sampler", "drop_last");
  }
  if (options.num_workers > 0) return;
  // As PyTorch says it: without workers there is nothing that these could mean.
  const auto needs_workers = [](bool set, const char* option) {
    if (set) throw std::invalid_argument(fmt::format("DataLoader: {} needs num_workers above 0", option));
  };
  needs_workers(options.prefetch_factor.has_value(), "prefetch_factor");
  needs_workers(options.persistent_workers, "persistent_workers");
  needs_workers(options.timeout.count() > 0, "timeout");
}

// What the options say of the order, as one thing.
struct Order {
  std::function<BatchPlan(std::int64_t epoch)> plan;
  std::string description;
};

template <class Planner, class... Argument>
Order order_by(Planner planner, Argument... argument) {
  std::string description = planner.description();
  return {.plan = [planner = std::move(planner),
                   argument...](std::int64_t epoch) { return planner.plan(epoch, argument...); },
          .description = std::move(description)};
}

Order order_of(const DataLoaderOptions& options, std::int64_t size, int rank, int world_size) {
  if (options.batch_sampler) return order_by(ElasticSampler(options.batch_sampler, world_size, rank));
  std::shared_ptr<const Sampler> sampler = options.sampler;
  if (!sampler && options.shuffle)
    sampler = std::make_shared<RandomSampler>(size, RandomSamplerOptions{.seed = options.seed});
  if (!sampler) sampler = std::make_shared<SequentialSampler>(size);
  if (options.global_batch_size > 0) {
    const auto batches =
        std::make_shared<BatchSampler>(sampler, options.global_batch_size, options.drop_last);
    return order_by(ElasticSampler(batches, world_size, rank));
  }
  const DistributedTail tail{.drop_last = options.uneven_ranks == UnevenRanks::kDrop,
                             .pad = options.uneven_ranks == UnevenRanks::kPad};
  return order_by(DistributedSampler(sampler, world_size, rank, tail), options.batch_size, options.drop_last);
}

// All that loading needs, and nothing that changes but under a lock: shared with workers, which may outlive
// the loader if they hang.
class Loading {
 public:
  Loading(std::unique_ptr<detail::BatchSource> source, DataLoaderOptions options, int rank, int world_size);

  std::shared_ptr<const BatchPlan> plan(std::int64_t epoch);
  void begin(int worker) const;
  detail::LoadedBatch load(const Ticket& ticket);
  std::string describe(const Ticket& ticket);

  const std::unique_ptr<detail::BatchSource> source;
  const DataLoaderOptions options;
  const int rank;
  const int world_size;
  const Order order;

 private:
  void pin(detail::LoadedBatch& loaded) const;

  const std::shared_ptr<BatchMemory> memory_;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const BatchPlan>>
      plans_;  // two at once where one epoch ends and the next begins
};

Loading::Loading(std::unique_ptr<detail::BatchSource> the_source, DataLoaderOptions the_options, int the_rank,
                 int the_world_size)
    : source(std::move(the_source)),
      options(std::move(the_options)),
      rank(the_rank),
      world_size(the_world_size),
      order(order_of(options, source->size(), rank, world_size)),
      memory_(std::make_shared<BatchMemory>(static_cast<std::size_t>(options.prefetch_bytes))) {}

std::shared_ptr<const BatchPlan> Loading::plan(std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  auto& plan = plans_[epoch];
  if (!plan) {
    plan = std::make_shared<const BatchPlan>(order.plan(epoch));
    plans_.erase(plans_.begin(), plans_.lower_bound(epoch - 1));
  }
  return plan;
}

void Loading::begin(int worker) const {
  detail::set_worker_info({.id = worker,
                           .num_workers = options.num_workers,
                           .rank = rank,
                           .world_size = world_size,
                           .seed = options.seed});
  if (options.worker_init_fn && options.num_workers > 0) options.worker_init_fn(worker);
}

detail::LoadedBatch Loading::load(const Ticket& ticket) {
  const auto epoch = plan(ticket.epoch);
  const std::span<const std::int64_t> indices = (*epoch)[ticket.batch];
  const bool pinned = options.pin_memory && torch::cuda::is_available();
  try {
    const UseBatchMemory use(memory_, pinned);
    detail::begin_batch(options.seed, ticket.epoch);
    detail::LoadedBatch loaded = source->load(indices, options.bad_sample);
    if (!loaded.batch) throw std::runtime_error("none of its samples can be read");
    if (pinned) pin(loaded);
    return loaded;
  } catch (...) {
    std::throw_with_nested(std::runtime_error(
        fmt::format("{}: {}: {}", source->name(), describe(ticket), current_exception_text())));
  }
}

// What was not made by batch_empty().
void Loading::pin(detail::LoadedBatch& loaded) const {
  for (at::Tensor* tensor : loaded.tensors) {
    if (tensor->defined() && tensor->is_cpu() && !tensor->is_pinned()) *tensor = tensor->pin_memory();
  }
}

std::string Loading::describe(const Ticket& ticket) {
  const auto epoch = plan(ticket.epoch);
  const auto indices = (*epoch)[ticket.batch];
  const auto named = indices.first(std::min(indices.size(), kNamedSamples));
  return fmt::format("epoch {}, batch {} (samples {}{})", ticket.epoch, ticket.batch, fmt::join(named, ", "),
                     named.size() < indices.size() ? ", ..." : "");
}

}  // namespace

namespace detail {

struct LoaderEngine::State {
  State(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size)
      : loading(std::make_shared<Loading>(std::move(source), std::move(options), rank, world_size)) {}

  Ticket after(const Ticket& ticket) const;
  Ticket place_of(const DataLoaderState& saved) const;
  void offer(std::int64_t end);
  std::optional<Ticket> next_ticket();
  void start_workers();
  std::optional<Prefetcher::Taken> load(bool wait);
  void stage(bool wait);
  void set_info(const Ticket& ticket, const LoadedBatch& loaded);

  const std::shared_ptr<Loading> loading;
  Ticket place;      // the first batch that training has not consumed; out of order, after as many as it has
  std::mutex mutex;  // of where the workers' tickets come from:
  Ticket to_load;
  std::int64_t end_epoch = 0;
  std::optional<Prefetcher::Taken> staged;  // on the device already, and not consumed
  std::shared_ptr<void> current;
  BatchInfo info;
  std::optional<DeviceCopy> device_copy;
  std::unique_ptr<Prefetcher> prefetcher;  // the last member: its threads use the others
};

Ticket LoaderEngine::State::after(const Ticket& ticket) const {
  if (ticket.batch + 1 < loading->plan(ticket.epoch)->size()) return {ticket.epoch, ticket.batch + 1};
  return {ticket.epoch + 1, 0};
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
  if (to_load.epoch >= end_epoch) return std::nullopt;
  const Ticket ticket = to_load;
  to_load = after(ticket);
  return ticket;
}

// Nothing if `wait` is false and no batch is ready.
std::optional<Prefetcher::Taken> LoaderEngine::State::load(bool wait) {
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
  throw std::runtime_error(fmt::format(
      "DataLoader: {} gave no batch within {} s: {}", loading->source->name(), options.timeout.count(),
      awaited ? loading->describe(*awaited) : "worker_init_fn has not returned"));
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
  const auto plan = loading->plan(ticket.epoch);
  const auto indices = (*plan)[ticket.batch];
  info = {.epoch = ticket.epoch,
          .batch = ticket.batch,
          .indices = {},
          .skipped = loaded.skipped,
          .padding_count = plan->padding_of(ticket.batch),
          .weight = plan->weight_of(ticket.batch)};
  std::ranges::copy_if(indices, std::back_inserter(info.indices), [&](std::int64_t index) {
    return std::ranges::find(loaded.skipped, index) == loaded.skipped.end();
  });
}

LoaderEngine::LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank,
                           int world_size) {
  check_options(options);
  const std::string name = source->name();
  if (source->size() <= 0) throw std::invalid_argument(fmt::format("DataLoader: {} has no samples", name));
  if (source->size() < world_size &&
      (options.global_batch_size > 0 || options.uneven_ranks != UnevenRanks::kPad)) {
    throw std::invalid_argument(fmt::format("DataLoader: {} has {} samples, fewer than there are ranks ({})",
                                            name, source->size(), world_size));
  }
  state_ = std::make_unique<State>(std::move(source), std::move(options), rank, world_size);
  Loading& loading = *state_->loading;
  if (loading.plan(0)->size() == 0) {
    throw std::invalid_argument(fmt::format(
        "DataLoader: {} samples of {} for {} ranks give no batch of {}", loading.source->size(), name,
        world_size, std::max(loading.options.batch_size, loading.options.global_batch_size)));
  }
  if (loading.options.device && !loading.options.device->is_cpu())
    state_->device_copy.emplace(*loading.options.device);
}

LoaderEngine::~LoaderEngine() {
  forget_batch(this);
}

void* LoaderEngine::next(std::int64_t end) {
  State& state = *state_;
  const DataLoaderOptions& options = state.loading->options;
  put_batch_back(this);
  const InStepPart waiting(kDataPart);
  state.current.reset();  // its memory can go to the next batch
  if (state.place.epoch >= end) {
    if (!options.persistent_workers) stop();
    return nullptr;
  }
  if (end < state.end_epoch) stop();  // what is loaded ahead may be beyond this end
  state.offer(end);
  state.stage(/*wait=*/true);
  Prefetcher::Taken taken = *std::exchange(state.staged, std::nullopt);
  if (state.device_copy) {
    state.device_copy->finish(taken.batch.tensors);
    if (state.after(state.place).epoch < end) state.stage(/*wait=*/false);
  }
  state.set_info(taken.ticket, taken.batch);
  state.place = state.after(state.place);
  state.current = std::move(taken.batch.batch);
  take_batch(this, [this, ticket = taken.ticket] {
    return fmt::format("{}, {}", state_->loading->source->name(), state_->loading->describe(ticket));
  });
  return state.current.get();
}

const BatchInfo& LoaderEngine::info() const {
  return state_->info;
}

std::int64_t LoaderEngine::batches_per_epoch() const {
  return state_->loading->plan(state_->info.epoch)->size();
}

DataLoaderState LoaderEngine::state() const {
  const Loading& loading = *state_->loading;
  if (!loading.options.in_order)
    throw std::logic_error(
        "DataLoader: a loader with in_order = false has no place from which a run could go on");
  const Ticket& place = state_->place;
  const auto plan = state_->loading->plan(place.epoch);
  return {.epoch = place.epoch,
          .consumed = plan->global_offsets[static_cast<std::size_t>(place.batch)],
          .dataset_size = loading.source->size(),
          .order = loading.order.description};
}

Ticket LoaderEngine::State::place_of(const DataLoaderState& saved) const {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("the data loader cannot go on from this state: " + why);
  };
  if (saved.dataset_size != loading->source->size())
    refuse(fmt::format("it is of {} samples, and here {} has {}", saved.dataset_size, loading->source->name(),
                       loading->source->size()));
  if (saved.order != loading->order.description)
    refuse(fmt::format("it is of the order {}, and here it is {}", saved.order, loading->order.description));
  if (saved.epoch < 0 || saved.consumed < 0)
    refuse(fmt::format("epoch {}, sample {}", saved.epoch, saved.consumed));
  const auto plan = loading->plan(saved.epoch);
  const auto batch = plan->batch_at(saved.consumed);
  if (!batch) {
    refuse(fmt::format("with {} ranks of batch size {} no batch begins at sample {} of epoch {}",
                       loading->world_size, loading->options.batch_size, saved.consumed, saved.epoch));
  }
  return *batch < plan->size() ? Ticket{saved.epoch, *batch} : Ticket{saved.epoch + 1, 0};
}

void LoaderEngine::check_state(const DataLoaderState& saved) const {
  state_->place_of(saved);
}

void LoaderEngine::load_state(const DataLoaderState& saved) {
  const Ticket place = state_->place_of(saved);
  stop();
  state_->place = place;
}

// What was loaded ahead is loaded again.
void LoaderEngine::stop() {
  state_->prefetcher.reset();
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
