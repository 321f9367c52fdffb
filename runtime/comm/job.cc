#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <muster/job.h>
#include <stdexcept>
#include <stdio_ext.h>

#include "runtime/comm/job_state.h"
#include "runtime/comm/process_group.h"
#include "runtime/control/heap.h"
#include "runtime/control/reports.h"
#include "runtime/control/step_time.h"
#include "runtime/control/uncaught.h"
#include "runtime/control/warm_seed.h"
#include "runtime/warm/template.h"

namespace muster {

struct Job::State {
  State(const World& description, std::optional<std::chrono::milliseconds> timeout,
        std::optional<int> listen_fd)
      : world(description),
        reports(world.report_socket, world.rank, world.attempt),
        device(choose_device(world)),
        store(open_store(world, timeout.value_or(kBackendDefaultTimeout), listen_fd)),
        group(make_process_group(world, store, device, timeout)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    reports.send_profile();
    if (std::uncaught_exceptions() == 0) reports.send("finished", reports.newest_step());
  }

  World world;
  Reports
      reports;  // before the store: connecting may take minutes, and the agent shall see that this rank lives
  c10::Device device;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

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
  return state_->group;
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
std::optional<std::int64_t> Job::resume_step() const {
  return state_->world.resume_step;
}

void Job::barrier() const {
  const InStepPart waiting(kCommunicatePart);
  c10d::BarrierOptions options;
  options.device = c10::kCPU;
  state_->group->barrier(options)->wait();
}

void Job::report_step(std::int64_t step) const {
  state_->reports.step(step);
}

void Job::end_steps() const {
  state_->reports.send("idle", state_->reports.newest_step());
}

void Job::report(Event event, std::int64_t step, std::string_view text) const {
  switch (event) {
    case Event::kResumed: return state_->reports.send("resumed", step, text);
    case Event::kCommitted: return state_->reports.send("committed", step, text);
    case Event::kFenced: return state_->reports.send("fenced", step, text);
    case Event::kPreempted:
      state_->reports.send_profile();
      return state_->reports.send("preempted", step, text);
  }
}

void Job::offer_preemption() const {
  state_->reports.offer_preemption();
}
bool Job::preemption_noticed() const {
  return state_->reports.preemption_noticed();
}

namespace {

// Until every rank has come here. Two messages a rank, where a barrier of Gloo's makes connections.
void meet(c10d::Store& store, int world_size) {
  const std::int64_t arrived = store.add("joined", 1);
  if (arrived == world_size) store.set("all_joined", std::vector<std::uint8_t>{1});
  try {
    store.wait({"all_joined"});
  } catch (const c10::Error&) {
    throw std::runtime_error(
        fmt::format("{} of {} ranks have come to muster::init()", store.add("joined", 0), world_size));
  }
}

// A peer that dies closes its connections, and Gloo writes to them with what raises SIGPIPE: this rank would
// die without a word, and be blamed. Python's programs ignore it too. What the program has chosen stays.
void ignore_broken_pipes() {
  struct sigaction now{};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

// Into a pipe the C library writes 4 KiB at a time: what a rank has printed would be seen late, and be lost
// when it is killed. A program that has chosen no buffer at all keeps that.
void print_by_lines() {
  if (__fbufsize(stdout) != 1) std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace

Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, std::optional<int> listen_fd) {
  print_by_lines();
  reuse_step_memory();
  ignore_broken_pipes();
  Job job(std::make_shared<Job::State>(world, timeout, listen_fd));
  if (world.agent_serves) {
    meet(*job.store(), world.world_size);
  } else {
    // Rank 0 serves the store: it must not leave before the others have read the last address from it.
    job.barrier();
  }
  return job;
}

Job init(const InitOptions& options) {
  if (warm::serve_as_template()) draw_seed_unless_chosen();
  const char* rank = std::getenv("RANK");
  handle_uncaught_exceptions(rank != nullptr ? rank : std::to_string(std::max(options.rank, 0)));
  auto world = read_world(options.init_method, options.rank, options.world_size,
                          [](const char* name) { return std::getenv(name); });
  if (!world) throw std::invalid_argument("muster::init: " + world.error().message());
  return join(*world, options.timeout, std::nullopt);
}

}  // namespace muster
