// A stranger's journal: one that the core wrote, with anything changed in its plan, state and events, and
// events in any order; or records of any bytes. The replay must end with one line that says what is wrong, or
// report correctly which decisions differ.
#include "launcher/core/journal/journal.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/wire/frame.h"
#include "launcher/core/controller.h"
#include "launcher/core/journal/records.h"
#include "launcher/core/journal/state.h"
#include "tests/fuzz/input.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::size_t kMostEvents = 16;

Plan plan_of(bool on_hosts) {
  Plan plan;
  plan.nodes = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), on_hosts ? 1 : 2}};
  plan.min_nodes = on_hosts ? 1 : 2;
  plan.spare_nodes = 1;
  plan.job.job_id = "job";
  plan.job.command = {"train"};
  plan.job.checkpoint_directory = on_hosts ? "" : "/checkpoints";
  plan.job.max_restarts = 5;
  plan.job.limits.grace = 1s;
  plan.recovery.time_limit = 1h;
  if (!on_hosts) return plan;
  for (const int slots : {2, 1, 2}) plan.hosts.emplace_back().slots = slots;
  return plan;
}

// A job with its nodes, whose journal is kept record by record.
class Life {
 public:
  explicit Life(bool on_hosts) : plan(plan_of(on_hosts)), head(records_of(journal_head(plan, "1")).at(0)) {
    controller_.set_witness(
        [this](const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
          events.push_back(records_of(std::string(kJournalHead) + journal_entry(event, at, decisions)).at(0));
          states.push_back(records_of(std::string(kJournalHead) + journal_state(self)).at(0));
        });
    live();
  }

  const Plan plan;
  const json head;
  std::vector<json> states;  // after each event
  std::vector<json> events;

 private:
  static std::vector<json> records_of(const std::string& bytes) {
    std::vector<json> records;
    auto reader = RecordReader::open(bytes);
    for (auto record = reader->next(); *record; record = reader->next()) records.push_back(**record);
    return records;
  }
  void happen(Event event) {
    queue_.push_back(std::move(event));
    while (!queue_.empty()) {
      const Event next = std::move(queue_.front());
      queue_.pop_front();
      now_ += 10ms;
      for (const Decision& decision : controller_.on(next, now_))
        std::visit([this](const auto& action) { answer(action); }, decision.action);
    }
  }
  void answer(const StartAgent& action) {
    agents_[action.agent.node] = action.agent;
    queue_.push_back(AgentConnected{action.agent, connection_of(action.agent)});
    wire::Hello hello;
    hello.node = action.agent.node;
    hello.incarnation = action.agent.incarnation;
    hello.version = "1";
    hello.hostname = fmt::format("h{}", action.agent.node);
    hello.addresses = {fmt::format("eth0 10.77.0.{}/24", 10 + action.agent.node.value())};
    say(action.agent.node, std::move(hello));
  }
  void answer(const KillAgent& action) { end(action.agent); }
  void answer(const LookForLeftovers&) { queue_.push_back(LeftoversSeen{}); }
  void answer(const BeginAttempt& action) {
    queue_.push_back(AttemptBegun{action.last.next(), 3, action.question});
  }
  void answer(const LookForCheckpoint& action) { queue_.push_back(CheckpointFound{9, action.question}); }
  void answer(const Send& action) {
    if (std::holds_alternative<wire::PrepareAttempt>(action.message))
      say(action.node, wire::AttemptPrepared{4711});
    if (std::holds_alternative<wire::StartWorkers>(action.message))
      say(action.node, wire::WorkersStarted{{1, 2}});
    if (std::holds_alternative<wire::StopWorkers>(action.message)) say(action.node, wire::WorkersGone{});
    if (std::holds_alternative<wire::Leave>(action.message)) end(agents_.at(action.node));
  }
  template <class Other>
  void answer(const Other&) {}

