#include "agent/io/workers/local_processes.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <utility>

#include "agent/io/readable.h"
#include "agent/io/signals.h"
#include "agent/io/sweep.h"
#include "common/base/earliest.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/gpu_reading.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/process.h"

namespace muster::agent {

namespace {

// A debugger can delay the moment at which the agent may reap a worker. The agent then tries again after this
// pause.
constexpr std::chrono::milliseconds kDebuggerPause{20};

constexpr std::chrono::milliseconds kExecPause{5};  // before a command line is looked at again

constexpr int kTrackerPauseMs = 2;  // a tracker usually ends within 20 ms

}  // namespace

LocalProcesses::LocalProcesses(Setting setting)
    : setting_(setting),
      worker_descriptor_limit_(prepare_descriptors()),
      warm_(setting_.kept.warm),
      exchange_({.slots = memory_slots_,
                 .own = {setting_.node, setting_.incarnation},
                 .on_fetched = [this] { asio::post(setting_.io, [this] { answer_who_wait(); }); },
                 .on_remark =
                     [this](std::string what) {
                       asio::post(setting_.io, [this, what = std::move(what)] { setting_.remark(what); });
                     }}),
      stacks_alarm_(setting_.time.make_alarm([this] { look_at_stacks(); })),
      trackers_alarm_(setting_.time.make_alarm([this] {
        kill_late_trackers();
        listener_->leftovers_changed();  // one that was being executed may be a tracker now
      })) {
  block_signals({SIGCHLD});
}

void LocalProcesses::begin(ProcessListener& listener) {
  listener_ = &listener;
  if (const Status guarded = setting_.kept.guardian.start(); !guarded) unguarded_ = guarded.error().message();
  open_worker_socket();
  warm_.begin(setting_.tasks, [this] {
    listener_->template_settled();
    reap_leftovers();
    // reap_leftovers() stops at a template that has ended, so it may not have seen processes that ended
    // later. This call makes Node look for them.
    listener_->leftovers_changed();
  });
  setting_.tasks.spawn(hear_signals({SIGCHLD}, [this](int) {
    reap_leftovers();
    listener_->leftovers_changed();
  }));
}

// Makes the run directory, and opens the socket for the reports of workers. If this fails, the training works
// all the same, but without heartbeats and progress.
void LocalProcesses::open_worker_socket() {
  auto& directory = setting_.kept.directory;
  if (directory == nullptr) {
    auto made = RunDirectory::make();
    if (!made) return log::error("{}", made.error().message());
    directory = *std::move(made);
  }
  setting_.kept.guardian.guard_run_directory(directory->path());
  setting_.mpi.set_run_directory(directory->path());
  auto socket =
      WorkerSocket::open(setting_.io.get_executor(), directory->path(),
                         [this](const Report& report, const std::string& sender) { hear(report, sender); });
  if (!socket) return log::error("{}", socket.error().message());
  socket_ = *std::move(socket);
  setting_.tasks.spawn(socket_->receive_all());
}

void LocalProcesses::set_job(const wire::JobSpec& job) {
  job_ = job;
  setting_.kept.guardian.guard_job(job_.job_id, setting_.node);
  if (const std::string earlier = warm_.job_of_template(); !earlier.empty() && earlier != job_.job_id)
    setting_.kept.guardian.guard_template(earlier);
  memory_slots_.set_limit(static_cast<std::uint64_t>(job_.limits.memory_tier_bytes));
  if (job_.use_gpus) setting_.vitals.watch_gpus();
}

std::expected<void, StartFailure> LocalProcesses::open(const OpenAttempt& attempt) {
  if (!unguarded_.empty())
    return std::unexpected(StartFailure{StartStep::kResources, Error(ErrorCode::kUnavailable, unguarded_)});
  auto run = AttemptRun::open({job_, context(attempt.attempt), attempt.plan, worker_descriptor_limit_});
  if (!run) return std::unexpected(std::move(run.error()));
  run_ = *std::move(run);
  attempt_ = attempt.attempt;
  plan_ = attempt.plan;
  memory_slots_.keep(attempt.plan.first_rank, attempt.plan.local_world_size);
  listen_for_neighbours();
  stacks_.emplace(job_, attempt_, [this](const std::string& address, const std::string& datagram) {
    return socket_ != nullptr && socket_->send(address, datagram);
  });
  setting_.vitals.attempt_opens();
  return {};
}

// Opens the port for neighbours. If this fails, the job runs all the same, but no neighbour has copies of its
// checkpoints in memory.
void LocalProcesses::listen_for_neighbours() {
  neighbour_port_ = 0;
  if (plan_.neighbour_address.empty()) return;
  if (const auto port = exchange_.listen(plan_.neighbour_address))
    neighbour_port_ = *port;
  else
    log::warning("no copies are made from neighbours: {}", port.error().message());
}

std::vector<Rank> LocalProcesses::held_ranks() const {
  if (plan_.neighbour_address.empty()) return {};
  std::set<Rank> ranks;
  for (const Copy& each : memory_slots_.held()) ranks.insert(each.rank);
  return {ranks.begin(), ranks.end()};
}

namespace {

// Asks the driver once. After a fault of a GPU, an answer may take long, and the agent's thread must not
// wait.
std::int32_t gpu_count_of_driver() {
  static const std::int32_t count = gpus_of_driver();
  return count;
}

}  // namespace

NodeContext LocalProcesses::context(Attempt attempt) const {
  return {own_environment(),
          count_cores(),
          setting_.node,
          attempt,
          socket_ != nullptr ? socket_->path() : "",
          setting_.kept.directory != nullptr ? setting_.kept.directory->python_module() : "",
          setting_.mpi.context(),
          setting_.kept.for_next_job,
          job_.share_gpus ? gpu_count_of_driver() : 0};
}

std::expected<Processes::Started, StartFailure> LocalProcesses::start(LocalRank local_rank,
                                                                      const wire::StartWorkers& start) {
  if (local_rank == LocalRank(0) && !start.neighbours.empty())
    exchange_.begin(job_.job_id, attempt_, start.neighbours);
  const bool had_template = warm_.has_template();
  const auto outputs = setting_.logs.open_streams(local_rank);
  if (!outputs) return std::unexpected(StartFailure{StartStep::kResources, outputs.error()});
  const auto input = open_input(local_rank);
  if (!input) return std::unexpected(StartFailure{StartStep::kResources, input.error()});
  auto entries = setting_.mpi.entries_for(local_rank);
  if (!entries) return std::unexpected(StartFailure{StartStep::kResources, entries.error()});
  auto started = run_->start(local_rank, start,
                             {.streams = {*input, (*outputs)[0], (*outputs)[1]},
                              .entries = *std::move(entries),
                              .descriptor = setting_.mpi.descriptor_for(local_rank)},
                             warm_);
  if (!started) return std::unexpected(std::move(started.error()));
  setting_.mpi.rank_runs(local_rank, started->process.pid);
  setting_.logs.worker_runs(local_rank);
  workers_.insert(started->process.pid);
  // If the template died during the fork, the template may already have forked a process for this rank. The
  // rank must not run twice, so that process is killed.
  if (had_template && !warm_.has_template()) kill_leftovers();
  setting_.tasks.spawn(
      watch(local_rank, run_->rank_of(local_rank), std::move(started->process), started->facts.gpu));
  // The last worker often shares this processor. Its program begins earlier if this process lets it go first.
  if (local_rank.value() + 1 == plan_.local_world_size) sched_yield();
  return std::move(started->facts);
}

Expected<int> LocalProcesses::open_input(LocalRank local_rank) {
  if (job_.input_rank != run_->rank_of(local_rank)) return -1;
  auto input = WorkerInput::open(setting_.io.get_executor(),
                                 [this](const wire::InputTaken& taken) { listener_->input_taken(taken); });
  if (!input) return std::unexpected(input.error());
  input_ = *std::move(input);
  return input_->for_worker();
}

void LocalProcesses::give_input(const wire::Input& input) {
  if (input_) input_->give(input);
}

void LocalProcesses::look_at_input() {
  if (input_) input_->look();
}

void LocalProcesses::close_input() {
  if (const auto input = std::exchange(input_, nullptr)) input->close();
}

// Waits until the worker ends. It waits for the pidfd, and not for the pipes, because other processes may
// hold the pipes open.
awaitable<void> LocalProcesses::watch(LocalRank local_rank, Rank rank, Process process,
                                      std::optional<std::uint32_t> gpu) {
  co_await asio::post(setting_.io, asio::use_awaitable);  // resumes when all workers have been started
  asio::posix::stream_descriptor pidfd(setting_.io, process.pidfd.release());
  const bool ended = co_await readable(pidfd);
  if (!ended) co_return;
  const TimePoint now = setting_.time.now();
  receive_waiting();
  std::optional<Ending> reaped = reap(pidfd.native_handle());
  for (asio::steady_timer pause(setting_.io); !reaped; reaped = reap(pidfd.native_handle())) {
    pause.expires_after(kDebuggerPause);
    co_await pause.async_wait(asio::use_awaitable);
  }
  const Ending& ending = *reaped;
  workers_.erase(process.pid);
  wire::WorkerExited exited;
  exited.pid = process.pid;
  exited.exit_code = ending.exit_code;
  exited.signal = ending.signal;
  exited.core_dumped = ending.core_dumped;
  exited.peak_memory_bytes = ending.peak_memory_bytes;
  exited.at_ns = to_ns(now);
  setting_.vitals.worker_ended(exited, gpu);
  if (stacks_) stacks_->ended(rank);
  if (job_.input_rank == rank) close_input();
  listener_->worker_ended(local_rank, std::move(exited));
  reap_leftovers();
}

void LocalProcesses::signal(std::int32_t pid, std::int32_t signal) {
  if (workers_.contains(pid)) ::kill(-pid, signal);  // the pid of a reaped worker may be another process's
}

void LocalProcesses::close() {
  exchange_.end();
  wait_for_memory_.clear();
  setting_.vitals.attempt_is_over();
  close_input();
  run_.reset();
  stacks_.reset();
  stacks_alarm_->set(std::nullopt);
}

bool LocalProcesses::load() {
  return prepare_template(run_->wanted_template());
}

bool LocalProcesses::load_for(const wire::PrepareAttempt& likely) {
  if (!unguarded_.empty()) return false;
  return prepare_template(AttemptRun::template_for(job_, context(attempt_), likely));
}

bool LocalProcesses::prepare_template(std::expected<TemplateSpec, std::string> wanted) {
  const std::string output_file = fmt::format("{}/template.node{}.log", job_.log_directory, setting_.node);
  return warm_.prepare(std::move(wanted), output_file, worker_descriptor_limit_);
}

void LocalProcesses::end() {
  if (!setting_.kept.for_next_job) end_template();
  wait_for_trackers();
}

void LocalProcesses::end_template() {
  const bool had_template = warm_.has_template();
  warm_.end();
  if (had_template) kill_leftovers();  // processes that the program started before init()
}

// Reaps leftovers, in the order in which they ended. If it comes to a worker or a template, it stops, because
// other code reaps these.
void LocalProcesses::reap_leftovers() {
  for (;;) {
    siginfo_t next{};
    if (waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) < 0 || next.si_pid == 0) return;
    if (next.si_pid == setting_.kept.guardian.pid()) {
      log::error("the guardian was killed: if this agent is killed too, processes may stay behind");
      setting_.kept.guardian.ended();
    }
    trackers_.erase(next.si_pid);
    listener_->leftover_ended(next.si_pid);
    if (workers_.contains(next.si_pid) || warm_.owns(next.si_pid)) return;
    waitid(P_PID, static_cast<id_t>(next.si_pid), &next, WEXITED | WNOHANG);
  }
}

