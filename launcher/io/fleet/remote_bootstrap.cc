#include "launcher/io/fleet/remote_bootstrap.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/net/addresses.h"
#include "common/net/connection.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr Duration kControlLimit = std::chrono::seconds(15);  // from the greeting; the agent's own is 10 s
constexpr Duration kDeliveryLimit = std::chrono::minutes(2);
constexpr int kMostTries = 6;  // at a host that is busy
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kSweepLimit = std::chrono::seconds(1);
constexpr Duration kSweepPeriod = std::chrono::milliseconds(500);  // a look costs a host shell on each host
constexpr Duration kSweepPause = std::chrono::seconds(5);          // for a host that did not answer
constexpr Duration kFirstLook = std::chrono::milliseconds(2);
constexpr Duration kLongestLook = std::chrono::milliseconds(500);
constexpr int kSshFailed = 255;  // and what a command that was killed looks like through ssh

bool is_loopback_host(const Host& host) {
  return host.name == "localhost" || host.name == "::1" || host.name.starts_with("127.");
}

// Those that are in use, and loopback where a host may be this machine.
std::vector<std::string> listening_addresses(const Plan& plan) {
  if (!plan.remote.listen.empty()) return plan.remote.listen;
  std::vector<std::string> all;
  for (const net::HostAddress& each : net::host_addresses()) {
    if (!each.loopback) all.push_back(each.address);
  }
  if (plan.remote.bootstrap == BootstrapKind::kExec || std::ranges::any_of(plan.hosts, is_loopback_host))
    all.emplace_back("127.0.0.1");
  return all;
}

}  // namespace

RemoteBootstrap::RemoteBootstrap(const asio::any_io_executor& executor, Plan plan, std::string agent_program)
    : executor_(executor),
      tasks_(executor),
      last_tasks_(executor),
      plan_(std::move(plan)),
      delivery_(std::move(agent_program)),
      inherited_limit_(raise_descriptor_limit()) {}

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
  const auto started = co_await start_agent(agent);
  --starting_count_;
  start_next();
  if (started) co_return co_await wait_for_end(agent);
  if (Child* const child = find(agent); child != nullptr && child->shell) child->shell->terminate();
  tell_ended(agent, started.error().why);
}

awaitable<std::expected<void, RemoteBootstrap::Failed>> RemoteBootstrap::start_agent(AgentId agent) {
  bool delivered = false;
  for (int busy_count = 0;;) {
    auto tried = co_await try_start(agent);
    if (tried && *tried == Outcome::kGreeted)
      co_return co_await agree_on_control(agent, Clock::now() + kControlLimit);
    if (tried && delivered) co_return failed(agent.node, "an agent was brought there, and cannot be used");
    if (tried) {
      auto brought = co_await deliver(agent);
      delivered = brought.has_value();
      if (delivered) continue;
      tried = std::unexpected(brought.error());
    }
    if (!tried.error().busy || ++busy_count == kMostTries) co_return std::unexpected(tried.error());
    // Not all at the same time again.
    const Duration pause_now = kFirstPause * (1 << busy_count);
    co_await pause(pause_now / 2 + pause_now * (random_() % 1000) / 1000);
  }
}

awaitable<std::expected<RemoteBootstrap::Outcome, RemoteBootstrap::Failed>> RemoteBootstrap::try_start(
    AgentId agent) {
  AgentPlace place{.path = plan_.remote.remote_agent, .digest = "", .module = ""};
  if (place.path.empty()) {
    const auto own = delivery_.place();
    if (!own) co_return failed(agent.node, own.error().message());
    place = *own;
  }
  const auto invitation = invite(agent);
  if (!invitation) co_return failed(agent.node, invitation.error().message());
  const TimePoint deadline = Clock::now() + plan_.remote.connect_timeout;
  auto opened = open_shell(agent.node, start_script(place, arguments_of(agent, *invitation)));
  if (!opened) co_return failed(agent.node, opened.error().message());
  const std::shared_ptr<HostShell> shell = *opened;
  Child* child = find(agent);
  if (child == nullptr) co_return failed(agent.node, "its agent was given up");
  child->shell = shell;
  (void)co_await shell->write(invitation->key + "\n");
  for (;;) {
    const auto line = co_await shell->read_line(deadline);
    child = find(agent);
    if (child == nullptr) co_return failed(agent.node, "its agent was given up");
    if (line && line->starts_with("muster-agent absent")) co_return Outcome::kAbsent;
    if (line) child->greeting = parse_greeting(*line);
    if (child->greeting) co_return Outcome::kGreeted;
    if (line) continue;  // of the user's own start-up files
    if (line.error().code() == ErrorCode::kTimedOut)
      co_return failed(agent.node,
                       fmt::format("no answer within {:g} s", in_seconds(plan_.remote.connect_timeout)),
                       shell.get());
    if (line.error().code() != ErrorCode::kUnavailable)
      co_return failed(agent.node, line.error().message(), shell.get());
    const auto code = co_await shell->ended(deadline);
    Failed why = failed(agent.node,
                        code ? fmt::format("{} ended with {}", shell_name(), *code) : "no agent was started",
                        shell.get())
                     .error();
    why.busy = code && is_busy(*code, shell->last_error_line());
    co_return std::unexpected(std::move(why));
  }
}

