#include "launcher/io/fleet/remote_bootstrap.h"

#include <algorithm>
#include <sys/utsname.h>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/addresses.h"
#include "common/net/connection.h"
#include "launcher/core/text/words.h"
#include "launcher/io/fleet/container_access.h"
#include "launcher/io/fleet/shell_access.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

// After its greeting, an agent says whether it talks over TCP or through the host shell. This is the longest
// time between the two messages. The agent itself takes at most 10 s to decide.
constexpr Duration kControlLimit = std::chrono::seconds(15);
constexpr Duration kTakeCallsAfter = std::chrono::milliseconds(500);  // agents connect after a second
// An agent that waits usually answers within one round trip. If it does not answer within this time, a new
// one is started.
constexpr Duration kHelloLimit = std::chrono::seconds(5);  // a busy machine may delay a process by seconds
constexpr int kBySignal = 128;
constexpr Duration kFirstLook = std::chrono::milliseconds(2);
constexpr Duration kLongestLook = std::chrono::milliseconds(500);

// Returns this machine's platform, as `uname -m` prints it.
std::string own_machine() {
  utsname names{};
  return uname(&names) == 0 ? names.machine : "";
}

bool is_loopback_host(const Host& host) {
  return host.name == "localhost" || host.name == "::1" || host.name.starts_with("127.");
}

// Returns the addresses of --listen. If it is not given, returns all addresses of this machine. The loopback
// address is among them only if a host may be this machine.
std::vector<std::string> listening_addresses(const Plan& plan) {
  if (!plan.remote.listen.empty()) return plan.remote.listen;
  std::vector<std::string> all;
  for (const net::HostAddress& each : net::host_addresses()) {
    if (!each.loopback) all.push_back(each.address);
  }
  const bool may_be_here = plan.remote.bootstrap == BootstrapKind::kExec ||
                           plan.remote.container.network == "host" ||
                           std::ranges::any_of(plan.hosts, is_loopback_host);
  if (may_be_here) all.emplace_back("127.0.0.1");
  return all;
}

std::unique_ptr<HostAccess> make_access(const asio::any_io_executor& executor, const Plan& plan,
                                        std::string agent_program) {
  const rlimit inherited = raise_descriptor_limit();
  if (plan.remote.bootstrap == BootstrapKind::kDocker)
    return std::make_unique<ContainerAccess>(executor, plan, std::move(agent_program));
  return std::make_unique<ShellAccess>(executor, plan, std::move(agent_program), inherited);
}

}  // namespace

RemoteBootstrap::RemoteBootstrap(const asio::any_io_executor& executor, Plan plan, std::string agent_program,
                                 Calls calls, KeptAgents* kept)
    : RemoteBootstrap(executor, std::move(plan), std::unique_ptr<HostAccess>(), calls, kept) {
  access_ = make_access(executor, plan_, std::move(agent_program));  // keeps a reference to plan_
}

RemoteBootstrap::RemoteBootstrap(const asio::any_io_executor& executor, Plan plan,
                                 std::unique_ptr<HostAccess> access, Calls calls, KeptAgents* kept)
    : executor_(executor),
      tasks_(executor),
      last_tasks_(executor),
      plan_(std::move(plan)),
      calls_(calls),
      kept_(kept),
      access_(std::move(access)),
      prepared_(executor, TimePoint::max()),
      time_(executor),
      sweep_alarm_(time_.make_alarm([this] { perform(sweeps_.on_time(time_.now())); })) {}

// ---- Starting ----

void RemoteBootstrap::start(AgentId agent) {
  children_[agent];
  waiting_.push_back(agent);
  start_next();
}

void RemoteBootstrap::start_next() {
  while (!waiting_.empty() && starting_count_ < plan_.remote.ssh_parallel) {
    const AgentId agent = waiting_.front();
    waiting_.pop_front();
    ++starting_count_;
    tasks_.spawn(bring_up(agent));
  }
}

awaitable<void> RemoteBootstrap::bring_up(AgentId agent) {
  const auto failed = co_await start_agent(agent);
  --starting_count_;
  start_next();
  if (!failed) co_return co_await wait_for_end(agent);
  AgentEnd end = failed->refused ? AgentEnd::kRefused : AgentEnd::kOther;
  if (Child* const child = find(agent); child != nullptr && child->shell) {
    if (child->shell->out_of_memory()) end = AgentEnd::kOutOfMemory;
    child->shell->terminate();
  }
  tell_ended(agent, failed->why, end);
}

