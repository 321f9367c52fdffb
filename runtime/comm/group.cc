#include <algorithm>
#include <array>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/comm/job.h>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/comm/call.h"
#include "runtime/comm/formation.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/backend.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/comm/process_group.h"
#include "runtime/rank/uncaught.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kAnswer{200};  // the longest wait for a server's answer

std::string leaving_key(int rank) {
  return fmt::format("left/{}", rank);
}

}  // namespace

Group::State::~State() {
  close_abandoned();
  if (std::uncaught_exceptions() > 0) return;
  if (keeps_job != nullptr) leave_word(*keeps_job);
  shut_down();
}

// Tells the other ranks that this rank leaves in good order: it adds an entry to the store. This function
// returns when the store has answered, so the entry is written before this process ends.
void Group::State::leave_word(const Job::State& in) const noexcept {
  if (process_group == nullptr || call_count == 0 || !in.presence.fd) return;
  // If the store has ended, this function does nothing: torch would only print a warning.
  if (store_is_gone(in)) return;
  try {
    store->add(leaving_key(ranks[static_cast<std::size_t>(rank)]), call_count);
  } catch (...) {
    // The store has just gone.
  }
}

bool store_is_gone(const Job::State& job) {
  return job.world.store == StoreKind::kConnect && !job.world.agent_serves &&
         refuses(job.world.host, job.world.port, kAnswer);
}

namespace {

// PrefixStore lets only derived classes access its prefix. So this class is derived from it.
struct OpenPrefixStore : c10d::PrefixStore {
  static const std::string& prefix(const c10d::PrefixStore& store) {
    return store.*&OpenPrefixStore::prefix_;
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store) {
  constexpr std::chrono::seconds kConnectLimit{10};
  if (auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store.get()))
    return c10::make_intrusive<c10d::PrefixStore>(OpenPrefixStore::prefix(*prefixed),
                                                  connect_again(prefixed->getUnderlyingStore()));
  const auto* const served = dynamic_cast<c10d::TCPStore*>(store.get());
  if (served == nullptr) return store->clone();
  c10d::TCPStoreOptions options;
  options.port = served->getPort();
  options.waitWorkers = false;
  options.timeout = kConnectLimit;
  const auto again = c10::make_intrusive<c10d::TCPStore>(served->getHost(), options);
  again->setTimeout(store->getTimeout());
  return again;
}

std::int64_t calls_of_who_left(c10d::Store& store, int rank) {
  return store.check({leaving_key(rank)}) ? std::atoll(store.get_to_str(leaving_key(rank)).c_str()) : 0;
}

void Group::State::close_abandoned() noexcept {
  if (process_group == nullptr || abandoned_peer < 0) return;
  try {
    close_gloo(*process_group, abandoned_peer);
  } catch (...) {
    log::warning("rank {}: the connections of the process group '{}' could not be closed: {}",
                 ranks[static_cast<std::size_t>(rank)], name, current_exception_text());
  }
}

void Group::State::shut_down() noexcept {
  const auto leaving = std::exchange(process_group, nullptr);
  if (leaving == nullptr) return;
  const auto tried = [&](auto& of) {
    try {
      of.shutdown();
    } catch (...) {
      log::warning("rank {}: the process group '{}' could not be shut down: {}",
                   ranks[static_cast<std::size_t>(rank)], name, current_exception_text());
    }
  };
  tried(*leaving);  // also shuts down NCCL's collectives
  for (const auto& each : nccl_backends()) {
    if (each != nullptr && each != nccl) tried(*each);
    note_nccl_failure_of(each);
  }
}

std::array<c10::intrusive_ptr<c10d::Backend>, 3> Group::State::nccl_backends() const {
  if (!messages) return {nccl};
  return {nccl, messages->up(), messages->down()};
}

std::string Group::State::nccl_failure() const {
  for (const auto& each : nccl_backends())
    if (std::string failure = nccl_failure_of(each); !failure.empty()) return failure;
  return {};
}

Group::State& state_of(const Group& group) {
  return *group.state_;
}

// The world is a part of the job's state, and lives as long as the job.
Group::Group(const Job& job) : state_(job.state_, &job.state_->all) {}

int Group::rank() const {
  return state_->rank;
}
int Group::size() const {
  return static_cast<int>(state_->ranks.size());
}
const std::vector<int>& Group::ranks() const {
  return state_->ranks;
}
const std::string& Group::name() const {
  return state_->name;
}
std::string Group::description() const {
  return fmt::format("group '{}' of rank{} {}", name(), size() == 1 ? "" : "s", fmt::join(ranks(), ", "));
}

int Group::place_of(int job_rank) const {
  const auto found = std::ranges::lower_bound(state_->ranks, job_rank);
  if (found == state_->ranks.end() || *found != job_rank)
    throw std::invalid_argument(fmt::format("rank {} is not in the {}", job_rank, description()));
  return static_cast<int>(found - state_->ranks.begin());
}

Job Group::job() const {
  return Job(state_->job.lock());
}
c10::Device Group::device() const {
  return job().device();
}

const c10::intrusive_ptr<c10d::ProcessGroup>& Group::process_group() const {
  require_member(*this, "Group::process_group");
  return state_->process_group;
}
const c10::intrusive_ptr<c10d::Store>& Group::store() const {
  require_member(*this, "Group::store");
  return state_->store;
}

namespace {

std::string presence_key(int rank) {
  return fmt::format("presence/{}", rank);
}

// Listens at a port, so that other ranks can check later whether this process is alive. If this rank cannot
// listen, the other ranks do not check it.
void show_presence(Job::State& job) {
  const std::string address = address_in(job.world);
  auto listener = listen_on(address);
  if (!listener) return;
  job.presence = std::move(*listener);
  job.store->set(presence_key(job.world.rank), fmt::format("{} {}", job.presence.port, address));
}

}  // namespace

void wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds limit) {
  // Polls, because store.wait() prints a warning when it times out.
  constexpr std::chrono::milliseconds kBetween{20};
  for (const TimePoint end = Clock::now() + limit; Clock::now() < end && !store.check({key});)
    std::this_thread::sleep_for(kBetween);
}

