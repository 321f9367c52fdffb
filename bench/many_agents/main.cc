// The launcher with many agents, without agent processes: the time until all ranks are started, the memory
// per agent (with its channel), and the cost of one event compared with a small job.
//
//   many_agents [--agents 10000] [--json]
//   many_agents --tls [--agents 10000] [--json]     instead measures how fast agents join over TLS, and as
//       many connections over plain TCP
//
// Without --tls it runs the production launcher over channels that only count, and a clock that stands still.
// This program sends the agents' messages.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/many_agents/tls.h"
#include "common/base/check.h"
#include "common/base/version.h"
#include "launcher/io/launcher.h"

namespace muster::bench {
namespace {

using namespace std::chrono_literals;

class StandingTime final : public net::Time {
 public:
  TimePoint now() const override { return TimePoint(1000s); }
  std::unique_ptr<net::Alarm> make_alarm(std::function<void()>) override {
    struct Never final : net::Alarm {
      void set(std::optional<TimePoint>) override {}
    };
    return std::make_unique<Never>();
  }
};

class CountingChannel final : public net::Channel {
 public:
  explicit CountingChannel(std::uint64_t& sent_bytes) : sent_bytes_(sent_bytes) {}
  void start(OnFrame on_frame, OnClosed) override { on_frame_ = std::move(on_frame); }
  void send(std::string_view frames, std::string_view more) override {
    sent_bytes_ += frames.size() + more.size();
  }
  std::size_t backlog_bytes() const override { return 0; }
  bool closed() const override { return closed_; }
  void close() override { closed_ = true; }
  void hear(const wire::Frame& frame) { on_frame_(frame); }

 private:
  std::uint64_t& sent_bytes_;
  OnFrame on_frame_;
  bool closed_ = false;
};

class Crowd final : public launcher::Bootstrap, public launcher::Lineage, public launcher::View {
 public:
  explicit Crowd(std::int32_t agent_count) {
    launcher::Plan plan;
    plan.job.job_id = "many";
    for (std::int32_t node = 0; node < agent_count; ++node)
      plan.nodes.push_back({NodeId(node), Rank(node), 1});
    channels_.resize(static_cast<std::size_t>(agent_count));
    sequences_.resize(channels_.size());
    launcher_ = std::make_unique<launcher::Launcher>(
        std::move(plan),
        launcher::Launcher::Parts{
            .time = time_, .bootstrap = *this, .lineage = *this, .view = *this, .finished = [] {}});
  }

  // Starts the job, until every rank has its order to start and reports that it has started.
  void start_all() {
    launcher_->begin();
    for (std::size_t i = 0; i < started_.size(); ++i) connect(started_[i]);
    for (const AgentId& agent : started_) {
      wire::Hello hello;
      hello.node = agent.node;
      hello.version = kVersion;
      hello.incarnation = agent.incarnation;
      say(agent.node, hello);
    }
    CHECK(phase() == launcher::Phase::kPreparing, "phase {}", static_cast<int>(phase()));
    for (const AgentId& agent : started_) say(agent.node, wire::AttemptPrepared{29500});
    CHECK(phase() == launcher::Phase::kRunning, "phase {}", static_cast<int>(phase()));
    for (const AgentId& agent : started_)
      say(agent.node, wire::WorkersStarted{.pids = {agent.node.value() + 1}});
  }

  // Nanoseconds per report, over `count` reports; each comes from another agent than the previous one.
  double event_ns(int count) {
    wire::WorkerReported report;
    report.kind = wire::ReportKind::kHeartbeat;
    report.step = 1;
    std::vector<wire::Frame> frames;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      report.rank = Rank(static_cast<std::int32_t>(i));
      frames.push_back(frame(NodeId(static_cast<std::int32_t>(i)), report));
    }
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      const auto index = static_cast<std::size_t>(i) % channels_.size();
      frames[index].header.sequence = sequences_[index] = sequences_[index].next();
      channels_[index]->hear(frames[index]);
    }
    const auto took = std::chrono::steady_clock::now() - began;
    return static_cast<double>(std::chrono::nanoseconds(took).count()) / count;
  }
  std::uint64_t sent_bytes() const { return sent_bytes_; }

  void listen(launcher::Bootstrap::Listener& listener) override { listener_ = &listener; }
  void start(AgentId agent) override { started_.push_back(agent); }
  void kill(AgentId agent) override { CHECK(false, "node{} is killed", agent.node); }
  void look_for_leftovers(bool kill) override { listener_->leftovers_seen({}, kill); }
  void begin_attempt(const launcher::BeginAttempt&, OnBegun, OnDenied) override {}
  void newest_commit(const launcher::LookForCheckpoint&, OnFound) override {}
  void show(const launcher::Decision&, Duration) override {}
  void show_progress(std::string_view) override {}
  void show_output(NodeId, const wire::Output&, launcher::Taken) override {}
  bool takes(int, Duration) const override { return true; }
  void show_stacks(const wire::WorkerStacks&) override {}
  bool wants_usage() const override { return false; }
  void show_usage(const std::vector<wire::RankUsage>& /*usage*/) override {}
  void show_metrics(Rank /*rank*/, std::int64_t /*step*/,
                    const std::map<std::string, double>& /*values*/) override {}
  void keep_clock(NodeId, const std::string&, const launcher::ClockOffset::Answer&) override {}
  void logs_are_elsewhere(NodeId, const std::string&, const std::string&) override {}
  void keep_log(NodeId, Attempt, const wire::LogPiece&, LogAnswer) override {}
  void agent_closed(NodeId) override {}
  std::string logs_to_come() const override { return ""; }