// When the first agent starts, this prepares the access for all agents. The other agents wait for that.
awaitable<Status> RemoteBootstrap::prepare() {
  if (!std::exchange(preparing_, true)) {
    preparation_ = co_await access_->prepare();
    prepared_.cancel();
    if (*preparation_) tasks_.spawn(access_->watch());
  }
  boost::system::error_code ignored;
  if (!preparation_) co_await prepared_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return preparation_.value_or(failure(ErrorCode::kUnavailable, "the launcher gave up the start"));
}

awaitable<std::optional<HostStart::GiveUp>> RemoteBootstrap::start_agent(AgentId agent) {
  const HostStart::GiveUp given_up{.why = "the launcher gave up its agent"};
  if (const Status ready = co_await prepare(); !ready)
    co_return HostStart::GiveUp{ready.error().message(), ready.error().code() == ErrorCode::kInvalidArgument};
  const bool hired = co_await hire(agent);
  if (hired) co_return std::nullopt;
  HostStart start(plan_.remote, host_of(agent.node), own_machine(), plan_.needs_all_nodes());
  HostStart::Step step = start.first();
  for (;;) {
    if (find(agent) == nullptr) co_return given_up;
    if (const auto* end = std::get_if<HostStart::GiveUp>(&step)) co_return *end;
    if (const auto* speak = std::get_if<HostStart::Speak>(&step)) {
      find(agent)->greeting = speak->agent;
      const Status agreed = co_await agree_on_control(agent, Clock::now() + kControlLimit);
      if (agreed) co_return std::nullopt;
      co_return HostStart::GiveUp{.why = agreed.error().message()};
    }
    if (const auto* again = std::get_if<HostStart::Start>(&step)) {
      if (again->after > Duration::zero()) co_await pause_for(executor_, again->after);
      step = co_await try_start(agent, start);
    } else {
      step = co_await bring(agent, start, std::get<HostStart::Bring>(step).what);
    }
  }
}

// Returns whether the agent may stay for a later job. Only the first agent of a node may stay. The reason is
// the search for leftovers on a host: it finds the agents of a job by the job's name in their command lines.
// But an agent that stays has the name of its first job there, also in later jobs.
bool RemoteBootstrap::may_stay(AgentId agent) const {
  return kept_ != nullptr && agent.incarnation == Incarnation(1) && !access_->place(agent.node).empty();
}

awaitable<bool> RemoteBootstrap::hire(AgentId agent) {
  while (may_stay(agent) && find(agent) != nullptr) {
    auto kept = kept_->take(access_->place(agent.node));
    if (!kept) break;
    Child* child = find(agent);
    access_->adopt(agent, kept->shell);
    child->shell = kept->shell;
    child->greeting = kept->greeting;
    child->stream = kept->stream;
    kept->shell->link_errors(plan_.agent_log(agent.node));
    auto stream = converse(agent);
    const Status told = tell_next_job(agent, *kept->stream);
    const bool answered = told && co_await kept->stream->answered(Clock::now() + kHelloLimit);
    child = find(agent);
    if (child == nullptr) break;
    if (answered || child->killed) {
      talk_through_shell(agent, std::move(stream));
      co_return true;
    }
    *child = {};
    if (control_port_) control_port_->withdraw(agent);
    tasks_.spawn(drop(agent, *std::move(kept)));
    if (!told) break;  // the start of a new agent says why
  }
  co_return false;
}

Status RemoteBootstrap::tell_next_job(AgentId agent, net::KeptStream& stream) {
  auto words = arguments_of(agent);
  if (!words) return std::unexpected(words.error());
  const auto key = key_of(agent);
  if (!key) return std::unexpected(key.error());
  words->insert(words->begin(), *key);
  stream.send_next_job(*words);
  return {};
}

// Ends the agent. If it were not ended, it might still answer, and take part in the job together with its
// replacement.
awaitable<void> RemoteBootstrap::drop(AgentId agent, KeptAgent dropped) {
  const bool ended = dropped.stream->closed();
  dropped.stream->close();
  if (!ended) (void)co_await access_->kill_agent(agent, dropped.greeting);
  dropped.shell->terminate();
}

HostStart::Step RemoteBootstrap::after_failure(HostStart& start, HostStart::Failure failure,
                                               const HostShell* shell) {
  if (shell != nullptr) failure.last_line = shell->last_error_line();
  return start.on_failure(failure, std::uniform_real_distribution(0.0, 1.0)(random_));
}

