#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <muster/comm/job.h>
#include <muster/rank/progress.h>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <stdio_ext.h>
#include <string_view>
#include <torch/cuda.h>

#include "common/base/log.h"
#include "common/wire/metric_name.h"
#include "runtime/comm/flight_record.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/backend.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/comm/process_group.h"
#include "runtime/rank/heap.h"
#include "runtime/rank/reports.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"
#include "runtime/rank/warm/template.h"
#include "runtime/rank/warm_seed.h"
#include "runtime/torch_versions.h"

namespace muster {

Job::State::State(const World& description, std::optional<std::chrono::milliseconds> chosen_timeout,
                  const NcclOptions& chosen_nccl, std::optional<int> listen_fd)
    : world(description),
      reports(world.report_socket, world.rank, world.attempt, flight_records),
      device(choose_device(world)),
      timeout(chosen_timeout),
      nccl(chosen_nccl),
      store(open_store(world, timeout.value_or(kBackendDefaultTimeout), listen_fd)) {
  all.name = "world";
  all.ranks.resize(static_cast<std::size_t>(world.world_size));
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  all.rank = world.rank;
  all.store = store;
  set_backends(all, world,
               {.place = {.rank = world.rank,
                          .ranks = all.ranks,
                          .prefix = "muster/world",
                          .name = all.name,
                          .backend = world.backend,
                          .nccl = nccl},
                .store = store,
                .device = device,
                .timeout = timeout});
}

// Waits until the work on the GPU has ended. NCCL ends its work at the latest when the group's timeout has
// passed. If there is an error, this function ends the process, because an exception from a destructor could
// not be caught.
void Job::State::end_gpu_work() noexcept {
  try {
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
  } catch (...) {
    const std::string text = current_exception_text();
    // A Job can be in static storage. CUDA may shut down before such a Job is destroyed. This is not an
    // error.
    if (!text.contains("shutting down") && !text.contains("unloading")) end_with_error(text);
  }
}

Job::State::~State() {
  reports.send_profile();
  flush_trace();
  all.close_abandoned();
  if (std::uncaught_exceptions() > 0) return;
  end_gpu_work();
  all.leave_word(*this);
  all.shut_down();
  if (const std::string failure = noted_nccl_failure(); !failure.empty()) end_with_error(failure);
  reports.send("finished", reports.newest_step());
}

int Job::rank() const {
  return state_->world.rank;
}
int Job::world_size() const {
  return state_->world.world_size;
}
int Job::local_rank() const {
  return state_->world.local_rank;
}
int Job::local_world_size() const {
  return state_->world.local_world_size;
}
int Job::node_rank() const {
  return state_->world.node_rank;
}
int Job::node_count() const {
  return state_->world.node_count;
}
c10::Device Job::device() const {
  return state_->device;
}
const c10::intrusive_ptr<c10d::ProcessGroup>& Job::process_group() const {
  return state_->all.process_group;
}
const c10::intrusive_ptr<c10d::Store>& Job::store() const {
  return state_->store;
}
const std::string& Job::job_id() const {
  return state_->world.job_id;
}
std::uint64_t Job::attempt() const {
  return state_->world.attempt;
}
int Job::restart_count() const {
  return state_->world.restart_count;
}
const std::string& Job::checkpoint_dir() const {
  return state_->world.checkpoint_dir;
}

void Job::barrier() const {
  step_time().meets(state_->all.key);
  const InStepPart waiting(kCommunicatePart);
  const Traced in_trace(TraceTrack::kCommunication, "barrier");
  c10d::BarrierOptions options;
  options.device = c10::kCPU;
  state_->all.process_group->barrier(options)->wait();
}

Group Job::world() const {
  return Group(*this);
}

Reports& reports_of(const Job& job) {
  return job.state_->reports;
}
Job::State& state_of(const Job& job) {
  return *job.state_;
}

namespace {

// Has the state of the newest Job, for functions that do not get a Job from their caller. It is never
// destroyed, because the program can have a Job in static storage.
struct Current {
  std::mutex mutex;
  std::weak_ptr<Job::State> state;
};
Current& current() {
  static auto* one = new Current;
  return *one;
}

}  // namespace

std::shared_ptr<Job::State> newest_job_state() {
  const std::lock_guard lock(current().mutex);
  return current().state.lock();
}

namespace {

std::shared_ptr<Job::State> current_state(std::string_view function) {
  auto state = newest_job_state();
  if (state == nullptr)
    throw std::logic_error(fmt::format("muster::{}: no Job exists yet; call init() first", function));
  return state;
}

void require_step(std::string_view function, std::int64_t step) {
  if (step < 0)
    throw std::invalid_argument(
        fmt::format("muster::{}: {} is not a step: expected 0 or more", function, step));
}

}  // namespace

void describe_step(const StepNumbers& numbers) {
  current_state("describe_step")->reports.describe_step(numbers.loss, numbers.samples);
}
void step(std::int64_t done) {
  const auto state = current_state("step");
  require_step("step", done);
  state->reports.step(done);
}
void committed(std::int64_t step) {
  const auto state = current_state("committed");
  require_step("committed", step);
  state->reports.send("committed", step);
}
void report(std::string_view name, double value, std::int64_t step) {
  const auto state = current_state("report");
  if (!wire::is_metric_name(name))
    throw std::invalid_argument(
        fmt::format("muster::report: '{}' is not a metric's name: expected a letter or _, then letters, "
                    "digits and _ / . -, at most {} in all",
                    name, wire::kMostMetricNameBytes));
  require_step("report", step);
  state->reports.metrics(step, {{std::string(name), value}});
}
std::optional<std::int64_t> resume_step() {
  return current_state("resume_step")->world.resume_step;
}
bool preemption_noticed() {
  const auto state = current_state("preemption_noticed");
  state->reports.offer_preemption();
  return state->reports.preemption_noticed();
}

namespace {

// Waits until every rank has arrived. Each rank sends two messages to the store. A barrier of Gloo is not
// used, because it would open connections between the ranks.
void meet(c10d::Store& store, int world_size) {
  const std::int64_t arrived = store.add("joined", 1);
  if (arrived == world_size) store.set("all_joined", std::vector<std::uint8_t>{1});
  try {
    store.wait({"all_joined"});
  } catch (const c10::Error&) {
    throw std::runtime_error(
        fmt::format("{} of {} ranks have reached muster::init()", store.add("joined", 0), world_size));
  }
}

// Makes this process ignore SIGPIPE, as Python does. If the program has its own handler, this function does
// nothing. If SIGPIPE were not ignored, it would end this rank without a message when Gloo writes to a
// process that has died. Then the user would look for the mistake in this rank.
void ignore_broken_pipes() {
  struct sigaction now{};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Makes stdout line-buffered. By default the C library writes to a pipe in blocks of 4 KiB: output would
// appear late, and be lost if the rank is killed. A program that has chosen an unbuffered stdout keeps it.
void print_by_lines() {
  if (__fbufsize(stdout) != 1) std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace

Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, const NcclOptions& nccl,
         std::optional<int> listen_fd) {
  print_by_lines();
  reuse_step_memory();
  ignore_broken_pipes();
  let_nccl_end_groups();
  compat::record_collectives();
  start_trace(world.trace_file, world.rank);
  const Traced joining(TraceTrack::kStep, "init");
  const auto state = std::make_shared<Job::State>(world, timeout, nccl, listen_fd);
  state->all.job = state;
  Job job(state);
  if (world.agent_serves) {
    meet(*job.store(), world.world_size);
  } else {
    // If rank 0 serves the store, it must not leave before the other ranks have read the last address from
    // the store. So all ranks wait here for each other.
    job.barrier();
  }
  const std::lock_guard lock(current().mutex);
  current().state = state;
  return job;
}

namespace {

std::atomic<bool> has_joined = false;

// Calls serve_as_template(), which sets `arguments`. If serve_as_template() returns in a forked worker,
// serve() gives the worker its own random seed.
warm::Serving serve(std::vector<std::string>* arguments) {
  // A second world is not possible. It would find the addresses and counters in the store that the first
  // world has left there.
  if (has_joined)
    throw std::logic_error(
        "muster::init: called a second time in this process; keep the first Job, whose copies share its state");
  const warm::Serving serving = warm::serve_as_template({}, arguments);
  if (serving != warm::Serving::kNoTemplate) draw_seed_unless_chosen();
  return serving;
}

Job join_world(const InitOptions& options) {
  const char* rank = std::getenv("RANK");
  handle_uncaught_exceptions(rank != nullptr ? rank : std::to_string(std::max(options.rank, 0)));
  auto world = read_world(options.init_method, options.rank, options.world_size,
                          [](const char* name) { return std::getenv(name); });
  if (!world) throw std::invalid_argument("muster::init: " + world.error().message());
  if (!options.backend.empty()) world->backend = options.backend;
  if (const auto why = refusal_of_backend(world->backend, fmt::format("backend '{}'", world->backend));
      !why.empty())
    throw std::invalid_argument("muster::init: " + why);
  if (const auto why = refusal_of_nccl(options.nccl); !why.empty())
    throw std::invalid_argument("muster::init: " + why);
  Job job = join(*world, options.timeout, options.nccl, std::nullopt);
  has_joined = true;
  return job;
}

}  // namespace

Job init(const InitOptions& options) {
  serve(nullptr);
  return join_world(options);
}

Job init(int& argc, char**& argv, const InitOptions& options) {
  // These are never destroyed, because the program can read its arguments until its end.
  static auto& arguments = *new std::vector<std::string>;
  static auto& words = *new std::vector<char*>;
  if (serve(&arguments) == warm::Serving::kForkedWithArguments) {
    words = {argv[0]};
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    argc = static_cast<int>(words.size()) - 1;
    argv = words.data();
  }
  return join_world(options);
}

}  // namespace muster
