// agent: started on a node by a bootstrap of the launcher's, never by a person.
//
//   agent --control-fd FD --node K --incarnation N     a local agent: FD is its end of a socketpair
//   agent --connect ADDRESS:PORT --identity JOB/ROLE/K/N --node K --incarnation N     any other; its key
//   comes on stdin, 64 hexadecimal digits
//
// N counts the starts of this node's agent, and is 1 if it is not given.
//
// The wiring: connection, parts, agent.
#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <linux/close_range.h>
#include <string_view>
#include <unistd.h>

#include "agent/core/start/agent_arguments.h"
#include "agent/io/agent.h"
#include "agent/io/guardian.h"
#include "agent/io/health/local_vitals.h"
#include "agent/io/link.h"
#include "agent/io/output/local_logs.h"
#include "agent/io/signals.h"
#include "agent/io/store/local_store_host.h"
#include "agent/io/workers/local_processes.h"
#include "agent/io/workers/process.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/process.h"
#include "common/net/listener.h"

namespace muster::agent {

namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(10);
constexpr int kExitUsage = 2;
constexpr int kExitNoLauncher = 69;
const std::vector<int> kSignalsToLeave = {SIGTERM, SIGINT, SIGHUP};

using Connecting = Expected<std::shared_ptr<net::Connection>>;

awaitable<void> connect_to(Arguments arguments, net::Key key, Connecting* result) {
  *result = co_await net::connect(arguments.address, arguments.port, arguments.identity, key, kConnectLimit);
}

// Without std::cin, which would make streams and locales in every start.
std::optional<net::Key> read_key() {
  char line[128];
  if (std::fgets(line, sizeof line, stdin) == nullptr) return std::nullopt;
  const std::string_view text(line);
  return net::key_from_hex(text.substr(0, text.find('\n')));
}

Connecting connect(asio::io_context& io, const Arguments& arguments) {
  if (arguments.control_fd)
    return net::Connection::make(net::adopt_socket(io.get_executor(), *arguments.control_fd), nullptr);
  const auto key = read_key();
  if (!key) return failure(ErrorCode::kInvalidArgument, "stdin: expected a key of 64 hexadecimal digits");
  Connecting result = failure(ErrorCode::kUnavailable, "not connected");
  asio::co_spawn(io, connect_to(arguments, *key, &result), asio::detached);
  io.run();
  io.restart();
  return result;
}

wire::Hello hello(AgentId own) {
  std::array<char, HOST_NAME_MAX + 1> hostname{};
  gethostname(hostname.data(), hostname.size() - 1);
  return {own.node, getpid(), hostname.data(), MUSTER_VERSION, count_cores(), own.incarnation};
}

// Until the agent has left; the exit code. Everything goes in the reverse order: the guardian last.
int serve(asio::io_context& io, std::shared_ptr<net::Connection> connection, AgentId own) {
  int exit_code = 0;
  Guardian guardian;
  net::SystemTime time(io.get_executor());
  Link link(time, std::move(connection), own.node);
  net::TaskGroup tasks(io.get_executor());
  LocalLogs logs({io.get_executor(), tasks, link, own.node});
  LocalStoreHost store(io);
  LocalVitals vitals;
  LocalProcesses processes({io, tasks, time, guardian, logs, vitals, own.node});
  block_signals(kSignalsToLeave);
  Agent agent({time, link, processes, processes, processes, processes, vitals, logs, store}, [&](int code) {
    exit_code = code;
    // Not now: the task that brought this about would be cancelled while it runs.
    asio::post(io, [&tasks] { tasks.cancel(); });
  });
  agent.start(hello(own));
  logs.divert_own_log();
  tasks.spawn(hear_signals(kSignalsToLeave, [&agent](int signal) {
    agent.leave(fmt::format("the agent got signal {}", signal));
  }));
  io.run();
  return exit_code;
}

int run(const Arguments& arguments) {
  log::set_up(fmt::format("agent {}", arguments.agent.node), log::Level::kInfo);
  become_subreaper();
  ask_for_short_slices();
  asio::io_context io(1);
  auto connection = connect(io, arguments);
  if (connection) return serve(io, *std::move(connection), arguments.agent);
  log::error("{}", connection.error().message());
  return kExitNoLauncher;
}

// None of the inherited descriptors is a worker's business.
void settle_descriptors() {
  open_standard_streams();
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

}  // namespace

}  // namespace muster::agent

int main(int argc, char** argv) {
  using namespace muster;
  const auto arguments = agent::parse_arguments({argv + 1, argv + argc});
  if (!arguments) {
    log::error("{}", arguments.error().message());
    return agent::kExitUsage;
  }
  agent::settle_descriptors();
  agent::settle_signals();
  keep_freed_memory();
  agent::lower_oom_score();
  return agent::run(*arguments);
}