awaitable<HostStart::Step> RemoteBootstrap::try_start(AgentId agent, HostStart& start) {
  auto arguments = arguments_of(agent);
  if (!arguments) co_return after_failure(start, {.what = arguments.error().message()});
  const auto opened = co_await access_->start_agent(agent, *std::move(arguments));
  if (!opened)
    co_return after_failure(start, {.what = opened.error().message(),
                                    .refused = opened.error().code() == ErrorCode::kInvalidArgument});
  const TimePoint deadline = Clock::now() + plan_.remote.connect_timeout;
  const std::shared_ptr<HostShell> shell = *opened;
  Child* const child = find(agent);
  if (child == nullptr) co_return HostStart::GiveUp{};
  child->shell = shell;
  co_await asio::post(executor_, asio::use_awaitable);  // start other shells first: the first key takes time
  if (find(agent) == nullptr) co_return HostStart::GiveUp{};
  const auto key = key_of(agent);
  if (!key) co_return after_failure(start, {.what = key.error().message()});
  (void)co_await shell->write(*key + "\n", plan_.remote.connect_timeout);
  for (;;) {
    const auto line = co_await shell->read_line(deadline);
    const auto step = line ? start.on_line(*line) : std::nullopt;
    if (step) co_return *step;
    if (line) continue;
    HostStart::Failure why{.what = line.error().message()};
    if (line.error().code() == ErrorCode::kTimedOut)
      why.what = fmt::format("no answer within {:g} s", in_seconds(plan_.remote.connect_timeout));
    if (line.error().code() == ErrorCode::kUnavailable) {
      const auto code = co_await shell->ended(deadline);
      why.what = code ? fmt::format("{} ended with {}", access_->name(), *code) : "no agent was started";
      if (code) why.exit_code = *code;
    }
    co_return after_failure(start, std::move(why), shell.get());
  }
}

awaitable<HostStart::Step> RemoteBootstrap::bring(AgentId agent, HostStart& start,
                                                  HostStart::Missing missing) {
  const auto errand = co_await access_->bring(agent.node, missing);
  if (!errand) co_return after_failure(start, {.what = errand.error().message()});
  const std::shared_ptr<HostShell> shell = errand->shell;
  Child* const child = find(agent);
  if (child == nullptr) co_return HostStart::GiveUp{};
  child->shell = shell;
  const Status written = co_await shell->write(*errand->input, plan_.remote.connect_timeout);
  shell->end_input();
  const auto code = co_await shell->ended(Clock::now() + (written ? errand->limit : kKillLimit));
  if (code && *code == 0 && written) co_return start.on_brought(missing);
  HostStart::Failure why{.what = errand->what + " in time"};
  if (code) {
    why.what = fmt::format("{} ({} ended with {})", errand->what, access_->name(), *code);
    why.exit_code = *code;
  }
  co_return after_failure(start, std::move(why), shell.get());
}

awaitable<Status> RemoteBootstrap::agree_on_control(AgentId agent, TimePoint deadline) {
  const std::shared_ptr<HostShell> shell = find(agent)->shell;
  const auto line = co_await shell->read_line(deadline);
  Child* const child = find(agent);
  if (child == nullptr) co_return failure(ErrorCode::kUnavailable, "the launcher gave up its agent");
  if (!line)
    co_return failure(ErrorCode::kUnavailable, "{}",
                      start_failure(plan_.remote, host_of(agent.node), "cannot talk to its agent",
                                    shell->last_error_line()));
  if (*line == "control tcp") {
    child->spoken_to = SpokenTo::kByTcp;
    co_return Status{};
  }
  if (*line != "control stdio")
    co_return failure(ErrorCode::kCorrupt,
                      "its agent said '{}' where `control tcp` or `control stdio` belongs", one_line(*line));
  std::shared_ptr<net::Channel> stream = net::Connection::make(shell->take_socket(), nullptr);
  if (may_stay(agent)) {
    child->stream = net::KeptStream::make(executor_, std::move(stream));
    stream = converse(agent);
  }
  talk_through_shell(agent, std::move(stream));
  co_return Status{};
}

std::shared_ptr<net::Channel> RemoteBootstrap::converse(AgentId agent) {
  return find(agent)->stream->converse([this, agent] { job_over(agent); });
}

void RemoteBootstrap::talk_through_shell(AgentId agent, std::shared_ptr<net::Channel> stream) {
  Child* const child = find(agent);
  child->spoken_to = SpokenTo::kThroughShell;
  auto moving = std::make_shared<net::MovingChannel>(std::move(stream));
  child->moving = moving;
  connected(agent, std::move(moving));
}

