// Authenticated agents that send the launcher any messages in any order, with ends of agents and signals in
// between. The job must decide, end, and be reportable.
#include <array>

#include "common/base/check.h"
#include "common/wire/codec.h"
#include "launcher/core/controller.h"
#include "launcher/core/journal/state.h"
#include "launcher/core/view/events.h"
#include "launcher/core/view/report.h"
#include "tests/fuzz/input.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

Plan two_nodes_of_two() {
  Plan plan;
  plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  plan.min_nodes = 1;
  plan.spare_nodes = 1;
  plan.job.job_id = "job";
  plan.job.checkpoint_directory = "/checkpoints";
  plan.job.max_restarts = 3;
  plan.job.limits.grace = 1s;
  plan.job.limits.silence_limit = 10s;
  return plan;
}

class FuzzedJob {
 public:
  void happen(const Event& event) {
    const Decisions decisions = controller_.on(event, now_);
    CHECK(decisions.size() < 1000, "{} decisions", decisions.size());
    for (const Decision& decision : decisions) {
      CHECK(!decision.reason.empty());
      if (const auto* record = std::get_if<Record>(&decision.action)) event_line(*record, 1.0);
      if (std::holds_alternative<Finish>(decision.action)) finished_ = true;
      if (const auto* begin = std::get_if<BeginAttempt>(&decision.action); begin && !finished_)
        happen(AttemptBegun{begin->last.next(), std::nullopt, begin->question});
      if (const auto* start = std::get_if<StartAgent>(&decision.action)) {
        agents_.at(static_cast<std::size_t>(start->agent.node.value())) = start->agent;
        happen(AgentConnected{start->agent, connection_of(start->agent)});
      }
    }
  }
  static ConnectionId connection_of(AgentId agent) {
    return ConnectionId(agent.incarnation.value() * 3ULL + static_cast<std::uint64_t>(agent.node.value()));
  }
  // One event: its agent, its delay, its kind.
  void happen(FuzzInput& input) {
    const AgentId agent = agents_.at(input.byte() % 3);
    now_ += std::chrono::milliseconds(20 * input.byte());
    const unsigned what = input.byte();
    const auto deadline = controller_.next_deadline();
    if (deadline && *deadline <= now_) happen(TimePassed{});
    if (finished_) return;
    switch (what) {
      case 0:
        happen(ProcessEnded{agent, "its agent ended"});
        return happen(ConnectionClosed{agent, connection_of(agent)});
      case 1: return happen(LeftoversSeen{});
      case 2: return happen(Interrupted{static_cast<int>(input.byte() % 32)});
      // No message has these numbers. A half-gone agent may lose either end first, and either event may be
      // repeated.
      case 250: return happen(ProcessEnded{agent, "its agent ended"});
      case 251: return happen(ConnectionClosed{agent, connection_of(agent)});
      case 252: return happen(ConnectionClosed{agent, connection_of(agent), "a frame of 4 GiB"});
      case 253:
        return happen(LeftoversSeen{{Leftover{.pid = 1 + static_cast<std::int32_t>(input.byte())}}, true});
      case 254: return happen(Cancelled{input.byte() % 2 == 1});
      case 255: return happen(SecondPassed{now_ - std::chrono::milliseconds(20 * input.byte())});
      default: break;
    }
    wire::Frame frame;
    frame.header.type = static_cast<std::uint8_t>(what);
    frame.body = wire::Bytes(std::string(input.take(input.byte() * 256 + input.byte())));
    if (!wire::check_cbor(frame.body.view())) return;
    auto message = wire::decode_for_launcher(frame);
    if (!message) return;
    if (auto* hello = std::get_if<wire::Hello>(&*message)) hello->incarnation = agent.incarnation;
    happen(AgentSaid{agent, job_.attempt(), *std::move(message)});
  }
  bool finished() const { return finished_; }
  void report() const {
    const Outcome outcome{plan_, job_.verdict(), job_.history(), job_.restart_count(),
                          now_.time_since_epoch()};
    (void)report_as_json(outcome);
    const std::string text = summary(outcome);
    CHECK(!text.empty() && text.back() == '\n');
    (void)job_.waiting_for(now_);
    // Any state can be restored from a journal.
    Controller again(plan_, "");
    const Status restored = restore(again, state_of(controller_));
    CHECK(restored.has_value(), "{}", restored.error().message());
  }

 private:
  Plan plan_ = two_nodes_of_two();
  Controller controller_{plan_, ""};
  const Job& job_ = controller_.job();
  std::array<AgentId, 3> agents_{AgentId{NodeId(0), {}}, AgentId{NodeId(1), {}}, AgentId{NodeId(2), {}}};
  TimePoint now_{1000s};
  bool finished_ = false;
};

}  // namespace
}  // namespace muster::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  launcher::FuzzedJob job;
  job.happen(launcher::Began{});
  while (!input.empty() && !job.finished()) job.happen(input);
  job.report();
  return 0;
}
