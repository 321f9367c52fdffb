#include "launcher/io/local_job.h"

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/net/tls.h"
#include "launcher/io/fleet/local_bootstrap.h"
#include "launcher/io/fleet/remote_bootstrap.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

// Makes the bootstrap (fleet/bootstrap.h) that the plan needs. A new kind of bootstrap needs a line here.
std::unique_ptr<Bootstrap> make_bootstrap(const Plan& plan, const LocalJob::Parts& parts) {
  if (!plan.hosts.empty())
    return std::make_unique<RemoteBootstrap>(parts.context.get_executor(), plan, parts.agent_program,
                                             RemoteBootstrap::Calls::kLater, parts.kept);
  return std::make_unique<LocalBootstrap>(parts.context.get_executor(), plan, parts.agent_program,
                                          parts.agents);
}

// Makes the key of two neighbours from a secret that never leaves this process.
std::string neighbour_key(const net::Key& secret, const std::string& identity) {
  const auto tls = net::Tls::load();
  if (tls) return net::to_hex((*tls)->derive_key(secret, identity));
  log::warning("agents cannot keep copies of each other's checkpoints in memory: {}", tls.error().message());
  return "";
}

std::unique_ptr<StandardInput> make_input(const Plan& plan, const LocalJob::Parts& parts) {
  if (!plan.job.input_rank) return nullptr;
  return std::make_unique<StandardInput>(
      parts.context.get_executor(),
      [&console = parts.console](const std::string& what) { console.say(what); });
}

}  // namespace

LocalJob::LocalJob(const Plan& plan, const Parts& parts)
    : plan_(plan),
      console_(parts.console),
      started_unix_(parts.started_unix),
      phase_changed_(parts.phase_changed),
      publish_after_(parts.publish_after),
      publish_timer_(parts.context),
      enquiries_(parts.context, parts.time,
                 {.status = [this] { return launcher_.status(); },
                  .cancel = [this](bool now) { launcher_.cancel(now); },
                  .ask_for_stacks = [this] { return launcher_.ask_for_stacks(); },
                  .nodes = [this] { return launcher_.nodes(); },
                  .add_nodes = [this](const std::string& hosts,
                                      bool now) { return launcher_.add_nodes(hosts, now); }}),
      bootstrap_(make_bootstrap(plan, parts)),
      lineage_(plan.job.checkpoint_directory, plan.job.job_id),
      view_(parts.console, enquiries_, parts.files, plan, parts.quiet),
      journal_(parts.context.get_executor(), parts.files, {plan, std::string(kVersion)},
               [&console = parts.console](const std::string& what) { console.say(what); }),
      input_(make_input(plan, parts)),
      launcher_(
          plan,
          {.time = parts.time,
           .bootstrap = *bootstrap_,
           .lineage = lineage_,
           .view = view_,
           .finished = parts.finished,
           .witness =
               [this](const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
                 journal_.add(self, event, at, decisions);
                 if (std::exchange(phase_, self.job().phase()) == phase_) return;
                 if (phase_changed_) phase_changed_(phase_);
               },
           .input = input_.get(),
           .neighbour_key = [secret = net::make_key()](
                                const std::string& identity) { return neighbour_key(secret, identity); }}) {}

void LocalJob::begin() {
  launcher_.begin();
  if (publish_after_ == Duration::zero()) return publish();
  publish_timer_.expires_after(publish_after_);
  publish_timer_.async_wait([this](const boost::system::error_code&) { publish(); });
}

void LocalJob::close() {
  closing_ = true;
  publish_timer_.cancel();
  enquiries_.close();
  launcher_.close();
  if (input_) input_->close(launcher_.unread_input());
  bootstrap_->close();
}

// Makes job.json and the control socket. Other commands find the job with these. This runs after begin(), so
// that it does not delay the start of the agents. If one of the two cannot be made, the job goes on without
// it.
void LocalJob::publish() {
  published_ = true;
  if (const Status written = write_job_record(plan_, started_unix_); !written)
    console_.say(written.error().message());
  if (closing_) return;
  const Status open = enquiries_.open(plan_.job.log_directory);
  if (!open) log::warning("{}: `launch status`, `dump` and `cancel` will not work", open.error().message());
}

}  // namespace muster::launcher
