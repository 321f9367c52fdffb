// muster-agent: the program that runs on each node. The launcher starts it, and people do not.
//
//   muster-agent --control-fd FD --node K --incarnation N     a local agent: FD is its end of a socketpair
//   muster-agent --connect ADDRESS:PORT[,...] --identity JOB/ROLE/K/N --node K --incarnation N [--or-stdio]
//       [--stdio-first]
//   muster-agent --stdio [--identity JOB/ROLE/K/N] --node K --incarnation N     any other agent; it reads its
//       key, 64 hexadecimal digits, from stdin
//   muster-agent --door FD     local agents of one job after the other: each comes through FD (agent_pool.h)
//   --stays, with --stdio or --stdio-first: the same for any other agent; each job comes through stdin
//   muster-agent --sweep JOB --node K [--below N] [--kill]     looks on this host for processes that are left
//       of that node
//
// N is 1 for the first agent of this node, 2 for the agent that replaces it, and so on. The default is 1.
//
// main() makes the connection, the parts and the agent, and connects them.
#include <csignal>
#include <linux/close_range.h>
#include <unistd.h>

#include "agent/core/start/agent_arguments.h"
#include "agent/io/agent.h"
#include "agent/io/control.h"
#include "agent/io/health/local_vitals.h"
#include "agent/io/host_look.h"
#include "agent/io/link.h"
#include "agent/io/output/local_logs.h"
#include "agent/io/signals.h"
#include "agent/io/store/local_store_host.h"
#include "agent/io/sweep.h"
#include "agent/io/workers/local_processes.h"
#include "agent/io/workers/process.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/process.h"
#include "common/base/template_socket.h"
#include "common/base/text.h"
#include "common/base/version.h"
#include "common/net/addresses.h"

