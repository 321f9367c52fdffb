#include "launcher/io/launcher.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/wire/agent_identity.h"
#include "launcher/core/text/words.h"
#include "launcher/core/view/progress.h"

namespace muster::launcher {

namespace {

constexpr Duration kTickPeriod = std::chrono::seconds(1);
constexpr std::size_t kToldLimit = 10;

}  // namespace

Launcher::Launcher(Plan plan, Parts parts)
    : plan_(std::move(plan)),
      parts_(std::move(parts)),
      controller_(plan_, std::string(kVersion)),
      deadline_(parts_.time.make_alarm([this] { post(TimePassed{}); })),
      second_(parts_.time.make_alarm([this] { tick_if_due(); })),
      started_(parts_.time.now()) {
  controller_.set_witness(std::move(parts_.witness));
  parts_.bootstrap.listen(*this);
}

void Launcher::begin() {
  next_second_ = parts_.time.now() + kTickPeriod;
  second_->set(next_second_);
  post(Began{});
}

void Launcher::close() {
  *open_ = false;
  deadline_->set(std::nullopt);
  second_->set(std::nullopt);
  for (const auto& [connection, each] : conversations_) each.session->close();
  conversations_.clear();
}

// ---- What happens ----

// If the launcher has slept, the controller first gets a SecondPassed, which tells it so. The events that
// arrived or became due during the sleep follow.
void Launcher::post(Event event) {
  if (!performing_) tick_if_due();
  if (!*open_) return;
  events_.push_back(std::move(event));
  if (performing_) return;
  performing_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    const Decisions decisions = controller_.on(next, parts_.time.now());
    // Performs all actions before it shows them: agents wait for the actions.
    for (const Decision& decision : decisions)
      std::visit([this](const auto& action) { perform(action); }, decision.action);
    const Duration age = parts_.time.now() - started_;
    for (const Decision& decision : decisions) parts_.view.show(decision, age);
  }
  performing_ = false;
  deadline_->set(controller_.next_deadline());
}

void Launcher::agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) {
  if (!*open_) return channel->close();
  newest_connection_ = newest_connection_.next();
  auto session = std::make_shared<Session>(parts_.time, agent.node, std::move(channel),
                                           static_cast<std::uint64_t>(plan_.job.output_window_bytes));
  conversations_.emplace(newest_connection_, Conversation{agent, std::move(session)});
  post(AgentConnected{agent, newest_connection_});
}

void Launcher::agent_ended(AgentId agent, std::string how, AgentEnd end) {
  post(ProcessEnded{agent, std::move(how), end});
}

void Launcher::leftovers_seen(std::vector<Leftover> left, bool killed) {
  post(LeftoversSeen{std::move(left), killed});
}

void Launcher::hear(ConnectionId connection, Attempt attempt, wire::ToLauncher message) {
  const Conversation& from = conversations_.at(connection);
  if (const auto* report = std::get_if<wire::WorkerReported>(&message);
      report != nullptr && report->kind == wire::ReportKind::kMetric) {
    if (controller_.counts(from.agent, attempt, message))
      parts_.view.show_metrics(report->rank, report->step, report->values);
    return;  // the core decides nothing from metrics, so the journal need not keep them
  }
  if (auto* output = std::get_if<wire::Output>(&message)) {
    parts_.view.show_output(from.agent.node, *output,
                            from.session->received_output(output->stream, output->text.view().size()));
    output->text = {};  // the core needs only the sign of life
  }
  if (auto* piece = std::get_if<wire::LogPiece>(&message)) {
    parts_.view.keep_log(from.agent.node, attempt, *piece,
                         [weak = std::weak_ptr(from.session), attempt](const wire::LogTaken& taken) {
                           if (const auto session = weak.lock()) session->send(attempt, taken);
                         });
    piece->text = {};
  }
  if (const auto* logs = std::get_if<wire::LogsElsewhere>(&message))
    parts_.view.logs_are_elsewhere(from.agent.node, controller_.job().names().host_of(from.agent.node),
                                   logs->directory);
  if (const auto* stacks = std::get_if<wire::WorkerStacks>(&message)) parts_.view.show_stacks(*stacks);
  if (auto* pong = std::get_if<wire::Pong>(&message); pong != nullptr && !pong->usage.empty()) {
    if (attempt == controller_.job().attempt()) parts_.view.show_usage(pong->usage);
    pong->usage.clear();  // the core decides nothing from the usage
  }
  // Without hosts, all nodes are on this machine and share its clock.
  if (plan_.job.trace && !plan_.hosts.empty() && std::holds_alternative<wire::Pong>(message)) {
    if (const auto answer = from.session->take_clock_answer())
      parts_.view.keep_clock(from.agent.node, controller_.job().names().host_of(from.agent.node), *answer);
    if (from.session->wants_clock_answers()) from.session->send_ping(controller_.fleet().output_waits());
  }
  if (parts_.input != nullptr) follow_input(from.agent, attempt, message);
  post(AgentSaid{from.agent, attempt, std::move(message)});
}