void clear_presence(Job::State& job) {
  if (!job.presence.fd) return;
  const TimePoint now = Clock::now();
  if (now - job.presence_cleared_at.load() < std::chrono::seconds(1)) return;
  job.presence_cleared_at = now;
  turn_away(job.presence);
}

std::string find_gone(const Job::State& job, const std::vector<int>& ranks,
                      const std::function<bool(int)>& may_be_gone) {
  for (const int rank : ranks) {
    if (rank == job.world.rank || !job.store->check({presence_key(rank)})) continue;
    const std::string there = job.store->get_to_str(presence_key(rank));
    const std::size_t space = std::min(there.find(' '), there.size() - 1);
    if (refuses(there.substr(space + 1), static_cast<std::uint16_t>(std::atoi(there.c_str())), kAnswer) &&
        !(may_be_gone && may_be_gone(rank)))
      return fmt::format("rank {} is gone", rank);
  }
  return {};
}

std::string who_is_gone(const Job::State& job, const std::vector<int>& ranks) {
  if (!job.presence.fd) return {};
  for (const auto pause : kPauses) {
    if (std::string gone = find_gone(job, ranks); !gone.empty()) return gone;
    std::this_thread::sleep_for(pause);
  }
  return {};
}

int agree_to_form(const Job& job, const FormationRequest& request) {
  Job::State& state = state_of(job);
  std::call_once(state.presence_shown, [&] { show_presence(state); });
  const int number = state.formation_count++;
  c10d::Store& store = *state.store;
  const std::string key = fmt::format("formation/{}/", number);
  std::string refusal = request.refusal;
  if (refusal.empty()) {
    const std::string mine = request.function + " of " + request.text;
    const std::string first =
        store.compareSet(key + "first", std::string(), fmt::format("{} {}", job.rank(), mine));
    const std::size_t space = first.find(' ');
    if (first.substr(space + 1) != mine)
      refusal = fmt::format("ranks call it with different arguments: rank {} {}, rank {} {}",
                            first.substr(0, space), first.substr(space + 1), job.rank(), mine);
  }
  if (!refusal.empty()) store.compareSet(key + "refused", std::string(), refusal);
  const std::int64_t arrived = store.add(key + "arrived", 1);
  if (arrived == job.world_size()) store.set(key + "all", "1");
  try {
    store.wait({key + "all"});
  } catch (const c10::Error&) {
    throw std::runtime_error(
        fmt::format("{}: {} of {} ranks called it in time; all ranks of the job must call it, members or not",
                    request.function, store.add(key + "arrived", 0), job.world_size()));
  }
  if (store.check({key + "refused"}))
    throw std::invalid_argument(request.function + ": " + store.get_to_str(key + "refused"));
  return number;
}

namespace {

// Returns null if the group has no NCCL.
c10::intrusive_ptr<c10d::Backend> nccl_of(c10d::ProcessGroup& group) {
  if (!std::ranges::any_of(group.getDeviceTypes(), &c10::Device::is_cuda)) return nullptr;
  auto backend = group.getBackend(c10::kCUDA);
  return backend->getBackendName() == "nccl" ? backend : nullptr;
}

}  // namespace

