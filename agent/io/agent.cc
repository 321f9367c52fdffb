#include "agent/io/agent.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "agent/io/readable.h"
#include "agent/io/workers/children.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/process.h"

namespace muster::agent {

namespace {

// The launcher says once a second whether output waits.
constexpr Duration kOthersWaitLinger = std::chrono::milliseconds(2500);
// In one message; more are killed, and waited for, by whoever is their parent next.
constexpr std::size_t kMostLeftoversNamed = 1000;

constexpr int kSignals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};

sigset_t heard_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

Agent::Agent(asio::io_context& io, std::shared_ptr<net::Channel> channel, NodeId node)
    : io_(io),
      id_(node),
      worker_descriptor_limit_(prepare_descriptors()),
      time_(io.get_executor()),
      link_(time_, std::move(channel), node),
      logs_(io.get_executor()),
      tasks_(io.get_executor()),
      node_(time_.now()),
      warm_(io.get_executor(), tasks_,
            [this] {
              on(TemplateSettled{});
              reap_all();
              // The template may have hidden the ends of others, which nobody else has seen then.
              if (clearing_) clear_leftovers();
            }),
      alarm_(time_.make_alarm([this] { ring(); })) {
  const sigset_t signals = heard_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

Agent::~Agent() {
  log::divert({});
}

void Agent::start() {
  std::array<char, HOST_NAME_MAX + 1> hostname{};
  gethostname(hostname.data(), hostname.size() - 1);
  link_.send(Attempt(), wire::Hello{id_, getpid(), hostname.data(), MUSTER_VERSION, count_cores()});
  // While the launcher answers.
  guardian_.emplace();
  divert_log();
  open_worker_socket();
  link_.start([this](const Link::Incoming& incoming) { hear(incoming); },
              [this](const Error& why) {
                log::debug("{}", why.message());
                on(LauncherClosed{});
              });
  tasks_.spawn(hear_signals());
  set_alarm();
}

void Agent::hear(const Link::Incoming& incoming) {
  const Attempt attempt = incoming.attempt;
  on(LauncherHeard{});
  if (const auto* ping = std::get_if<wire::Ping>(&incoming.message)) {
    if (ping->output_waits) others_wait_until_ = time_.now() + kOthersWaitLinger;
    const bool waits = finishing_logs_ || (run_ != nullptr && run_->output_waits(time_.now()));
    link_.send(node_.attempt(), wire::Pong{ping->sent_ns, to_ns(time_.now()), waits});
  } else if (const auto* taken = std::get_if<wire::OutputTaken>(&incoming.message)) {
    link_.taken(*taken);
  } else if (const auto* said = std::get_if<wire::Welcome>(&incoming.message)) {
    welcome(*said);
  } else if (const auto* plan = std::get_if<wire::PrepareAttempt>(&incoming.message)) {
    link_.advance_to(attempt);
    on(AttemptRequested{attempt, *plan});
  } else if (const auto* standby = std::get_if<wire::StandBy>(&incoming.message)) {
    on(StandByRequested{*standby});
  } else if (const auto* orders = std::get_if<wire::StartWorkers>(&incoming.message)) {
    on(StartRequested{attempt, *orders});
  } else if (const auto* stop = std::get_if<wire::StopWorkers>(&incoming.message)) {
    if (attempt == node_.attempt()) hurry();
    on(StopRequested{attempt, *stop});
  } else if (const auto* order = std::get_if<wire::SignalWorkers>(&incoming.message)) {
    on(SignalRequested{attempt, order->signal});
  } else if (std::holds_alternative<wire::DumpStacks>(incoming.message)) {
    if (health_) send_all(health_->dump_stacks(time_.now()));
    set_alarm();
  } else if (const auto* notice = std::get_if<wire::Preempt>(&incoming.message)) {
    if (health_) health_->preempt(from_ns(notice->grace_ns));
    hurry();
  } else if (std::holds_alternative<wire::Leave>(incoming.message)) {
    hurry();
    on(LeaveRequested{"the launcher said so"});
  }
}

void Agent::open_worker_socket() {
  auto socket = WorkerSocket::open(
      io_.get_executor(),
      [this](const Report& report, const std::string& sender) { pass_on(report, sender); });
  // Training does not need it: heartbeats and progress are missed.
  if (!socket) return log::error("{}", socket.error().message());
  socket_ = *std::move(socket);
  guardian_->guard_run_directory(socket_->directory());
  tasks_.spawn(socket_->receive_all());
}

// What the agent itself has to say goes to a file beside the workers', and must not block it either.
void Agent::divert_log() {
  struct stat status{};
  if (fstat(STDERR_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto file = logs_.add(
      std::make_unique<net::LogParts>(fmt::format("/proc/self/fd/{}", STDERR_FILENO), UniqueFd(), nullptr),
      [](const std::string&) {});
  log::divert([file](std::string_view line) {
    if (file->backlog_bytes() < Output::kLogQueueBytes) file->put(line);
  });
}

void Agent::welcome(const wire::Welcome& welcome) {
  job_ = welcome.job;
  link_.set_output_limits(job_);
  guardian_->guard_job(job_.job_id, id_);
  if (job_.use_gpus && gpus_ == nullptr) {
    gpus_ = std::make_unique<GpuWatch>();
    gpu_memory_ = std::make_unique<GpuMemoryWatch>();
  }
  on(Welcomed{job_});
}

void Agent::pass_on(const Report& report, const std::string& sender) {
  if (run_ == nullptr || report.attempt != node_.attempt() || !run_->has_rank(report.message.rank)) return;
  if (health_) send_all(health_->on(report, sender, time_.now()));
  if (is_for_launcher(report)) {
    wire::WorkerReported message = report.message;
    if (output_waits()) message.busy_ns = 0;  // who prints is not slow
    send_reports(reports_.on(message, time_.now()));
  }
  set_alarm();
}

void Agent::send_reports(const std::vector<wire::WorkerReported>& reports) {
  for (const wire::WorkerReported& report : reports) {
    if (reports_.admit(report, link_.crowded())) link_.send(node_.attempt(), report);
  }
}

void Agent::send_all(const std::vector<wire::ToLauncher>& messages) {
  for (const wire::ToLauncher& message : messages) link_.send(node_.attempt(), message);
}

awaitable<void> Agent::hear_signals() {
  const sigset_t signals = heard_signals();
  asio::posix::stream_descriptor source(io_, signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  for (;;) {
    boost::system::error_code error;
    co_await source.async_wait(asio::posix::stream_descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    signalfd_siginfo heard{};
    while (read(source.native_handle(), &heard, sizeof heard) == sizeof heard) {
      if (heard.ssi_signo != SIGCHLD)
        on(LeaveRequested{fmt::format("the agent got signal {}", heard.ssi_signo)});
    }
    reap_all();
    if (clearing_) clear_leftovers();
  }
}

// The end of a worker is its process's end, seen on the pidfd; its pipes may be held open by others.
awaitable<void> Agent::watch(LocalRank local_rank, Process process, std::optional<std::uint32_t> gpu) {
  co_await asio::post(io_, asio::use_awaitable);  // when all that are to be started have been
  asio::posix::stream_descriptor pidfd(io_, process.pidfd.release());
  const bool ended = co_await readable(pidfd);
  if (!ended) co_return;
  const TimePoint now = time_.now();
  const Ending ending = reap(pidfd.native_handle());
  workers_.erase(process.pid);
  wire::WorkerExited report = run_->last_words(local_rank);
  report.exit_code = ending.exit_code;
  report.signal = ending.signal;
  report.core_dumped = ending.core_dumped;
  report.peak_memory_bytes = ending.peak_memory_bytes;
  report.at_ns = to_ns(now);
  report.pid = process.pid;
  if (gpu && ending.signal != 0) killed_on_gpus_[*gpu].push_back(process.pid);
  health_->ended(run_->rank_of(local_rank), report);
  if (socket_ != nullptr) socket_->receive_waiting();
  send_reports(reports_.take(run_->rank_of(local_rank)));
  on(WorkerEnded{local_rank, std::move(report)});
  reap_all();
}

void Agent::on(Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    for (const Action& action : node_.on(next, time_.now())) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
  }
  handling_ = false;
  set_alarm();
}

void Agent::set_alarm() {
  auto next = node_.next_deadline();
  const auto consider = [&next](std::optional<TimePoint> when) {
    if (when && (!next || *when < *next)) next = when;
  };
  consider(reports_.next_deadline());
  if (health_) consider(health_->next_deadline());
  alarm_->set(next);
}

void Agent::ring() {
  send_reports(reports_.due(time_.now()));
  look_after_workers();
  on(TimePassed{});
}

void Agent::look_after_workers() {
  const auto due = health_ ? health_->next_deadline() : std::nullopt;
  if (!due || *due > time_.now()) return;
  // What they have said already must not be missed.
  if (socket_ != nullptr) socket_->receive_waiting();
  send_all(health_->look(time_.now(), output_waits()));
}

// Of any rank of the job: the others wait for it in every step.
bool Agent::output_waits() const {
  const TimePoint now = time_.now();
  return now < others_wait_until_ || (run_ != nullptr && run_->output_waits(now));
}

// The workers have been told to end, or to save and leave: what they print does not hold them up.
void Agent::hurry() {
  if (run_ == nullptr || std::exchange(hurried_, true)) return;
  run_->hurry();
}

// Orphans that have ended; of workers, watch() learns.
void Agent::reap_all() {
  reap_orphans([this](pid_t pid) {
    if (pid == guardian_->pid()) {
      log::error("the guardian was killed: if this agent is killed too, processes may stay behind");
      guardian_->ended();
    }
    named_.erase(pid);
    return workers_.contains(pid) || warm_.owns(pid);
  });
}

std::optional<std::vector<pid_t>> Agent::strays() const {
  auto children = list_children();
  if (!children) {
    log::warning("cannot look for processes that are left: {}", children.error().message());
    return std::nullopt;
  }
  std::erase_if(*children, [this](pid_t pid) {
    return pid == guardian_->pid() || workers_.contains(pid) || warm_.owns(pid) || named_.contains(pid);
  });
  return *std::move(children);
}

void Agent::kill_strays() const {
  for (const pid_t pid : strays().value_or(std::vector<pid_t>())) kill(pid, SIGKILL);
}

void Agent::clear_leftovers() {
  reap_all();
  const auto left = strays();
  // Each one's own children come to us when it dies, and its end brings us here again.
  clearing_ = !left || !left->empty();
  if (left) std::ranges::for_each(*left, [](pid_t pid) { kill(pid, SIGKILL); });
  if (clearing_) return;
  if (run_ == nullptr) return on(LeftoversGone{});
  if (std::exchange(finishing_logs_, true)) return;
  run_->close_outputs();
  tasks_.spawn(finish_logs());
}

// An attempt is over on this node when its log files are complete, or cannot be made so.
awaitable<void> Agent::finish_logs() {
  const Attempt attempt = node_.attempt();
  co_await logs_.written(from_ns(job_.output_stall_ns), [this] { return hurried_ || link_.closed(); });
  co_await asio::post(io_, asio::use_awaitable);  // what went wrong with a file has been heard of then
  if (node_.attempt() != attempt || !std::exchange(finishing_logs_, false)) co_return;
  if (const std::string losses = run_->losses(); !losses.empty())
    link_.send(node_.attempt(), wire::AgentNotice{losses});
  on(LeftoversGone{});
}

void Agent::perform(const OpenAttempt& action) {
  finished_store_.reset();
  auto run = AttemptRun::open(
      {io_, tasks_, link_, logs_, job_, context(action.attempt), action.plan, worker_descriptor_limit_});
  if (!run) return on(AttemptNotOpened{run.error()});
  run_ = *std::move(run);
  hurried_ = false;
  link_.set_hurry(false);
  health_.emplace(Health::Setting{job_, action.attempt, gpus_.get(),
                                  [this](const std::string& receiver, const std::string& datagram) {
                                    return socket_ != nullptr && socket_->send(receiver, datagram);
                                  }});
  const bool gpus_may_be_full = gpu_memory_ != nullptr && gpu_memory_->held() != "";
  on(AttemptOpened{run_->store_port(), load_template(run_->wanted_template()), gpus_may_be_full});
}

void Agent::perform(const LoadTemplate& action) {
  if (!load_template(AttemptRun::template_for(job_, context(node_.attempt()), action.likely)))
    on(TemplateSettled{});
}

NodeContext Agent::context(Attempt attempt) const {
  return {own_environment(),
          count_cores(),
          id_,
          attempt,
          socket_ != nullptr ? socket_->path() : "",
          socket_ != nullptr ? socket_->directory() : ""};
}

bool Agent::load_template(std::expected<TemplateSpec, std::string> wanted) {
  const std::string output_file = fmt::format("{}/template.node{}.log", job_.log_directory, id_);
  return warm_.prepare(std::move(wanted), output_file, worker_descriptor_limit_);
}

void Agent::perform(const StartWorker& action) {
  const bool had_template = warm_.has_template();
  if (gpu_memory_ != nullptr) gpu_memory_->workers_start();
  auto started = run_->start(action.local_rank, action.start, warm_);
  if (!started) return on(WorkerNotStarted{action.local_rank, started.error()});
  const pid_t pid = started->process.pid;
  workers_.insert(pid);
  // A template that is lost while it is asked to fork may have forked, and the rank must not run twice.
  if (had_template && !warm_.has_template()) kill_strays();
  health_->started(run_->rank_of(action.local_rank), {pid, started->gpu}, time_.now());
  on(WorkerStarted{action.local_rank, pid, started->forked, started->executed_because});
  tasks_.spawn(watch(action.local_rank, std::move(started->process), started->gpu));
}

void Agent::perform(const SignalWorker& action) {
  log::info("signal {} to worker {}", action.signal, action.pid);
  if (!action.passed_on) {
    health_->told_to_stop(run_->rank_of(action.local_rank));
    hurry();
  }
  kill(-action.pid, action.signal);
}

void Agent::perform(const KillLeftovers&) {
  clear_leftovers();
}

void Agent::perform(const NameLeftovers&) {
  reap_all();
  const auto left = strays();
  // Then only the log files are waited for, by a rule of their own.
  if (left && left->empty()) return clear_leftovers();
  LeftoversNamed answer;
  for (const pid_t pid : left.value_or(std::vector<pid_t>())) {
    named_.insert(pid);
    if (answer.left.size() == kMostLeftoversNamed) continue;
    answer.left.push_back(kill_leftover(pid));
    log::warning("{}", describe(answer.left.back()));
  }
  on(std::move(answer));
}

void Agent::perform(const LookAtGpus&) {
  if (auto held = gpu_memory_->held()) on(GpusLookedAt{*std::move(held)});
}

void Agent::perform(const CloseAttempt& action) {
  if (gpu_memory_ != nullptr) gpu_memory_->expect_back_from(std::exchange(killed_on_gpus_, {}));
  if (action.keep_store) finished_store_ = run_->take_store();
  run_.reset();
  finishing_logs_ = false;
  health_.reset();
  if (reports_.dropped_count() > 0)
    log::warning("{} reports of workers were dropped: the launcher did not keep up",
                 reports_.dropped_count());
  reports_ = {};
}

void Agent::perform(const GiveUpTemplate& action) {
  warm_.give_up(action.reason);
}

void Agent::perform(const Send& action) {
  if (const auto* started = std::get_if<wire::WorkersStarted>(&action.message)) {
    if (started->warm_count > 0)
      log::info("{} of {} workers were forked", started->warm_count, started->pids.size());
    if (!started->executed_because.empty()) log::info("executed: {}", started->executed_because);
  }
  link_.send(node_.attempt(), action.message);
}

void Agent::perform(const Quit& action) {
  log::info("leaving: {}", action.reason);
  exit_code_ = action.exit_code;
  const bool had_template = warm_.has_template();
  warm_.end();
  if (had_template) kill_strays();  // what code before init() started
  finished_store_.reset();          // what still listens would keep this process alive
  link_.close();
  // Not now: the task that brought this about would be cancelled while it runs.
  asio::post(io_, [this] { tasks_.cancel(); });
}

}  // namespace muster::agent