void RemoteBootstrap::connected(AgentId agent, std::shared_ptr<net::Channel> channel) {
  Child* const child = find(agent);
  if (child == nullptr || child->killed) return channel->close();
  child->channel = channel;
  listener_->agent_connected(agent, std::move(channel));
}

void RemoteBootstrap::called(AgentId agent, std::shared_ptr<net::Connection> connection) {
  const Child* const child = find(agent);
  if (child == nullptr || child->spoken_to != SpokenTo::kThroughShell)
    return connected(agent, std::move(connection));
  if (const auto moving = child->moving.lock()) return moving->move_to(std::move(connection));
  connection->close();
}

bool RemoteBootstrap::is_over_tls(const Child& child) const {
  const auto channel = child.channel.lock();
  const auto moving = child.moving.lock();
  return channel && !channel->closed() &&
         (child.spoken_to == SpokenTo::kByTcp || (moving && moving->moved()));
}

// Loads the TLS module after the agents have started. If it were loaded before, their start would take
// longer.
awaitable<void> RemoteBootstrap::take_calls() {
  co_await pause_for(executor_, kTakeCallsAfter);
  if (const Status started = control_port_->start(); !started)
    log::error("agents cannot connect to the launcher: {}", started.error().message());
}

Expected<std::vector<std::string>> RemoteBootstrap::arguments_of(AgentId agent) {
  if (plan_.control != Control::kStdio && !control_port_) {
    auto port = ControlPort::open(executor_, tasks_, plan_, listening_addresses(plan_),
                                  [this](AgentId caller, std::shared_ptr<net::Connection> connection) {
                                    called(caller, std::move(connection));
                                  });
    if (!port) return std::unexpected(std::move(port).error().within("--listen"));
    control_port_ = std::move(*port);
    if (calls_ == Calls::kLater) tasks_.spawn(take_calls());
  }
  std::vector<std::string> words;
  const std::string addresses = control_port_ ? control_port_->addresses() : "";
  if (addresses.empty()) {
    words.emplace_back("--stdio");
  } else {
    words = {"--connect", addresses};
    if (plan_.control == Control::kAuto) words.emplace_back("--or-stdio");
    if (calls_ == Calls::kLater) words.emplace_back("--stdio-first");
  }
  words.insert(words.end(),
               {"--identity", ControlPort::identity_of(plan_, agent), "--node", fmt::format("{}", agent.node),
                "--incarnation", fmt::format("{}", agent.incarnation)});
  if (may_stay(agent)) words.emplace_back("--stays");
  return words;
}

// If there is no control port, returns a key of zeros. The agent expects a key even then, but never uses it.
Expected<std::string> RemoteBootstrap::key_of(AgentId agent) {
  if (!control_port_) return net::to_hex(net::Key{});
  if (calls_ == Calls::kFirst) {
    if (Status started = control_port_->start(); !started) return std::unexpected(started.error());
  }
  return control_port_->invite(agent);
}

// ---- Ending ----

// Call when the agent has left the job. After that it waits for the next job.
void RemoteBootstrap::job_over(AgentId agent) {
  Child* const child = find(agent);
  if (child == nullptr || child->killed) return;
  kept_->put(access_->place(agent.node), {child->shell, child->stream, *child->greeting});
  tell_ended(agent, "its agent has left");
}

// Waits for the end of the agent. The shell may fail because it has lost its own connection to the host,
// while the agent still talks over TLS. So this also waits until the agent's connection closes. It closes as
// soon as the agent has ended.
awaitable<void> RemoteBootstrap::wait_for_end(AgentId agent) {
  const std::shared_ptr<HostShell> shell = find(agent)->shell;
  const auto code = co_await shell->ended();
  const bool left = code && *code == 0;
  Duration look = kFirstLook;
  for (;;) {
    const Child* const child = find(agent);
    if (child == nullptr) co_return;
    if (!is_over_tls(*child) || left) break;
    co_await pause_for(executor_, look);
    look = std::min(2 * look, kLongestLook);
  }
  if (!left) sweeps_.expect(agent.node);  // an agent that exits with 0 leaves no processes
  if (!code) co_return tell_ended(agent, "its agent has ended: " + code.error().message());
  tell_end_of_shell(agent, *shell, *code);
}

