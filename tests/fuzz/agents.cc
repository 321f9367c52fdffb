// What proven agents may say to the launcher: any messages, in any order, and ends and signals between them.
// The job decides, ends, and can be reported.
#include "common/base/check.h"
#include "common/wire/codec.h"
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
  plan.job.max_restarts = 3;
  plan.job.limits.grace = 1s;
  plan.job.limits.silence_limit = 10s;
  return plan;
}

class FuzzedJob {
 public:
  void happen(const Event& event) {
    const Decisions decisions = job_.on(event, now_);
    CHECK(decisions.size() < 1000, "{} decisions", decisions.size());
    for (const Decision& decision : decisions) {
      CHECK(!decision.reason.empty());
      if (const auto* record = std::get_if<Record>(&decision.action))
        event_line(*record, job_.attempt(), 1.0);
      if (std::holds_alternative<Finish>(decision.action)) finished_ = true;
      if (std::holds_alternative<BeginAttempt>(decision.action) && !finished_)
        happen(AttemptBegun{job_.attempt().next(), std::nullopt});
    }
  }
  // One thing: who, how much later, what.
  void happen(FuzzInput& input) {
    const NodeId node(static_cast<std::int32_t>(input.byte() % 3));
    now_ += std::chrono::milliseconds(20 * input.byte());
    const unsigned what = input.byte();
    const auto deadline = job_.next_deadline();
    if (deadline && *deadline <= now_) happen(TimePassed{});
    if (finished_) return;
    switch (what) {
      case 0: return happen(AgentEnded{node, "its agent ended"});
      case 1: return happen(StraysEnded{});
      case 2: return happen(Interrupted{static_cast<int>(input.byte() % 32)});
      default: break;
    }
    wire::Frame frame;
    frame.header.type = static_cast<std::uint8_t>(what);
    frame.body = input.take(input.byte() * 256 + input.byte());
    if (!wire::check_cbor(frame.body)) return;
    if (auto message = wire::decode_for_launcher(frame))
      happen(AgentSaid{node, job_.attempt(), *std::move(message)});
  }
  bool finished() const { return finished_; }
  void report() const {
    const Outcome outcome{plan_, job_.verdict(), job_.history(), job_.restart_count(),
                          now_.time_since_epoch()};
    (void)report_as_json(outcome);
    const std::string text = summary(outcome);
    CHECK(!text.empty() && text.back() == '\n');
    (void)job_.waiting_for(now_);
  }

 private:
  Plan plan_ = two_nodes_of_two();
  Job job_{plan_};
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