std::optional<std::vector<std::int32_t>> LocalProcesses::find() {
  reap_leftovers();
  auto children = list_children();
  if (!children) {
    log::warning("cannot look for processes that are left: {}", children.error().message());
    return std::nullopt;
  }
  std::erase_if(*children, [this](pid_t pid) {
    return pid == setting_.kept.guardian.pid() || workers_.contains(pid) || warm_.owns(pid) || spares(pid);
  });
  return *std::move(children);
}

bool LocalProcesses::spares(pid_t pid) {
  const std::optional<bool> is_tracker = is_resource_tracker(pid);
  if (is_tracker == false) return false;
  const TimePoint now = setting_.time.now();
  const auto [tracker, is_new] = trackers_.try_emplace(pid, now + kTrackerLimit);
  if (is_new) kill_late_trackers();
  return is_tracker.has_value() && now < tracker->second;
}

void LocalProcesses::kill_late_trackers() {
  const TimePoint now = setting_.time.now();
  std::optional<TimePoint> next;
  for (const auto& [pid, until] : trackers_) {
    const std::optional<bool> is_tracker = is_resource_tracker(pid);
    if (until <= now || is_tracker == false) {
      kill(pid);
    } else {
      take_earlier(next, is_tracker ? until : now + kExecPause);
    }
  }
  trackers_alarm_->set(next);
}