 private:
  launcher::Phase phase() const { return launcher_->controller().job().phase(); }

  void connect(AgentId agent) {
    auto& channel = channels_[static_cast<std::size_t>(agent.node.value())];
    channel = std::make_shared<CountingChannel>(sent_bytes_);
    listener_->agent_connected(agent, channel);
  }

  wire::Frame frame(NodeId node, const wire::ToLauncher& message) {
    auto& sequence = sequences_[static_cast<std::size_t>(node.value())];
    sequence = sequence.next();
    const std::string bytes = wire::encode({.destination = wire::kLauncher,
                                            .source = node,
                                            .term = Term(1),
                                            .attempt = launcher_->controller().job().attempt(),
                                            .sequence = sequence},
                                           message);
    std::vector<wire::Frame> frames;
    CHECK(reader_.feed(bytes, frames) && frames.size() == 1, "no frame");
    return std::move(frames.front());
  }

  void say(NodeId node, const wire::ToLauncher& message) {
    channels_[static_cast<std::size_t>(node.value())]->hear(frame(node, message));
  }

  StandingTime time_;
  wire::FrameReader reader_;
  std::uint64_t sent_bytes_ = 0;
  launcher::Bootstrap::Listener* listener_ = nullptr;
  std::vector<AgentId> started_;
  std::vector<std::shared_ptr<CountingChannel>> channels_;
  std::vector<Sequence> sequences_;
  std::unique_ptr<launcher::Launcher> launcher_;
};

constexpr int kEvents = 200'000;
constexpr std::int32_t kFew = 100;

// The quickest of some runs, to exclude the machine's other work.
double quickest_event_ns(Crowd& crowd) {
  double quickest = crowd.event_ns(kEvents);
  for (int run = 0; run < 4; ++run) quickest = std::min(quickest, crowd.event_ns(kEvents));
  return quickest;
}

int run(std::int32_t agents, bool json) {
  Crowd few(kFew);
  few.start_all();
  const double few_ns = quickest_event_ns(few);
  const std::size_t before = allocated_bytes();
  const auto began = std::chrono::steady_clock::now();
  Crowd many(agents);
  many.start_all();
  const double ready_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const double bytes = static_cast<double>(allocated_bytes() - before) / agents;
  const double many_ns = quickest_event_ns(many);
  if (json) {
    const nlohmann::ordered_json document{
        {"agents", agents},
        {"ready_s", ready_s},
        {"bytes_per_agent", bytes},
        {"event_ns_of_100", few_ns},
        {"event_ns", many_ns},
        {"ratio", many_ns / few_ns},
        {"sent_bytes_per_agent", static_cast<double>(many.sent_bytes()) / agents}};
    std::printf("%s\n", document.dump(2).c_str());
    return 0;
  }
  std::printf("%d agents: all ranks started after %.3f s, %.0f bytes an agent\n", agents, ready_s, bytes);
  std::printf("an event: %.0f ns of %d agents, %.0f ns of %d: %.2f times\n", few_ns, kFew, many_ns, agents,
              many_ns / few_ns);
  return 0;
}

int run_tls(std::int32_t agents, bool json) {
  const Joining joining = join_over_tls(agents);
  if (json) {
    const nlohmann::ordered_json document{{"agents", agents},
                                          {"joined_s", joining.seconds},
                                          {"bytes_per_connection", joining.bytes_each},
                                          {"plain_tcp_s", joining.plain_seconds}};
    std::printf("%s\n", document.dump(2).c_str());
    return 0;
  }
  std::printf(
      "%d agents: all joined over TLS after %.2f s, %.1f KiB each; as many plain TCP connections: %.2f s\n",
      agents, joining.seconds, joining.bytes_each / 1024, joining.plain_seconds);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  CLI::App app("The launcher with many agents, without agent processes", "many_agents");
  std::int32_t agents = 10'000;
  bool json = false;
  bool tls = false;
  app.add_option("--agents", agents, "How many")->check(CLI::Range(1, 1'000'000));
  app.add_flag("--tls", tls, "Agents join over TLS on loopback");
  app.add_flag("--json", json, "Print the result as one JSON document");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "many_agents: %s\n", error.what());
    return 2;
  }
  return tls ? muster::bench::run_tls(agents, json) : muster::bench::run(agents, json);
}
