#include "launcher/io/launcher.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "launcher/core/fleet/hello.h"
#include "launcher/core/view/events.h"

namespace muster::launcher {

namespace {

constexpr Duration kTickPeriod = std::chrono::seconds(1);
constexpr Duration kStrayCheckPeriod = std::chrono::milliseconds(20);
// The guardian of a dead agent clears up within milliseconds; what outlives it this long has lost its
// guardian too, and is killed.
constexpr Duration kStrayLimit = std::chrono::seconds(2);
// What still lives so long after that cannot be killed, and is looked at less often.
constexpr Duration kUnkillableLimit = std::chrono::seconds(1);
constexpr Duration kUnkillableCheckPeriod = std::chrono::seconds(1);

// For the other half of an agent's end, of which one is its process's and one its connection's.
constexpr Duration kHalfGoneLimit = std::chrono::seconds(1);

// The same signal of the same process, so soon, is one.
constexpr Duration kTwinLimit = std::chrono::milliseconds(50);

const char* name_of(const decltype(Decision::action)& action) {
  constexpr const char* kNames[] = {"start agent", "kill agent", "begin attempt", "look for checkpoint",
                                    "send",        "tell",       "record",        "finish"};
  return kNames[action.index()];
}

}  // namespace

Launcher::Launcher(Plan plan, Parts parts)
    : plan_(std::move(plan)),
      parts_(parts),
      job_(plan_),
      tasks_(parts.context.get_executor()),
      time_(parts.context.get_executor()),
      signals_(parts.context.get_executor(), parts.signals),
      deadline_(time_.make_alarm([this] { post(TimePassed{}); })),
      second_(time_.make_alarm([this] { tick(); })),
      half_gone_(time_.make_alarm([this] { look_for_half_gone(); })),
      strays_(time_.make_alarm([this] { look_for_strays(); })),
      agents_(static_cast<std::size_t>(plan_.agent_count())),
      enquiries_(parts.context, time_,
                 {.status = [this] { return status(); },
                  .cancel = [this](bool now) { cancel(now); },
                  .ask_for_stacks = [this] { return ask_for_stacks(); }}),
      event_log_(parts_.files, plan_.job.log_directory + "/events.jsonl",
                 [this](const std::string& what) { parts_.terminal.say(what); }),
      marks_{.entry = "MUSTER_JOB_ID=" + plan_.job.job_id, .sessions = {}},
      started_(time_.now()) {}

Launcher::~Launcher() {
  signals_.release();
}

void Launcher::run() {
  become_subreaper();
  wait_for_signals();
  second_->set(time_.now() + kTickPeriod);
  post(Began{});
  publish();
  // Not before: what went on here would keep the agents from their processors while they are executed.
  ask_for_short_slices();
  parts_.context.run();
  enquiries_.close();
  if (control_port_) control_port_->stop();
  for (Agent& each : agents_) {
    if (each.session) each.session->close();
  }
  tasks_.cancel();
  signals_.cancel();
  second_->set(std::nullopt);
  parts_.context.restart();
  while (!tasks_.empty() && parts_.context.run_one() > 0) {
  }
}

// Events that come while one is being handled wait for their turn.
void Launcher::post(Event event) {
  events_.push_back(std::move(event));
  if (performing_) return;
  performing_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    for (const Decision& decision : job_.on(next, time_.now())) {
      note(decision);
      std::visit([this](const auto& action) { perform(action); }, decision.action);
    }
  }
  performing_ = false;
  deadline_->set(job_.next_deadline());
}

void Launcher::note(const Decision& decision) {
  if (std::holds_alternative<Record>(decision.action)) return;  // goes to events.jsonl
  const double at = std::chrono::duration_cast<Seconds>(time_.now() - started_).count();
  std::string text;
  if (const auto* told = std::get_if<Tell>(&decision.action)) text = ": " + told->text;
  parts_.journal.append(
      fmt::format("{:.6f} {}{} ({})\n", at, name_of(decision.action), text, decision.reason));
}