awaitable<std::expected<void, RemoteBootstrap::Failed>> RemoteBootstrap::deliver(AgentId agent) {
  const auto place = delivery_.place();
  const auto tar = delivery_.tar();
  if (!place || !tar) co_return failed(agent.node, (!place ? place.error() : tar.error()).message());
  auto opened = open_shell(agent.node, delivery_script(*place));
  if (!opened) co_return failed(agent.node, opened.error().message());
  const std::shared_ptr<HostShell> shell = *opened;
  if (Child* const child = find(agent)) child->shell = shell;
  const Status written = co_await shell->write(**tar);
  shell->end_input();
  const auto code = co_await shell->ended(Clock::now() + kDeliveryLimit);
  if (code && *code == 0 && written) co_return std::expected<void, Failed>();
  Failed why =
      failed(agent.node,
             code ? fmt::format("the agent cannot be brought there ({} ended with {})", shell_name(), *code)
                  : std::string("the agent could not be brought there in time"),
             shell.get())
          .error();
  why.busy = code && is_busy(*code, shell->last_error_line());
  co_return std::unexpected(std::move(why));
}

awaitable<std::expected<void, RemoteBootstrap::Failed>> RemoteBootstrap::agree_on_control(
    AgentId agent, TimePoint deadline) {
  const std::shared_ptr<HostShell> shell = find(agent)->shell;
  const auto line = co_await shell->read_line(deadline);
  Child* const child = find(agent);
  if (child == nullptr) co_return failed(agent.node, "its agent was given up");
  if (!line) co_return failed(agent.node, "its agent cannot be spoken to", shell.get());
  if (*line == "control tcp") {
    child->spoken_to = SpokenTo::kByTcp;
    co_return std::expected<void, Failed>();
  }
  if (*line != "control stdio")
    co_return failed(agent.node, fmt::format("its agent says '{}'", one_line(*line)), shell.get());
  child->spoken_to = SpokenTo::kThroughShell;
  connected(agent, net::Connection::make(shell->take_socket(), nullptr));
  co_return std::expected<void, Failed>();
}

void RemoteBootstrap::connected(AgentId agent, std::shared_ptr<net::Connection> connection) {
  Child* const child = find(agent);
  if (child == nullptr || child->killed) return connection->close();
  child->channel = connection;
  listener_->agent_connected(agent, std::move(connection));
}

// An agent that is only spoken to through its shell has no use for a key.
Expected<ControlPort::Invitation> RemoteBootstrap::invite(AgentId agent) {
  if (plan_.control == Control::kStdio)
    return ControlPort::Invitation{.identity = ControlPort::identity_of(plan_, agent),
                                   .key = net::to_hex(net::Key{})};
  if (!control_port_) {
    auto port = ControlPort::open(executor_, tasks_, plan_, listening_addresses(plan_),
                                  [this](AgentId caller, std::shared_ptr<net::Connection> connection) {
                                    connected(caller, std::move(connection));
                                  });
    if (!port) return std::unexpected(std::move(port).error().within("--listen"));
    control_port_ = std::move(*port);
  }
  return control_port_->invite(agent);
}