  static ConnectionId connection_of(AgentId agent) {
    return ConnectionId(agent.incarnation.value() * 10ULL + static_cast<std::uint64_t>(agent.node.value()));
  }
  void end(AgentId agent) {
    queue_.push_back(ProcessEnded{agent, "its agent was killed by SIGKILL"});
    queue_.push_back(ConnectionClosed{agent, connection_of(agent)});
  }
  void say(NodeId node, wire::ToLauncher message) {
    queue_.push_back(AgentSaid{agents_.at(node), controller_.job().attempt(), std::move(message)});
  }
  void hear(int node, wire::ToLauncher message) {
    happen(AgentSaid{agents_.at(NodeId(node)), controller_.job().attempt(), std::move(message)});
  }
  void fail(int node, int rank, int code) {
    wire::WorkerExited exited;
    exited.rank = Rank(rank);
    exited.exit_code = code;
    exited.at_ns = to_ns(now_);
    exited.last_lines = {"RuntimeError: bad sample"};
    hear(node, std::move(exited));
  }
  void live() {
    happen(Began{});
    for (int rank = 0; rank < 3; ++rank) {
      hear(rank / 2, wire::WorkerReported{Rank(rank), wire::ReportKind::kHello, 0, "preemption"});
      hear(rank / 2, wire::WorkerReported{Rank(rank), wire::ReportKind::kStep, 7 + rank, ""});
    }
    happen(PaceChanged{Rank(1), true, 9ms, 3ms, 7});
    happen(SecondPassed{now_});
    wire::WorkerStalled stalled;
    stalled.rank = Rank(2);
    stalled.hard = true;
    stalled.section = "loader";
    stalled.since_ns = to_ns(now_);
    hear(1, stalled);
    for (const int rank : {0, 1, 2}) hear(rank / 2, wire::WorkerStacks{Rank(rank), "main\nc10d::barrier\n"});
    now_ += 3s;
    happen(TimePassed{});
    fail(0, 1, 3);
    end(agents_.at(NodeId(1)));
    happen(TimePassed{});
    hear(0, wire::AttemptRefused{126, "cannot execute"});
    hear(0, wire::LeftoversUnkillable{{{.pid = 12, .name = "sudo", .uid = 0, .error = 1}}});
    hear(0, wire::WorkerReported{Rank(0), wire::ReportKind::kCommitted, 9, ""});
    happen(LeftoversSeen{{{.pid = 13, .name = "sleep", .uid = 0, .error = 1}}, true});
    happen(Interrupted{SIGUSR2});
    happen(Interrupted{SIGTERM});
    now_ += 20s;
    happen(TimePassed{});
    happen(Interrupted{SIGINT});
    happen(Cancelled{true});
    now_ += 20s;
    happen(TimePassed{});
  }

  Controller controller_{plan, "1"};
  std::map<NodeId, AgentId> agents_;
  std::deque<Event> queue_;
  TimePoint now_{1000s};
};

void collect(json& in, std::vector<json*>& found) {
  found.push_back(&in);
  if (!in.is_structured()) return;
  for (json& each : in) collect(each, found);
}

void forge(json& record, FuzzInput& input);

// Changes the message in a frame; it remains a frame.
void forge_frame(json& frame, FuzzInput& input) {
  wire::Frame taken;
  try {
    taken = frame_from(frame);
  } catch (const std::exception&) {
    return;
  }
  json body = json::from_cbor(taken.body.view());
  forge(body, input);
  std::string bytes;
  json::to_cbor(body, bytes);
  std::string again;
  wire::append_frame(again, taken.header, bytes);
  frame = frame_as_json(again);
}

json number_of(FuzzInput& input, const json& was) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t old = was.is_number() ? was.get<std::int64_t>() : 0;
  const auto step = static_cast<std::int64_t>(input.byte());
  switch (input.byte() % 10) {
    case 0: return step;
    case 1: return -step;
    case 2:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(step));
    case 3:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(old) - static_cast<std::uint64_t>(step));
    case 4: return kMost - step;
    case 5: return -kMost + step;
    case 6: return std::numeric_limits<std::int32_t>::max() - step;
    case 7: return std::numeric_limits<std::int32_t>::min() + step;
    case 8: return std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(step);
    default: return 1'000'000'000'000'000'000 - step;
  }
}