namespace muster::agent {

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitNoLauncher = 69;
constexpr int kExitInternal = 125;
// A remote agent ends after this many jobs, and so does everything that the jobs have left in its memory. For
// a local agent, the launcher counts the jobs (AgentPool).
constexpr int kMostJobs = 100;
const std::vector<int> kSignalsToLeave = {SIGTERM, SIGINT, SIGHUP};

wire::Hello hello(const Arguments& arguments, const ProcessIdentity& self) {
  const AgentId own = arguments.agent;
  return {own.node, static_cast<std::int32_t>(self.pid), self.host, std::string(kVersion), count_cores(),
          own.incarnation,
          // A local agent needs no addresses, and starts without reading them.
          arguments.control_fd ? std::vector<std::string>() : net::addresses_to_tell(),
          // A container has a host name of its own, so it counts as a machine of its own.
          self.boot_id.empty() ? "" : fmt::format("{} {}", self.boot_id, self.host)};
}

awaitable<void> move(Control& control, const Arguments& arguments, Link& link,
                     const std::function<void(const std::string& reason)>& leave) {
  const Status moved = co_await control.move(arguments);
  if (moved) co_return;
  link.send(Attempt(), wire::AgentRemark{moved.error().message()});
  leave("it cannot connect to its launcher");
}

// Runs the io_context until `done` returns true or nothing is left to do. A library may throw an exception if
// it gets no thread or no memory. Such an exception ends the agent in the same way as a signal: the guardian
// gets no goodbye, and ends all processes that the agent leaves.
void run_until(asio::io_context& io, const std::function<bool()>& done) {
  try {
    while (!done() && io.run_one() > 0) {
    }
    io.poll();
  } catch (const std::exception& error) {
    log::divert({});
    log::error("{}", error.what());
    _exit(kExitInternal);
  }
}

bool waits_for_next_job(int exit_code, const KeptParts& kept) {
  return exit_code == 0 && kept.for_next_job && !kept.guardian.inherits();
}

// Runs the agent until it has left its job. Returns the exit code.
int serve(asio::io_context& io, KeptParts& kept, Control& control, std::shared_ptr<net::Channel> channel,
          const Arguments& arguments, const ProcessIdentity& self) {
  const AgentId own = arguments.agent;
  int exit_code = 0;
  bool stays = false;  // the stream to the launcher is kept, so the io_context does not run out of work
  net::SystemTime time(io.get_executor());
  Link link(time, std::move(channel), own.node);
  net::TaskGroup tasks(io.get_executor());
  LocalLogs logs(
      {io.get_executor(), tasks, link, own.node, !arguments.control_fd, own.incarnation > Incarnation(1)});
  LocalVitals vitals;
  const auto remark = [&link](const std::string& what) { link.send(Attempt(), wire::AgentRemark{what}); };
  // A local agent is a child of its launcher. The other agents of the job are also children of that launcher.
  LocalStoreHost store(io, remark, arguments.control_fd ? getppid() : 0);
  LocalMpiHost mpi({io, kept.guardian, own.node, own.incarnation, remark});
  LocalProcesses processes({io, tasks, time, kept, logs, vitals, mpi, own.node, own.incarnation, remark});
  block_signals(kSignalsToLeave);
  Agent agent({time, link, processes, processes, processes, processes, vitals, logs, store, mpi,
               [look = std::make_shared<HostLook>()](const wire::CheckHost& question) {
                 return look->look(question);
               }},
              [&](const Quit& quit) {
                exit_code = quit.exit_code;
                if (quit.leaves_processes) kept.guardian.inherit();
                // The call of cancel() is posted. An immediate call would also cancel the task that is
                // running this function.
                asio::post(io, [&] {
                  tasks.cancel();
                  stays = waits_for_next_job(exit_code, kept) && control.stays();
                  if (!stays) control.finish();
                });
              });
  // Only the launcher can end a job in such a way that the next one can follow. If anything else ends it, the
  // agent's process ends with the job.
  const auto leave = [&](const std::string& reason) {
    kept.for_next_job = false;
    agent.leave(reason);
  };
  agent.start(hello(arguments, self));
  if (!arguments.job.empty()) kept.guardian.keep_from(own.incarnation.next());
  logs.divert_own_log();
  tasks.spawn(hear_signals(kSignalsToLeave,
                           [&leave](int signal) { leave(fmt::format("the agent got signal {}", signal)); }));
  tasks.spawn(move(control, arguments, link, leave));
  run_until(io, [&] { return stays && tasks.empty(); });
  return exit_code;
}

void settle_process() {
  become_subreaper();
  ask_for_short_slices();
}

int run(const Arguments& arguments, asio::io_context& io, KeptParts& kept, Control& control) {
  log::set_up(fmt::format("agent {}", arguments.agent.node), log::Level::kInfo);
  const ProcessIdentity self = own_identity();
  auto channel = control.connect(arguments, self);
  // An earlier agent of this node may have left processes. They must be gone before this agent starts ranks.
  if (channel && !arguments.job.empty() && arguments.agent.incarnation > Incarnation(1)) {
    const auto left = sweep({arguments.job, arguments.agent.node, arguments.agent.incarnation, true});
    for (const Leftover& each : left) log::warning("{}", describe(each));
  }
  if (channel) return serve(io, kept, control, *std::move(channel), arguments, self);
  log::error("{}", channel.error().message());
  return kExitNoLauncher;
}

// Waits for the next job. It comes as a message with the node and the incarnation. The control socket and the
// log file are attached to the message. Returns nothing if the launcher is gone.
std::optional<Arguments> take_job(int door) {
  auto message = receive_template_message(door, /*timeout_ms=*/-1);
  if (!message || message->fds.size() != 2) return std::nullopt;
  const auto words = split(message->text, ' ');
  const auto node = parse_number<std::int32_t>(words.front());
  const auto incarnation = parse_number<std::uint32_t>(words.back());
  if (!node || !incarnation) return std::nullopt;
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(message->fds[1].get(), stream);
  Arguments arguments;
  arguments.agent = {NodeId(*node), Incarnation(*incarnation)};
  arguments.control_fd = message->fds[0].release();
  return arguments;
}

// Serves one job after the other, or only one job. The objects are destroyed in the reverse order of their
// declaration. So the guardian gets its last message at the very end.
int serve_jobs(Arguments arguments) {
  settle_process();
  asio::io_context io(1);
  KeptParts kept(io.get_executor());
  Control control(io);
  for (int count = 1;; ++count) {
    kept.for_next_job = arguments.stays && count < kMostJobs;
    const int exit_code = run(arguments, io, kept, control);
    if (!waits_for_next_job(exit_code, kept) || !control.stays()) return exit_code;
    kept.guardian.job_is_over();
    unblock_signals(kSignalsToLeave);
    auto next = control.next_job();
    if (!next) return 0;
    arguments = *std::move(next);
  }
}

// Serves jobs that come through `door`. If a job fails, the process ends with the exit code of that job, so
// that the launcher sees it.
int serve_jobs_at_door(int door) {
  settle_process();
  asio::io_context io(1);
  KeptParts kept(io.get_executor());
  for (;;) {
    unblock_signals(kSignalsToLeave);
    const auto job = take_job(door);
    if (!job) return 0;
    kept.for_next_job = true;
    Control control(io);
    const int exit_code = run(*job, io, kept, control);
    if (!waits_for_next_job(exit_code, kept)) return exit_code;
    kept.guardian.job_is_over();
    io.restart();
    if (!send_template_message(door, "left", {})) return 0;
  }
}

int print_sweep(const SweepOrder& order) {
  std::string text;
  for (const Leftover& each : sweep(order))
    text += fmt::format("left {} {} {} {}\n", each.pid, each.uid, each.error, one_line(each.name));
  return write_all(STDOUT_FILENO, text + "swept\n", "stdout") ? 0 : 1;
}

// Makes sure that workers inherit no descriptor above stderr.
void settle_descriptors() {
  open_standard_streams();
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

}  // namespace

}  // namespace muster::agent

int main(int argc, char** argv) {
  using namespace muster;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const auto text = agent::text_to_print(words)) return write_all(STDOUT_FILENO, *text, "stdout") ? 0 : 1;
  const auto arguments = agent::parse_arguments(words);
  if (!arguments) {
    log::error("{}", arguments.error().message());
    return agent::kExitUsage;
  }
  agent::settle_descriptors();
  agent::settle_signals();
  if (arguments->sweep) return agent::print_sweep(*arguments->sweep);
  keep_freed_memory();
  agent::lower_oom_score();
  return arguments->door ? agent::serve_jobs_at_door(*arguments->door) : agent::serve_jobs(*arguments);
}
