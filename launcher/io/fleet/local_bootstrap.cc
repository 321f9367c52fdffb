#include "launcher/io/fleet/local_bootstrap.h"

#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/program.h"
#include "common/net/connection.h"
#include "launcher/io/fleet/spawn_child.h"

namespace muster::launcher {

namespace {

constexpr int kControlFd = 3;          // spawn_child() puts the socket there
constexpr int kSocketBytes = 1 << 20;  // fewer turns make the workers' output faster

}  // namespace

// A sweep has many bootstraps. The first of them raises the limit for all.
rlimit LocalBootstrap::limit_before_raise() {
  static const rlimit before = raise_descriptor_limit();
  return before;
}

Expected<std::string> LocalBootstrap::find_agent_program() {
  auto agent = beside_own_program("muster-agent");
  if (agent && access(agent->c_str(), X_OK) != 0) return system_failure("cannot execute " + *agent, errno);
  return agent;
}

LocalBootstrap::LocalBootstrap(const asio::any_io_executor& executor, Plan plan, std::string agent_program,
                               AgentPool* pool)
    : executor_(executor),
      tasks_(executor),
      plan_(std::move(plan)),
      agent_program_(std::move(agent_program)),
      pool_(pool),
      inherited_limit_(limit_before_raise()),
      marks_{.entry = "MUSTER_JOB_ID=" + plan_.job.job_id, .sessions = {}} {
  become_subreaper();
}

void LocalBootstrap::start(AgentId agent) {
  auto started = plan_.control == Control::kSocket ? start_with_socket(agent) : start_with_tcp(agent);
  if (!started) return listener_->agent_ended(agent, started.error().message(), AgentEnd::kRefused);
  children_.emplace(started->pid, Child{agent, std::move(started->input)});
  pids_.emplace(agent, started->pid);
  marks_.sessions.insert(started->pid);
  if (!started->socket) return;
  listener_->agent_connected(
      agent, net::Connection::make(net::adopt_socket(executor_, started->socket.release()), nullptr));
}

void LocalBootstrap::kill(AgentId agent) {
  const auto found = pids_.find(agent);
  if (found == pids_.end()) return;
  children_.at(found->second).killed = true;
  ::kill(found->second, SIGKILL);
}

void LocalBootstrap::hear_ends(const std::vector<ChildEnd>& ends) {
  bool others = false;
  for (const ChildEnd& end : ends) {
    const auto found = children_.find(end.pid);
    if (found == children_.end()) {
      others = true;
      continue;
    }
    const AgentId agent = found->second.agent;
    children_.erase(found);
    pids_.erase(agent);
    listener_->agent_ended(agent, "its agent " + end.how, AgentEnd::kOther);
  }
  if (others && saw_leftovers_) look_for_leftovers(killed_leftovers_);
}

void LocalBootstrap::look_for_leftovers(bool kill) {
  std::set<pid_t> known = living_agents();
  if (pool_ != nullptr) known.merge(pool_->pids());  // they are in sessions of this job's marks
  const std::vector<pid_t> leftovers = leftover_children(marks_, known);
  if (leftovers.empty()) marks_.sessions = living_agents();
  std::vector<Leftover> left;
  for (const pid_t pid : leftovers) left.push_back(kill ? kill_leftover(pid) : Leftover{.pid = pid});
  saw_leftovers_ = !left.empty();
  killed_leftovers_ = kill;
  listener_->leftovers_seen(std::move(left), kill);
}

std::set<pid_t> LocalBootstrap::living_agents() const {
  std::set<pid_t> living;
  for (const auto& [pid, child] : children_) {
    if (!child.killed) living.insert(pid);
  }
  return living;
}

void LocalBootstrap::close() {
  if (control_port_) control_port_->stop();
  tasks_.cancel();
}

Expected<LocalBootstrap::Started> LocalBootstrap::start_with_socket(AgentId agent) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const int much = kSocketBytes;
  if (setsockopt(theirs.get(), SOL_SOCKET, SO_SNDBUFFORCE, &much, sizeof much) != 0)
    setsockopt(theirs.get(), SOL_SOCKET, SO_SNDBUF, &much, sizeof much);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto pid = pool_ != nullptr ? hire(agent, theirs.get())
                                    : spawn(agent, {"--control-fd", std::to_string(kControlFd)},
                                            nothing.get(), theirs.get());
  if (!pid) return std::unexpected(pid.error());
  return Started{.pid = *pid, .socket = std::move(ours)};
}

Expected<pid_t> LocalBootstrap::hire(AgentId agent, int socket) {
  const std::string log = plan_.agent_log(agent.node);
  const UniqueFd messages(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!messages) return system_failure("cannot open " + log, errno);
  return pool_->hire({.id = plan_.job.job_id,
                      .agent = agent,
                      .control = socket,
                      .log = messages.get(),
                      .left = [this, agent, weak = std::weak_ptr(alive_)] {
                        if (weak.lock()) agent_left(agent);
                      }});
}

void LocalBootstrap::agent_left(AgentId agent) {
  const auto found = pids_.find(agent);
  if (found == pids_.end()) return;
  children_.erase(found->second);
  pids_.erase(found);
  listener_->agent_ended(agent, "its agent has left", AgentEnd::kOther);
}

Expected<LocalBootstrap::Started> LocalBootstrap::start_with_tcp(AgentId agent) {
  if (!control_port_) {
    auto port = ControlPort::open(executor_, tasks_, plan_, {"127.0.0.1"},
                                  [this](AgentId caller, std::shared_ptr<net::Connection> connection) {
                                    listener_->agent_connected(caller, std::move(connection));
                                  });
    if (!port) return std::unexpected(port.error());
    control_port_ = std::move(*port);
  }
  if (Status started = control_port_->start(); !started) return std::unexpected(started.error());
  const std::string key = control_port_->invite(agent);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  const UniqueFd input(ends[0]);
  UniqueFd output(ends[1]);
  if (Status written = write_all(output.get(), key + "\n", "the agent's stdin"); !written)
    return std::unexpected(written.error());
  const auto pid = spawn(
      agent, {"--connect", control_port_->addresses(), "--identity", ControlPort::identity_of(plan_, agent)},
      input.get(), -1);
  if (!pid) return std::unexpected(pid.error());
  return Started{.pid = *pid, .input = std::move(output)};
}

Expected<pid_t> LocalBootstrap::spawn(AgentId agent, std::vector<std::string> arguments, int input,
                                      int socket) const {
  const std::string log = plan_.agent_log(agent.node);
  const UniqueFd messages(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!messages) return system_failure("cannot open " + log, errno);
  arguments.insert(arguments.end(), {"--node", fmt::format("{}", agent.node), "--incarnation",
                                     fmt::format("{}", agent.incarnation)});
  arguments.insert(arguments.begin(), agent_program_);
  return spawn_child(std::move(arguments),
                     {.input = input, .output = messages.get(), .errors = messages.get(), .third = socket},
                     inherited_limit_);
}

}  // namespace muster::launcher