// Changes one place in the record.
void forge(json& record, FuzzInput& input) {
  std::vector<json*> places;
  collect(record, places);
  json& place = *places[(input.byte() * 256 + input.byte()) % places.size()];
  if (place.is_binary()) return forge_frame(place, input);
  switch (input.byte() % 10) {
    case 0: place = nullptr; break;
    case 1: place = input.byte() % 2 == 0; break;
    case 2: place = std::string(input.take(input.byte() % 32)); break;
    case 3: place = json::array(); break;
    case 4: place = json(*places[(input.byte() * 256 + input.byte()) % places.size()]); break;
    case 5:
      if (place.is_structured() && !place.empty()) place.erase(place.begin());
      break;
    case 6:
      if (place.is_array() && !place.empty()) place.push_back(json(place.front()));
      break;
    case 7:
      if (place.is_boolean()) place = !place.get<bool>();
      break;
    default: place = number_of(input, place);
  }
}

void forge_some(json& record, unsigned count, FuzzInput& input) {
  for (unsigned i = 0; i < count; ++i) forge(record, input);
}

void check(const Expected<Replay>& replayed) {
  if (!replayed) {
    CHECK(replayed.error().code() == ErrorCode::kCorrupt);
    return check_refusal(replayed.error());
  }
  const std::string text = replay_as_text(*replayed);
  CHECK(text.ends_with('\n') && std::ranges::none_of(text, [](char letter) {
          return letter != '\n' && (static_cast<unsigned char>(letter) < ' ' || letter == 0x7f);
        }));
  CHECK(json::parse(replay_as_json(*replayed)).is_object());
}

// Writes the replayed decisions into the journal, as a forger could, so that the replay continues.
void replay_to_the_end(const std::string& front, std::vector<json>& events) {
  for (std::size_t round = 0; round <= events.size(); ++round) {
    std::string bytes = front;
    for (const json& event : events) append_record(bytes, event);
    const auto replayed = replay(bytes);
    check(replayed);
    if (!replayed || !replayed->first_difference) return;
    json& event = events.at(replayed->first_difference->event - 1);
    CHECK(event.value("decisions", std::vector<std::string>()) == replayed->first_difference->recorded);
    event["decisions"] = replayed->first_difference->replayed;
  }
  CHECK(false, "the replay still differs");
}

void replay_forged(FuzzInput& input) {
  static const Life lives[] = {Life(false), Life(true)};
  const Life& life = lives[input.byte() % 2];
  const unsigned began = input.byte() * 256 + input.byte();
  const unsigned head_changes = input.byte() % 4;
  const unsigned state_changes = input.byte() % 16;
  json head = life.head;
  forge_some(head, head_changes, input);
  std::string front(kJournalHead);
  append_record(front, head);
  if (began != 0) {
    json state = life.states[began % life.states.size()];
    forge_some(state, state_changes, input);
    append_record(front, state);
    Controller taken(life.plan, "1");
    if (state.contains("state") && restore(taken, state["state"])) {
      Controller again(life.plan, "1");
      const Status restored = restore(again, state_of(taken));
      CHECK(restored.has_value(), "{}", restored.error().message());
    }
  }
  std::vector<json> events;
  while (!input.empty() && events.size() < kMostEvents) {
    events.push_back(life.events[(input.byte() * 256 + input.byte()) % life.events.size()]);
    forge_some(events.back(), input.byte() % 4, input);
    if (!events.back().is_object()) events.pop_back();
  }
  replay_to_the_end(front, events);
}

// Reads each record after its length in two bytes.
void replay_records(FuzzInput& input) {
  std::string bytes(kJournalHead);
  while (!input.empty()) {
    const std::size_t size = input.byte() * 256 + input.byte();
    const std::string_view body = input.take(size);
    const json record =
        wire::check_cbor(body) ? json::from_cbor(body, true, false) : json(json::value_t::discarded);
    if (record.is_discarded()) return;
    append_record(bytes, record);
  }
  check(replay(bytes));
}

}  // namespace
}  // namespace muster::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  switch (input.byte()) {
    case 'f': launcher::replay_forged(input); break;
    case 'r': launcher::replay_records(input); break;
    case 'b': launcher::check(launcher::replay(input.rest())); break;
    default: return -1;
  }
  return 0;
}