std::vector<std::string> RemoteBootstrap::arguments_of(AgentId agent,
                                                       const ControlPort::Invitation& invitation) const {
  std::vector<std::string> words;
  const std::string addresses = control_port_ ? control_port_->addresses() : "";
  if (addresses.empty()) {
    words.emplace_back("--stdio");
  } else {
    words = {"--connect", addresses};
    if (plan_.control == Control::kAuto) words.emplace_back("--or-stdio");
  }
  words.insert(words.end(), {"--identity", invitation.identity, "--node", fmt::format("{}", agent.node),
                             "--incarnation", fmt::format("{}", agent.incarnation)});
  return words;
}

// ---- Ending ----

// A shell that fails as ssh does may have lost its connection, while the agent is still spoken to.
awaitable<void> RemoteBootstrap::wait_for_end(AgentId agent) {
  const std::shared_ptr<HostShell> shell = find(agent)->shell;
  const auto code = co_await shell->ended();
  Duration look = kFirstLook;
  for (;;) {
    const Child* const child = find(agent);
    if (child == nullptr) co_return;
    const auto channel = child->channel.lock();
    const bool connected = child->spoken_to == SpokenTo::kByTcp && channel && !channel->closed();
    if (!connected || *code != kSshFailed) break;
    co_await pause(look);
    look = std::min(2 * look, kLongestLook);
  }
  if (*code != 0) to_sweep_.insert(agent.node);  // else it has left, and with it all that it had started
  const std::string last = *code == 0 ? "" : shell->last_error_line();
  tell_ended(agent, fmt::format("its agent on {} has ended: {} ended with {}{}{}", host_of(agent.node).name,
                                shell_name(), *code, last.empty() ? "" : ": ", one_line(last)));
}

void RemoteBootstrap::tell_ended(AgentId agent, std::string how) {
  if (children_.erase(agent) == 0) return;
  listener_->agent_ended(agent, std::move(how));
}

void RemoteBootstrap::kill(AgentId agent) {
  Child* const child = find(agent);
  if (child == nullptr || std::exchange(child->killed, true)) return;
  if (child->greeting) return tasks_.spawn(kill_there(agent, child->shell, *child->greeting));
  // Nobody has heard of the agent yet. If it runs, it leaves when its stdin ends.
  std::erase(waiting_, agent);
  if (child->shell) child->shell->terminate();
  tell_ended(agent, fmt::format("host {}: its agent was given up before it came", host_of(agent.node).name));
}

awaitable<void> RemoteBootstrap::kill_there(AgentId agent, std::shared_ptr<HostShell> shell,
                                            AgentGreeting greeting) {
  const TimePoint deadline = Clock::now() + kKillLimit;
  const auto killer = open_shell(agent.node, kill_script(greeting.pid, greeting.start_ticks));
  if (killer) {
    const auto code = co_await (*killer)->ended(deadline);
    if (!code)
      log::warning("host {}: it did not answer when its agent was to be killed", host_of(agent.node).name);
    (*killer)->terminate();
  }
  shell->terminate();
  to_sweep_.insert(agent.node);
  tell_ended(agent, fmt::format("its agent on {} was killed", host_of(agent.node).name));
}

void RemoteBootstrap::look_for_leftovers(bool kill) {
  if (to_sweep_.empty()) return listener_->leftovers_seen({}, kill);
  sweep_kills_ = sweep_kills_ || kill;
  if (!std::exchange(sweeping_, true)) tasks_.spawn(sweep_all());
}

// A host that does not answer has no leftovers that anybody knows of. It is asked again later.
awaitable<void> RemoteBootstrap::sweep_all() {
  co_await pause(next_sweep_ - Clock::now());
  const bool kill = std::exchange(sweep_kills_, false);
  struct Answers {
    explicit Answers(const asio::any_io_executor& executor) : all_there(executor) {}
    asio::steady_timer all_there;
    std::size_t missing = 0;
    std::vector<Leftover> left;
  };
  const auto answers = std::make_shared<Answers>(executor_);
  answers->all_there.expires_at(TimePoint::max());
  const std::set<NodeId> nodes = to_sweep_;
  answers->missing = nodes.size();
  for (const NodeId node : nodes) {
    tasks_.spawn([](RemoteBootstrap* self, NodeId its_node, bool kills,
                    std::shared_ptr<Answers> to) -> awaitable<void> {
      auto left = co_await self->sweep(its_node, kills);
      if (left) to->left.insert(to->left.end(), left->begin(), left->end());
      if (--to->missing == 0) to->all_there.cancel();
    }(this, node, kill, answers));
  }
  boost::system::error_code ignored;
  if (answers->missing > 0)
    co_await answers->all_there.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  next_sweep_ = Clock::now() + kSweepPeriod;
  sweeping_ = false;
  listener_->leftovers_seen(std::move(answers->left), kill);
}