void Launcher::perform(const StartAgent& action) {
  auto started = start_agent(action.node);
  if (!started) {
    expect_strays();
    return post(AgentEnded{action.node, started.error().message()});
  }
  agent(action.node).pid = started->pid;
  marks_.sessions.insert(started->pid);
  if (!started->socket) return;
  add_session(action.node,
              net::Connection::make(
                  net::adopt_socket(parts_.context.get_executor(), started->socket.release()), nullptr));
}

Expected<StartedAgent> Launcher::start_agent(NodeId node) {
  const AgentId id{node, incarnations_[node] = incarnations_[node].next()};
  if (plan_.control == Control::kSocket) return parts_.bootstrap.start_with_socket(id);
  if (!control_port_) {
    auto port = ControlPort::open(parts_.context.get_executor(), tasks_, plan_,
                                  [this](AgentId caller, std::shared_ptr<net::Connection> connection) {
                                    accept(caller, std::move(connection));
                                  });
    if (!port) return std::unexpected(port.error());
    control_port_ = std::move(*port);
  }
  const auto [identity, key] = control_port_->invite(id);
  return parts_.bootstrap.start_with_tcp(id, control_port_->port(), identity, key);
}

void Launcher::accept(AgentId caller, std::shared_ptr<net::Connection> connection) {
  const NodeId node = caller.node;
  // A late connection of an agent that was replaced or killed is of no use.
  if (agent(node).pid == 0 || agent(node).session) return connection->close();
  add_session(node, std::move(connection));
}

void Launcher::add_session(NodeId node, std::shared_ptr<net::Connection> connection) {
  auto session = std::make_shared<Session>(time_, node, std::move(connection),
                                           static_cast<std::uint64_t>(plan_.job.output_window_bytes));
  agent(node).session = session;
  session->start([this](Session& from, Attempt attempt,
                        wire::ToLauncher message) { hear(from, attempt, std::move(message)); },
                 [this](Session& from, const Error& why) { closed(from, why); });
  session->send_ping(/*output_waits=*/false);
}

void Launcher::hear(Session& from, Attempt attempt, wire::ToLauncher message) {
  if (const auto* pong = std::get_if<wire::Pong>(&message))
    agent(from.node()).output_waits = pong->output_waits;
  if (const auto* output = std::get_if<wire::Output>(&message)) {
    const std::string_view text(reinterpret_cast<const char*>(output->text.data()), output->text.size());
    parts_.terminal.show_output(from.node(), output->rank, output->stream, text, output->dropped_line_count,
                                output->local_rank);
    parts_.terminal.tell_when_taken(output->stream, text.size(),
                                    from.received_output(output->stream, text.size()));
    message = wire::Pong{};  // to the job, output is a sign of life
  }
  if (const auto* hello = std::get_if<wire::Hello>(&message)) {
    const AgentId expected{from.node(), incarnations_[from.node()]};
    if (const Status same = check_hello(*hello, {expected, MUSTER_VERSION}); !same)
      return kill_for(agent(from.node()), "cannot be used: " + same.error().message());
    agent(from.node()).joined = true;
  }
  if (const auto* left = std::get_if<wire::LeftoversUnkillable>(&message)) {
    for (const Leftover& each : left->left) left_behind_.insert(each.pid);
  }
  ranks_.on(from.node(), attempt, message, job_.members(), time_.now());
  if (const auto* stacks = std::get_if<wire::WorkerStacks>(&message)) enquiries_.hear(*stacks);
  post(AgentSaid{from.node(), attempt, std::move(message)});
}