void set_backends(Group::State& state, const World& world, const GroupSetup& setup) {
  state.process_group = make_process_group(world, setup);
  state.nccl = nccl_of(*state.process_group);
  if (state.nccl == nullptr) return;
  state.messages.emplace(setup.place.rank, setup.device, [&state, setup](Direction direction) {
    return make_nccl_for_messages(setup, direction, state.nccl);
  });
}

Group form_group(const Job& job, std::vector<int> ranks, const std::string& key,
                 const GroupOptions& options) {
  Job::State& of_job = state_of(job);
  auto state = std::make_shared<Group::State>();
  state->job = of_job.all.job;
  state->keeps_job = of_job.all.job.lock();
  state->name = options.name;
  state->key = fmt::format("muster/{}/", key);
  state->ranks = std::move(ranks);
  const auto found = std::ranges::find(state->ranks, job.rank());
  const bool is_member = found != state->ranks.end();
  if (is_member) state->rank = static_cast<int>(found - state->ranks.begin());
  GroupPlace place{.rank = state->rank,
                   .ranks = state->ranks,
                   .prefix = "muster/" + key,
                   .name = state->name,
                   .backend = options.backend.empty() ? of_job.world.backend : options.backend,
                   .nccl = options.nccl.value_or(of_job.nccl)};
  if (place.nccl.split && (place.backend.empty() || place.backend == "nccl"))
    place.split_from = of_job.all.nccl;
  const GroupSetup setup{.place = std::move(place),
                         .store = of_job.store,
                         .device = of_job.device,
                         .timeout = options.timeout ? options.timeout : of_job.timeout};
  if (!is_member) {
    if (setup.place.split_from) stay_out_of_split(setup);
    return Group(std::move(state));
  }
  state->store = c10::make_intrusive<c10d::PrefixStore>(setup.place.prefix, of_job.store);
  set_backends(*state, of_job.world, setup);
  return Group(std::move(state));
}

namespace {

std::string refusal_of(const Job& job, const std::vector<int>& sorted, const GroupOptions& options) {
  if (sorted.empty()) return "no ranks are given";
  for (const int rank : sorted)
    if (rank < 0 || rank >= job.world_size())
      return fmt::format("rank {} is not in the job, whose ranks are 0 to {}", rank, job.world_size() - 1);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return fmt::format("rank {} is given twice", *twice);
  if (std::string why = refusal_of_backend(options.backend, fmt::format("backend '{}'", options.backend));
      !why.empty())
    return why;
  if (options.backend == "nccl" && !job.device().is_cuda())
    return "backend 'nccl' needs GPUs, but this job trains on CPUs";
  if (options.timeout && options.timeout->count() <= 0)
    return fmt::format("timeout is {} ms; it must be above 0", options.timeout->count());
  return options.nccl ? refusal_of_nccl(*options.nccl) : "";
}

// Returns a text that describes the options. The text must be equal on all ranks.
std::string text_to_compare(const GroupOptions& options) {
  std::string text = fmt::format("backend '{}', timeout {} ms, name '{}'", options.backend,
                                 options.timeout ? options.timeout->count() : 0, options.name);
  return options.nccl ? fmt::format("{}, nccl {}", text, text_of(*options.nccl)) : text;
}

// Keeps the store until a group has been created, because creating it needs the store. If rank 0 serves the
// store and is not a member of the group, it waits here until the members have created the group or have
// failed.
void keep_store_for(const Job& job, const std::string& group_key, const std::vector<int>& ranks) {
  if (state_of(job).world.agent_serves || ranks.front() == 0) return;
  c10d::Store& store = *job.store();
  const std::string key = fmt::format("muster/{}/made", group_key);
  if (std::ranges::binary_search(ranks, job.rank()) && std::cmp_equal(store.add(key, 1), ranks.size()))
    store.set(key + "/all", "1");
  if (job.rank() != 0) return;
  try {
    store.wait({key + "/all"});
  } catch (const c10::Error&) {
    // Rank 0 does not report this error, because the members of the group report which ranks are missing.
  }
}

}  // namespace

Group Job::new_group(const std::vector<int>& ranks, const GroupOptions& options) const {
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  GroupOptions chosen = options;
  const int number = agree_to_form(
      *this, {.function = "new_group",
              .text = fmt::format("ranks {} ({})", fmt::join(sorted, ", "), text_to_compare(options)),
              .refusal = refusal_of(*this, sorted, options)});
  const std::string key = fmt::format("group-{}", number);
  if (chosen.name.empty()) chosen.name = fmt::format("group {}", number);
  const auto formed = [&] {
    try {
      return form_group(*this, sorted, key, chosen);
    } catch (...) {
      keep_store_for(*this, key, sorted);
      throw;
    }
  };
  Group group = formed();
  keep_store_for(*this, key, sorted);
  return group;
}

}  // namespace muster
