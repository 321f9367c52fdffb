#include "launcher/io/local_launcher.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/process.h"
#include "launcher/io/fleet/children.h"

namespace muster::launcher {

namespace {

// If the same process sends the same signal twice within this time, the signal counts once.
constexpr Duration kTwinLimit = std::chrono::milliseconds(50);

}  // namespace

LocalLauncher::LocalLauncher(const Plan& plan, const Parts& parts)
    : local_(plan.hosts.empty()),
      context_(parts.context),
      time_(context_.get_executor()),
      signals_(context_.get_executor(), parts.signals),
      job_(plan, {.context = parts.context,
                  .time = time_,
                  .console = parts.terminal,
                  .files = parts.files,
                  .agent_program = parts.agent_program,
                  .quiet = parts.quiet,
                  .started_unix = parts.started_unix,
                  .finished = [this] { context_.stop(); }}) {}

void LocalLauncher::run() {
  wait_for_signals();
  job_.begin();
  // This is called only after the start of the agents. Before that, this process would compete with them for
  // processors.
  ask_for_short_slices();
  context_.run();
  job_.close();
  signals_.cancel();
  context_.restart();
  while (!job_.closed() && context_.run_one() > 0) {
  }
  job_.flush();
}

void LocalLauncher::wait_for_signals() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const boost::system::error_code& error) {
                        if (error) return;
                        read_signals();
                        wait_for_signals();
                      });
}

void LocalLauncher::read_signals() {
  signalfd_siginfo info{};
  bool children = false;
  while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      children = true;
    } else if (!is_twin(static_cast<int>(info.ssi_signo), info.ssi_pid)) {
      job_.launcher().interrupt(static_cast<int>(info.ssi_signo));
    }
  }
  if (children && local_) job_.hear_ends(reap_children());
}

// Returns whether this is the same signal once more. timeout(1) and others send a signal to their child
// first, and then to its whole group.
bool LocalLauncher::is_twin(int signal, std::int64_t sender) {
  const TimePoint now = time_.now();
  const bool twin = sender != 0 && signal == last_signal_.signal && sender == last_signal_.sender &&
                    now < last_signal_.at + kTwinLimit;
  if (!twin) last_signal_ = {signal, sender, now};
  return twin;
}

}  // namespace muster::launcher