void RemoteBootstrap::tell_end_of_shell(AgentId agent, const HostShell& shell, int code) {
  std::string last = code == 0 ? "" : shell.last_error_line();
  // If the agent was killed, its last line is an ordinary line of its log, and not the reason for its end.
  if (code > kBySignal && last.starts_with("agent ")) last.clear();
  tell_ended(agent,
             fmt::format("its agent has ended: {} ended with {}{}{}", access_->name(), code,
                         last.empty() ? "" : ": ", one_line(last)),
             shell.out_of_memory() ? AgentEnd::kOutOfMemory : AgentEnd::kOther);
}

void RemoteBootstrap::tell_ended(AgentId agent, std::string how, AgentEnd end) {
  if (children_.erase(agent) == 0) return;
  listener_->agent_ended(agent, std::move(how), end);
}

void RemoteBootstrap::kill(AgentId agent) {
  Child* const child = find(agent);
  if (child == nullptr || std::exchange(child->killed, true)) return;
  if (child->greeting) {
    sweeps_.expect(agent.node);  // until it is dead, the agent itself is a leftover
    return tasks_.spawn(kill_there(agent, child->shell, *child->greeting));
  }
  // The agent has not sent its greeting yet. If it is running, it exits when its stdin ends.
  std::erase(waiting_, agent);
  if (child->shell) child->shell->terminate();
  tell_ended(agent, "the launcher gave up its agent before it had started");
}

awaitable<void> RemoteBootstrap::kill_there(AgentId agent, std::shared_ptr<HostShell> shell,
                                            AgentGreeting greeting) {
  const bool killed = co_await access_->kill_agent(agent, greeting);
  if (!killed)
    log::warning("host {} did not answer when the launcher tried to kill its agent",
                 host_of(agent.node).name);
  shell->terminate();
  sweeps_.expect(agent.node);
  if (shell->out_of_memory())
    co_return tell_end_of_shell(agent, *shell, (co_await shell->ended()).value_or(0));
  tell_ended(agent, "its agent was killed");
}

// ---- What is left ----

void RemoteBootstrap::look_for_leftovers(bool kill) {
  perform(sweeps_.look(kill, time_.now()));
}

void RemoteBootstrap::perform(Sweeps::Actions actions) {
  if (!sweep_alarm_) return;
  for (Sweeps::Action& each : actions) {
    if (const auto* ask = std::get_if<Sweeps::Ask>(&each)) tasks_.spawn(sweep(*ask));
    if (auto* seen = std::get_if<Sweeps::Seen>(&each))
      listener_->leftovers_seen(std::move(seen->left), seen->killed);
  }
  if (sweep_alarm_) sweep_alarm_->set(sweeps_.next_deadline());
}

awaitable<void> RemoteBootstrap::sweep(Sweeps::Ask asked) {
  AgentId below{.node = asked.node, .incarnation = {}};
  for (const auto& [agent, child] : children_) {  // the node's current agent is not a leftover
    if (agent.node == asked.node && !child.killed) below = agent;
  }
  auto left = co_await access_->sweep(below, asked.kill);
  if (!left && !sweeps_.is_silent(asked.node))
    log::warning("host {} did not say which processes node{} has left there; asking again",
                 host_of(asked.node).name, asked.node);
  perform(sweeps_.answered(asked, std::move(left), time_.now()));
}

void RemoteBootstrap::close() {
  if (control_port_) control_port_->stop();
  sweep_alarm_.reset();
  tasks_.cancel();
  std::vector<std::shared_ptr<HostShell>> shells;
  for (auto& [agent, child] : std::exchange(children_, {})) {
    if (child.stream) child.stream->close();
    if (child.shell) shells.push_back(std::move(child.shell));
  }
  last_tasks_.spawn(bury(std::move(shells)));
}

// Ends the shells. This also closes the stdin of their agents. An agent that has no launcher exits then.
awaitable<void> RemoteBootstrap::bury(std::vector<std::shared_ptr<HostShell>> shells) {
  for (const auto& shell : shells) shell->terminate();
  const TimePoint deadline = Clock::now() + kKillLimit;
  for (const auto& shell : shells) (void)co_await shell->ended(deadline);
  co_await access_->finish();
}

// ---- Parts ----

RemoteBootstrap::Child* RemoteBootstrap::find(AgentId agent) {
  const auto found = children_.find(agent);
  return found == children_.end() ? nullptr : &found->second;
}

Host RemoteBootstrap::host_of(NodeId node) const {
  return plan_.hosts.at(static_cast<std::size_t>(node.value()));
}

}  // namespace muster::launcher