// Waits until the resource trackers have ended. If their time limit passes, kills them. Called when the agent
// is about to exit, so that it leaves no process of the job.
void LocalProcesses::wait_for_trackers() {
  const TimePoint until = setting_.time.now() + kTrackerLimit;
  const auto has_ended = [](const auto& tracker) {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(tracker.first), &ended, WEXITED | WNOHANG) != 0 ||
           ended.si_pid != 0;
  };
  while (std::erase_if(trackers_, has_ended), !trackers_.empty() && setting_.time.now() < until) {
    kill_late_trackers();
    poll(nullptr, 0, kTrackerPauseMs);
  }
  for (const auto& [pid, _] : trackers_) kill(pid);
  trackers_alarm_->set(std::nullopt);  // it would keep the agent alive
}

void LocalProcesses::kill(std::int32_t pid) {
  const auto tracker = trackers_.find(pid);
  const bool may_become_tracker = tracker != trackers_.end() && setting_.time.now() < tracker->second;
  if (!may_become_tracker || is_resource_tracker(pid) == false) ::kill(pid, SIGKILL);
}

void LocalProcesses::kill_leftovers() {
  for (const std::int32_t pid : find().value_or(std::vector<std::int32_t>())) kill(pid);
}

void LocalProcesses::hear(const Report& report, const std::string& address) {
  if (report.message.kind == wire::ReportKind::kMemorySlots) return give_memory(report, address);
  if (report.message.kind == wire::ReportKind::kHeld && run_ && report.attempt == attempt_)
    pass_to_neighbours(report.message);
  Stacks::Told stacks = stacks_ ? stacks_->on(report) : Stacks::Told();
  if (!stacks.empty()) tell(std::move(stacks));
  listener_->worker_reported(report, address);
}