void Launcher::closed(ConnectionId connection, const Error& why) {
  const auto found = conversations_.find(connection);
  const AgentId agent = found->second.agent;
  conversations_.erase(found);
  parts_.view.agent_closed(agent.node);
  log::debug("node{}: {}", agent.node, why.message());
  const bool unreadable = why.code() != ErrorCode::kUnavailable;
  post(ConnectionClosed{agent, connection, unreadable ? why.message() : ""});
}

// ---- The job's input ----

void Launcher::follow_input(AgentId agent, Attempt attempt, const wire::ToLauncher& message) {
  const Job& job = controller_.job();
  const Rank rank = *plan_.job.input_rank;
  if (attempt != job.attempt() || !controller_.fleet().listens_to(agent) ||
      !job.crew().owns(agent.node, rank))
    return;
  const auto* exited = std::get_if<wire::WorkerExited>(&message);
  if (exited != nullptr && exited->rank == rank) feed_.stop();
  if (std::holds_alternative<wire::WorkersStarted>(message)) begin_input(attempt);
  if (const auto* taken = std::get_if<wire::InputTaken>(&message)) feed_.on(*taken);
  pass_input_on();
}

void Launcher::begin_input(Attempt attempt) {
  feed_.begin(attempt);
  if (feed_.gone() == 0) return;
  const Tell told{fmt::format("rank {} goes on reading stdin after {} that an earlier attempt has read",
                              *plan_.job.input_rank, count_of(feed_.gone(), "byte"))};
  perform(told);
  parts_.view.show({told, "input cannot be read twice"}, parts_.time.now() - started_);
}

void Launcher::pass_input_on() {
  const Job& job = controller_.job();
  if (feed_.attempt() != job.attempt() || job.crew().empty()) return;
  Session* const session = session_of(job.crew().node_of(*plan_.job.input_rank));
  if (session == nullptr) return;
  while (const auto piece = feed_.next()) session->send(feed_.attempt(), *piece);
  const std::size_t most = feed_.wanted();
  if (most == 0 || std::exchange(reading_input_, true)) return;
  parts_.input->read(most, [this, open = open_](const std::string& text) {
    if (!*open) return;
    reading_input_ = false;
    feed_.add(text);
    pass_input_on();
  });
}

// ---- What is decided ----

void Launcher::perform(const StartAgent& action) {
  parts_.bootstrap.start(action.agent);
}

void Launcher::perform(const KillAgent& action) {
  parts_.bootstrap.kill(action.agent);
}

void Launcher::perform(const AcceptConnection& action) {
  Conversation& conversation = conversations_.at(action.connection);
  conversation.accepted = true;
  const auto session = conversation.session;
  session->start(
      [this, connection = action.connection](Attempt attempt, wire::ToLauncher message) {
        hear(connection, attempt, std::move(message));
      },
      [this, connection = action.connection](const Error& why) { closed(connection, why); });
  session->send_ping(/*output_waits=*/false);
}

void Launcher::perform(const CloseConnection& action) {
  const auto found = conversations_.find(action.connection);
  if (found == conversations_.end()) return;
  found->second.session->close();
  if (found->second.accepted) parts_.view.agent_closed(found->second.agent.node);
  conversations_.erase(found);
}

void Launcher::perform(const LookForLeftovers& action) {
  parts_.bootstrap.look_for_leftovers(action.kill);
}

void Launcher::perform(const BeginAttempt& action) {
  const auto answer = [this, open = open_](auto what) {
    if (*open) post(std::move(what));
  };
  parts_.lineage.begin_attempt(action, answer, answer);
}

void Launcher::perform(const LookForCheckpoint& action) {
  parts_.lineage.newest_commit(action, [this, open = open_](CheckpointFound found) {
    if (*open) post(found);
  });
}