// What is left of the node on its host; nothing if the host does not say.
awaitable<std::optional<std::vector<Leftover>>> RemoteBootstrap::sweep(NodeId node, bool kill) {
  AgentPlace place{.path = plan_.remote.remote_agent, .digest = "", .module = ""};
  if (place.path.empty()) {
    const auto own = delivery_.place();
    if (!own) co_return std::nullopt;
    place = *own;
  }
  std::vector<std::string> words = {"--sweep", plan_.job.job_id, "--node", fmt::format("{}", node)};
  for (const auto& [agent, child] : children_) {  // a newer agent of the node is none of its leftovers
    if (agent.node == node) words.insert(words.end(), {"--below", fmt::format("{}", agent.incarnation)});
  }
  if (kill) words.emplace_back("--kill");
  const auto shell = open_shell(node, start_script(place, words));
  if (!shell) co_return std::nullopt;
  (*shell)->end_input();
  std::vector<Leftover> left;
  const TimePoint deadline = Clock::now() + kSweepLimit;
  for (;;) {
    const auto line = co_await (*shell)->read_line(deadline);
    if (!line) break;
    if (auto each = parse_leftover(*line)) left.push_back(*std::move(each));
    if (line->starts_with("muster-agent absent")) break;  // it never had one
    if (*line != "swept") continue;
    if (left.empty()) to_sweep_.erase(node);
    co_return left;
  }
  (*shell)->terminate();
  if (sweeping_later_.insert(node).second) tasks_.spawn(sweep_later(node));
  co_return std::nullopt;
}

awaitable<void> RemoteBootstrap::sweep_later(NodeId node) {
  log::warning("host {} does not say what node{} has left there; it is asked again", host_of(node).name,
               node);
  while (to_sweep_.contains(node)) {
    co_await pause(kSweepPause);
    (void)co_await sweep(node, /*kill=*/true);
  }
  sweeping_later_.erase(node);
}

void RemoteBootstrap::close() {
  if (control_port_) control_port_->stop();
  tasks_.cancel();
  for (auto& [agent, child] : std::exchange(children_, {})) {
    if (child.shell) last_tasks_.spawn(bury(std::move(child.shell)));
  }
}

// An agent that hears nobody leaves when its stdin ends, which its shell's end brings about.
awaitable<void> RemoteBootstrap::bury(std::shared_ptr<HostShell> shell) {
  shell->terminate();
  (void)co_await shell->ended(Clock::now() + kKillLimit);
}

// ---- Parts ----

awaitable<void> RemoteBootstrap::pause(Duration time) {
  asio::steady_timer timer(executor_, time);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

RemoteBootstrap::Child* RemoteBootstrap::find(AgentId agent) {
  const auto found = children_.find(agent);
  return found == children_.end() ? nullptr : &found->second;
}

const Host& RemoteBootstrap::host_of(NodeId node) const {
  return plan_.hosts.at(static_cast<std::size_t>(node.value()));
}

std::string RemoteBootstrap::shell_name() const {
  return plan_.remote.bootstrap == BootstrapKind::kExec ? plan_.remote.exec.front() : "ssh";
}

Expected<std::shared_ptr<HostShell>> RemoteBootstrap::open_shell(NodeId node, std::string_view script) const {
  return HostShell::start(executor_, host_shell(plan_.remote, host_of(node), script),
                          fmt::format("{}/agent.node{}.log", plan_.job.log_directory, node),
                          inherited_limit_);
}

std::unexpected<RemoteBootstrap::Failed> RemoteBootstrap::failed(NodeId node, const std::string& what,
                                                                 const HostShell* shell) const {
  const std::string last = shell == nullptr ? "" : shell->last_error_line();
  return std::unexpected(Failed{start_failure(plan_.remote, host_of(node), what, last)});
}

}  // namespace muster::launcher