void LocalProcesses::give_memory(const Report& report, const std::string& address) {
  if (!run_ || report.attempt != attempt_) return;
  const bool is_fetching = exchange_.is_fetching();
  if (is_fetching) wait_for_memory_[address] = report;
  const auto answer =
      is_fetching ? MemorySlots::later() : memory_slots_.answer(report.message.rank, report.slot_bytes);
  if (!socket_->send(address, answer.text, answer.fds))
    log::warning("rank {} did not receive its memory for checkpoints", report.message.rank);
}

// Called when a rank has saved. That shows that all ranks have restored their state, so some copies are not
// needed any more. This function drops them. It also tells the neighbours about the new slot.
void LocalProcesses::pass_to_neighbours(const wire::WorkerReported& held) {
  memory_slots_.forget_others();
  exchange_.saved(held.rank, static_cast<std::uint64_t>(held.step));
}

void LocalProcesses::answer_who_wait() {
  for (const auto& [address, report] : std::exchange(wait_for_memory_, {})) give_memory(report, address);
}

HeldMemory LocalProcesses::held_memory() const {
  return {.slots = memory_slots_.own_slots(),
          .directory = job_.checkpoint_directory,
          .job = job_.job_id,
          .attempt = attempt_,
          .first_rank = plan_.first_rank,
          .local_world_size = plan_.local_world_size,
          .world_size = plan_.world_size};
}

void LocalProcesses::write_memory_out() {
  memory_write_out_.start(held_memory(), [this](MemoryWritten written) {
    asio::post(setting_.io, [this, written = std::move(written)]() mutable {
      listener_->memory_written(std::move(written));
    });
  });
}

void LocalProcesses::receive_waiting() {
  if (socket_ != nullptr) socket_->receive_waiting();
}

bool LocalProcesses::preempt(const std::string& address, Duration grace) {
  const nlohmann::json notice{
      {"v", 1},
      {"type", "preempt"},
      {"grace_ms", std::chrono::duration_cast<std::chrono::milliseconds>(grace).count()}};
  return socket_ != nullptr && socket_->send(address, notice.dump());
}

void LocalProcesses::dump_stacks(const std::vector<Worker>& workers) {
  if (stacks_) tell(stacks_->dump(workers, setting_.time.now()));
}

void LocalProcesses::look_at_stacks() {
  if (!stacks_) return;
  receive_waiting();  // an answer that has already arrived is not late
  tell(stacks_->look(setting_.time.now()));
}

void LocalProcesses::tell(Stacks::Told stacks) {
  for (wire::WorkerStacks& each : stacks) listener_->stacks_dumped(std::move(each));
  stacks_alarm_->set(stacks_->next_deadline());
}

}  // namespace muster::agent