// Its end, which follows at once if it is not the cause, tells more than this.
void Launcher::closed(Session& from, const Error& why) {
  Agent& gone = agent(from.node());
  gone.session.reset();
  log::debug("node{}: {}", from.node(), why.message());
  if (gone.pid == 0) return lose(from.node());  // its last words have been read
  if (job_.phase() == Phase::kLeaving) return;
  // Without a connection it is of no use, and must not go on by itself beside its successor.
  if (why.code() == ErrorCode::kUnavailable) return half_gone(gone);
  kill_for(gone, fmt::format("sent what cannot be read: {}", why.message()));
}

// The kernel closes a process's connections a moment before it tells of the end, and what an ended process
// has sent may still have to be read.
void Launcher::half_gone(Agent& agent) {
  agent.half_gone_since = time_.now();
  look_for_half_gone();
}

void Launcher::look_for_half_gone() {
  std::optional<TimePoint> next;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    Agent& half = agents_[i];
    if (!half.half_gone_since) continue;
    const TimePoint end = *half.half_gone_since + kHalfGoneLimit;
    if (end > time_.now()) {
      next = std::min(next.value_or(end), end);
    } else if (half.pid != 0) {
      kill_for(half, "closed its connection");
    } else {
      half.session->close();
      lose(NodeId(static_cast<std::int32_t>(i)));
    }
  }
  half_gone_->set(next);
}

void Launcher::kill_for(Agent& agent, std::string what) {
  agent.half_gone_since.reset();
  agent.killed_for = std::move(what);
  kill(agent.pid, SIGKILL);
}

void Launcher::lose(NodeId node) {
  const std::string how = std::exchange(agent(node), {}).how;
  expect_strays();
  post(AgentEnded{node, how});
  look_for_strays();
}

void Launcher::perform(const KillAgent& action) {
  Agent& doomed = agent(action.node);
  if (doomed.session) doomed.session->close();
  if (doomed.pid != 0) kill(doomed.pid, SIGKILL);
  doomed = {};  // reaped as a stray
  expect_strays();
}

void Launcher::expect_strays() {
  strays_since_ = time_.now();
  told_strays_ = false;
  strays_->set(time_.now() + kStrayCheckPeriod);
}

void Launcher::perform(const BeginAttempt&) {
  if (plan_.job.checkpoint_directory.empty()) return post(AttemptBegun{job_.attempt().next(), std::nullopt});
  const CheckpointDirectory directory(plan_.job.checkpoint_directory);
  const auto deny = [this](const Error& error) {
    post(AttemptDenied{
        {Refusal::Kind::kCannotStart, std::nullopt, exit_code_of_path_error(error.code()), error.message()}});
  };
  if (job_.restart_count() > 0 && job_.attempt() != Attempt()) {
    const Status newest = directory.check_newest(job_.attempt());
    if (!newest && newest.error().code() == ErrorCode::kFenced) {
      return post(AttemptDenied{{Refusal::Kind::kFenced, std::nullopt, kExitInternal,
                                 newest.error().message() + "; nothing is restarted here"}});
    }
    if (!newest) return deny(newest.error());
  }
  // run() has looked already; meanwhile another launch may have begun.
  const bool is_first = job_.attempt() == Attempt();
  const auto begun = directory.begin_attempt(plan_.job.job_id, plan_.take_over || !is_first);
  if (!begun && begun.error().code() == ErrorCode::kFenced)
    return post(AttemptDenied{{Refusal::Kind::kFenced, std::nullopt, kExitUsage,
                               begun.error().message() + "; --take-over would stop it"}});
  if (!begun) return deny(begun.error());
  std::optional<std::uint64_t> step;
  if (begun->resume) step = begun->resume->step;
  post(AttemptBegun{begun->attempt, step});
}

void Launcher::perform(const LookForCheckpoint&) {
  CheckpointFound found;
  const auto committed = CheckpointDirectory(plan_.job.checkpoint_directory).committed();
  if (!committed) log::warning("{}", committed.error().message());
  for (const CheckpointId& each : committed.value_or(std::vector<CheckpointId>())) {
    if (each.attempt == job_.attempt())
      found.step = std::max(found.step, std::optional(static_cast<std::int64_t>(each.step)));
  }
  post(found);
}

