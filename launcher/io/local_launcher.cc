#include "launcher/io/local_launcher.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/process.h"
#include "common/net/tls.h"
#include "launcher/io/fleet/local_bootstrap.h"
#include "launcher/io/fleet/remote_bootstrap.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

// A repeated signal of the same process within this time counts once.
constexpr Duration kTwinLimit = std::chrono::milliseconds(50);

// Chooses the bootstrap (fleet/bootstrap.h) by the plan. A new bootstrap needs a line here.
std::unique_ptr<Bootstrap> make_bootstrap(const Plan& plan, const LocalLauncher::Parts& parts) {
  if (!plan.hosts.empty())
    return std::make_unique<RemoteBootstrap>(parts.context.get_executor(), plan, parts.agent_program);
  return std::make_unique<LocalBootstrap>(parts.context.get_executor(), plan, parts.agent_program);
}

// Derives the key from a secret that never leaves this process.
std::string neighbour_key(const net::Key& secret, const std::string& identity) {
  const auto tls = net::Tls::load();
  if (tls) return net::to_hex((*tls)->derive_key(secret, identity));
  log::warning("agents cannot keep copies of each other's checkpoints in memory: {}", tls.error().message());
  return "";
}

std::unique_ptr<StandardInput> make_input(const Plan& plan, const LocalLauncher::Parts& parts) {
  if (!plan.job.input_rank) return nullptr;
  return std::make_unique<StandardInput>(
      parts.context.get_executor(),
      [&terminal = parts.terminal](const std::string& what) { terminal.say(what); });
}

}  // namespace

LocalLauncher::LocalLauncher(const Plan& plan, const Parts& parts)
    : plan_(plan),
      context_(parts.context),
      terminal_(parts.terminal),
      started_unix_(parts.started_unix),
      time_(context_.get_executor()),
      signals_(context_.get_executor(), parts.signals),
      enquiries_(context_, time_,
                 {.status = [this] { return launcher_.status(); },
                  .cancel = [this](bool now) { launcher_.cancel(now); },
                  .ask_for_stacks = [this] { return launcher_.ask_for_stacks(); },
                  .nodes = [this] { return launcher_.nodes(); },
                  .add_nodes = [this](const std::string& hosts,
                                      bool now) { return launcher_.add_nodes(hosts, now); }}),
      bootstrap_(make_bootstrap(plan, parts)),
      lineage_(plan.job.checkpoint_directory, plan.job.job_id),
      view_(terminal_, enquiries_, parts.files, plan, parts.quiet),
      journal_(context_.get_executor(), parts.files, {plan, MUSTER_VERSION},
               [this](const std::string& what) { terminal_.say(what); }),
      input_(make_input(plan, parts)),
      launcher_(
          plan,
          {.time = time_,
           .bootstrap = *bootstrap_,
           .lineage = lineage_,
           .view = view_,
           .finished = [this] { context_.stop(); },
           .witness = [this](const Controller& self, const Event& event, TimePoint at,
                             const Decisions& decisions) { journal_.add(self, event, at, decisions); },
           .input = input_.get(),
           .neighbour_key = [secret = net::make_key()](
                                const std::string& identity) { return neighbour_key(secret, identity); }}) {}

void LocalLauncher::run() {
  wait_for_signals();
  launcher_.begin();
  publish();
  // Called only after the start: before, this process would compete with the starting agents for processors.
  ask_for_short_slices();
  context_.run();
  enquiries_.close();
  launcher_.close();
  if (input_) input_->close(launcher_.unread_input());
  bootstrap_->close();
  signals_.cancel();
  context_.restart();
  while (!bootstrap_->idle() && context_.run_one() > 0) {
  }
  journal_.flush();
}

// Runs while the agents start, so that it does not delay the start. The job goes on if either file fails.
void LocalLauncher::publish() {
  if (const Status written = write_job_record(plan_, started_unix_); !written)
    terminal_.say(written.error().message());
  const Status open = enquiries_.open(plan_.job.log_directory);
  if (!open) log::warning("{}: `launch status`, `dump` and `cancel` will not work", open.error().message());
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
      launcher_.interrupt(static_cast<int>(info.ssi_signo));
    }
  }
  if (children) bootstrap_->reap();
}

// Whether this is the same signal once more: timeout(1) and others signal their child, then its whole group.
bool LocalLauncher::is_twin(int signal, std::int64_t sender) {
  const TimePoint now = time_.now();
  const bool twin = sender != 0 && signal == last_signal_.signal && sender == last_signal_.sender &&
                    now < last_signal_.at + kTwinLimit;
  if (!twin) last_signal_ = {signal, sender, now};
  return twin;
}

}  // namespace muster::launcher
