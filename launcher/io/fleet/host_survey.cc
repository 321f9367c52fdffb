#include "launcher/io/fleet/host_survey.h"

#include <cstring>
#include <utility>

#include "common/base/version.h"
#include "launcher/core/fleet/hello.h"

namespace muster::launcher {

namespace {

constexpr Duration kAnswerLimit = std::chrono::seconds(30);  // an agent's own is 20 s for Python
constexpr Duration kLeaveLimit = std::chrono::seconds(2);
constexpr Duration kPeriod = std::chrono::milliseconds(100);

}  // namespace

HostSurvey::HostSurvey(const Plan& plan, const std::string& agent_program, std::string mark)
    : plan_(plan),
      watch_(context_, kPeriod, [this] { look(); }),
      bootstrap_(context_.get_executor(), plan, agent_program, RemoteBootstrap::Calls::kFirst),
      mark_(std::move(mark)) {
  for (const Host& host : plan.hosts) peers_.push_back({.report = {.host = host.name}});
}

std::vector<HostReport> HostSurvey::run() {
  began_ = Clock::now();
  open_count_ = alive_count_ = peers_.size();
  bootstrap_.listen(*this);
  for (std::size_t i = 0; i < peers_.size(); ++i)
    bootstrap_.start({NodeId(static_cast<std::int32_t>(i)), Incarnation(1)});
  watch_.start();
  context_.run();
  bootstrap_.close();
  context_.restart();
  while (!bootstrap_.idle() && context_.run_one() > 0) {
  }
  std::vector<HostReport> reports;
  for (Peer& peer : peers_) reports.push_back(std::move(peer.report));
  return reports;
}

// Gives up on hosts that take too long. At the end, it waits for agents to leave, but not longer than
// kLeaveLimit.
void HostSurvey::look() {
  const TimePoint now = Clock::now();
  if (ending_ && (alive_count_ == 0 || now >= began_ + kLeaveLimit)) {
    watch_.stop();
    return context_.stop();
  }
  const Duration to_start = plan_.remote.connect_timeout * static_cast<int>(peers_.size()) + kAnswerLimit;
  for (Peer& peer : peers_) {
    if (peer.settled) continue;
    if (peer.asked_at != TimePoint() && now >= peer.asked_at + kAnswerLimit)
      give_up(peer, fmt::format("its agent did not answer within {:g} s", in_seconds(kAnswerLimit)));
    else if (peer.asked_at == TimePoint() && now >= began_ + to_start)
      give_up(peer, "its agent did not connect");
  }
}

void HostSurvey::agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) {
  const auto index = static_cast<std::size_t>(agent.node.value());
  Peer& peer = peers_[index];
  if (peer.session || peer.settled) return channel->close();
  peer.session = std::make_shared<Session>(time_, agent.node, std::move(channel));
  peer.report.control = bootstrap_.is_through_shell(agent) ? "stdio" : "tcp";
  peer.session->start(
      [this, index](Attempt, const wire::ToLauncher& message) {
        std::visit([&](const auto& said) { hear(index, said); }, message);
      },
      [this, index](const Error& why) { give_up(peers_[index], why.message()); });
}

void HostSurvey::agent_ended(AgentId agent, std::string how, AgentEnd) {
  --alive_count_;
  give_up(peers_[static_cast<std::size_t>(agent.node.value())], how);
}

void HostSurvey::hear(std::size_t index, const wire::Hello& hello) {
  Peer& peer = peers_[index];
  const AgentId agent{NodeId(static_cast<std::int32_t>(index)), Incarnation(1)};
  if (const Status same = check_hello(hello, {agent, kVersion}); !same)
    return give_up(peer, "its agent cannot be used: " + same.error().message());
  peer.report.version = hello.version;
  peer.place = {hello.hostname, hello.addresses};
  peer.asked_at = Clock::now();
  peer.session->send_ping(/*output_waits=*/false);
}

void HostSurvey::hear(std::size_t index, const wire::Pong&) {
  Peer& peer = peers_[index];
  peer.round_trip = Clock::now() - peer.asked_at;
  ask(peer, {.job = plan_.job, .mark = mark_});
}

void HostSurvey::hear(std::size_t index, const wire::HostChecked& found) {
  Peer& peer = peers_[index];
  if (peer.settled) return;
  if (!links_asked_) {
    peer.report.found = found;
    peer.report.clock_offset = from_ns(found.unix_ns - peer.asked_ns) - peer.round_trip / 2;
    return settle(peer);
  }
  for (std::size_t i = 0; i < std::min(peer.report.links.size(), found.link_ns.size()); ++i) {
    HostLink& link = peer.report.links[i];
    if (found.link_ns[i] > 0) {
      link.time = from_ns(found.link_ns[i]);
    } else {
      link.error = std::strerror(static_cast<int>(-found.link_ns[i]));
    }
  }
  settle(peer);
}

void HostSurvey::ask(Peer& peer, const wire::CheckHost& question) {
  peer.asked_at = Clock::now();
  peer.asked_ns = unix_ns();
  peer.session->send(Attempt(), question);
}

void HostSurvey::give_up(Peer& peer, const std::string& why) {
  if (peer.settled) return;
  peer.report.unreachable = why;
  settle(peer);
}

void HostSurvey::settle(Peer& peer) {
  peer.settled = true;
  if (--open_count_ > 0) return;
  if (links_asked_) return end();
  links_asked_ = true;
  ask_for_links();
}

// Asks each host whether it can connect to each of the other hosts. It tries the addresses that the job would
// use if rank 0 were on that other host.
void HostSurvey::ask_for_links() {
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].report.unreachable.empty()) there.push_back(i);
  }
  std::map<std::size_t, std::string> addresses;
  for (const std::size_t host : there) {
    std::vector<Whereabouts> members{peers_[host].place};
    for (const std::size_t other : there) {
      if (other != host) members.push_back(peers_[other].place);
    }
    const auto meeting = meet(members, plan_.job.interface);
    addresses[host] = meeting ? meeting->store_address : "";
  }
  open_count_ = there.size() < 2 ? 0 : there.size();
  if (open_count_ == 0) return end();
  for (const std::size_t host : there) {
    Peer& peer = peers_[host];
    peer.settled = false;
    wire::CheckHost question{.job = {}, .mark = ""};
    for (const std::size_t other : there) {
      if (other == host) continue;
      const HostReport& target = peers_[other].report;
      peer.report.links.push_back(
          {.host = target.host, .address = addresses[other], .time = {}, .error = ""});
      question.addresses.push_back(fmt::format("{} {}", addresses[other], target.found.link_port));
    }
    ask(peer, question);
  }
}

void HostSurvey::end() {
  ending_ = true;
  began_ = Clock::now();
  for (Peer& peer : peers_) {
    if (peer.session) peer.session->send(Attempt(), wire::Leave{});
  }
}

}  // namespace muster::launcher