void Launcher::perform(const Send& action) {
  const auto& session = agent(action.node).session;
  if (!session) return;  // its end is on its way
  session->advance_to(job_.attempt());
  session->send(job_.attempt(), action.message);
}

void Launcher::perform(const Tell& action) {
  remember(action.text);
  if (!parts_.quiet) parts_.terminal.say(action.text);
}

void Launcher::perform(const Record& action) {
  const Seconds since_1970 = std::chrono::system_clock::now().time_since_epoch();
  event_log_.append(event_line(action, job_.attempt(), since_1970.count()));
}

void Launcher::perform(const Finish&) {
  parts_.context.stop();
}

void Launcher::wait_for_signals() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        read_signals();
                        wait_for_signals();
                      });
}

void Launcher::read_signals() {
  signalfd_siginfo info{};
  bool children = false;
  while (read(parts_.signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      children = true;
    } else if (!is_twin(static_cast<int>(info.ssi_signo), info.ssi_pid)) {
      post(Interrupted{static_cast<int>(info.ssi_signo)});
    }
  }
  if (children) reap();
}

// timeout(1) and others signal their child and then its whole group.
bool Launcher::is_twin(int signal, std::int64_t sender) {
  const TimePoint now = time_.now();
  const bool twin = sender != 0 && signal == last_signal_.signal && sender == last_signal_.sender &&
                    now < last_signal_.at + kTwinLimit;
  if (!twin) last_signal_ = {signal, sender, now};
  return twin;
}

void Launcher::reap() {
  for (const ChildEnd& end : reap_children()) {
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      Agent& ended = agents_[i];
      if (ended.pid != end.pid) continue;
      ended.pid = 0;
      ended.how = "its agent " + (ended.killed_for.empty() ? end.how : ended.killed_for);
      if (ended.session) {
        half_gone(ended);
      } else {
        lose(NodeId(static_cast<std::int32_t>(i)));
      }
      break;
    }
  }
  look_for_strays();
}

void Launcher::look_for_strays() {
  if (!strays_since_) return;
  std::set<pid_t> known = living_agents();
  if (job_.phase() == Phase::kLeaving && !known.empty()) return;  // the last agent's end looks again
  known.insert(left_behind_.begin(), left_behind_.end());
  const auto strays = stray_children(marks_, known);
  if (strays.empty()) {
    strays_since_.reset();
    strays_->set(std::nullopt);
    marks_.sessions = living_agents();
    return post(StraysEnded{});
  }
  strays_->set(time_.now() + (told_strays_ ? kUnkillableCheckPeriod : kStrayCheckPeriod));
  const Duration age = time_.now() - *strays_since_;
  if (age <= kStrayLimit) return;
  StraysRemain remain;
  for (const pid_t stray : strays) remain.left.push_back(kill_leftover(stray));
  if (age > kStrayLimit + kUnkillableLimit && !std::exchange(told_strays_, true)) post(std::move(remain));
}

std::set<pid_t> Launcher::living_agents() const {
  std::set<pid_t> pids;
  for (const Agent& each : agents_) {
    if (each.pid != 0) pids.insert(each.pid);
  }
  return pids;
}

void Launcher::tick() {
  const bool output_waits = std::ranges::any_of(agents_, &Agent::output_waits);
  for (const Agent& each : agents_) {
    if (!each.session) continue;
    each.session->send_ping(output_waits);
    for (const int stream : {1, 2}) {
      if (parts_.terminal.takes(stream, kTickPeriod)) each.session->reassure(stream);
    }
  }
  if (std::string text = start_progress(); text != told_progress_) {
    told_progress_ = std::move(text);
    if (!parts_.quiet) parts_.terminal.show_progress(told_progress_);
  }
  second_->set(time_.now() + kTickPeriod);
}

}  // namespace muster::launcher