void Launcher::perform(const Send& action) {
  Session* const session = session_of(action.node);
  if (session == nullptr) return;  // the connection has closed; the fleet's next event says so
  session->advance_to(action.attempt);
  if (!std::holds_alternative<wire::StartWorkers>(action.message))
    return session->send(action.attempt, action.message);
  wire::ToAgent message = action.message;
  add_keys({action.node, controller_.fleet().incarnation(action.node)}, message);
  session->send(action.attempt, message);
}

// The keys are added here and not in the core, because the journal records the core's decisions, and must not
// contain keys.
void Launcher::add_keys(AgentId agent, wire::ToAgent& message) const {
  auto& neighbours = std::get<wire::StartWorkers>(message).neighbours;
  if (!parts_.neighbour_key) return neighbours.clear();
  for (wire::Neighbour& each : neighbours) {
    const AgentId other{each.node, each.incarnation};
    each.key = parts_.neighbour_key(wire::peer_identity(plan_.job.job_id, agent, other));
  }
}

void Launcher::perform(const Tell& action) {
  told_.emplace_back(parts_.time.now(), action.text);
  if (told_.size() > kToldLimit) told_.pop_front();
}

void Launcher::perform(const Finish&) {
  parts_.finished();
}

Session* Launcher::session_of(NodeId node) {
  const auto connection = controller_.fleet().connection_of(node);
  const auto found = connection ? conversations_.find(*connection) : conversations_.end();
  return found == conversations_.end() ? nullptr : found->second.session.get();
}

void Launcher::tick_if_due() {
  const TimePoint now = parts_.time.now();
  if (now < next_second_) return;
  post(SecondPassed{std::exchange(next_second_, now + kTickPeriod)});
  const bool output_waits = controller_.fleet().output_waits();
  std::vector<int> taken;
  for (const int stream : {1, 2}) {
    if (parts_.view.takes(stream, kTickPeriod)) taken.push_back(stream);
  }
  for (const auto& [connection, each] : conversations_) {
    each.session->send_ping(output_waits, parts_.view.wants_usage());
    for (const int stream : taken) each.session->reassure(stream);
  }
  const bool leaving = controller_.job().phase() == Phase::kLeaving;
  const auto progress = start_progress(controller_.fleet(), controller_.job(), controller_.ranks(), now);
  if (std::string text = leaving    ? parts_.view.logs_to_come()
                         : progress ? progress_text(*progress)
                                    : "";
      text != told_progress_) {
    told_progress_ = std::move(text);
    parts_.view.show_progress(told_progress_);
  }
  second_->set(next_second_);
}

// ---- More nodes ----

Expected<std::string> Launcher::add_nodes(const std::string& text, bool now) {
  const auto hosts = parse_hosts(text, "nodes add");
  if (!hosts) return std::unexpected(hosts.error());
  const auto nodes = controller_.job().addable(*hosts);
  if (!nodes) return std::unexpected(Error(nodes.error()).within("nodes add"));
  std::string names;
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    Host host = (*hosts)[i];
    host.slots = (*nodes)[i].slots;
    names += fmt::format("{}node{} ({})", names.empty() ? "" : ", ", plan_.hosts.size(), host.name);
    parts_.bootstrap.add(host);
    plan_.hosts.push_back(std::move(host));
  }
  post(NodesAdded{*nodes, now});
  return fmt::format("{} {} part from the next attempt{}", names, hosts->size() == 1 ? "takes" : "take",
                     now ? ", after the next commit" : "");
}

// ---- Answers about the job ----

JobStatus Launcher::status() const {
  const TimePoint now = parts_.time.now();
  const Job& job = controller_.job();
  JobStatus status{.job_id = plan_.job.job_id,
                   .phase = std::string(name_of(job.phase())),
                   .waiting_for = job.waiting_for(now),
                   .attempt = job.attempt().value(),
                   .restart_count = job.restart_count(),
                   .max_restarts = plan_.job.max_restarts,
                   .elapsed_seconds = in_seconds(now - started_),
                   .committed_step = job.steps().committed_ever(),
                   .nodes = job.members(),
                   .names = job.names(),
                   .ranks = statuses_of(controller_.ranks(), job.steps(), job.members(), now)};
  for (const auto& [at, text] : told_) status.events.push_back({in_seconds(now - at), text});
  return status;
}

std::vector<Rank> Launcher::ask_for_stacks() {
  post(StacksWanted{});
  return controller_.job().living_ranks();
}

}  // namespace muster::launcher
