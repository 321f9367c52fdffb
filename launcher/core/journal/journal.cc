#include "launcher/core/journal/journal.h"

#include <stdexcept>
#include <utility>

#include "common/base/text.h"
#include "common/wire/codec.h"
#include "common/wire/json_types.h"
#include "launcher/core/journal/event_codec.h"
#include "launcher/core/journal/records.h"
#include "launcher/core/journal/state.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/exception_text.h"

namespace muster::launcher {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodePlan, node, first_rank, worker_count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecoveryOptions, restart_window, restart_delay, no_progress_limit,
                                   node_exclusion, preemption_grace, time_limit, start_timeout)

using nlohmann::json;

namespace {

// Returns the parts of hosts that affect decisions or appear in verdicts. These are the name and the slots.
json hosts_of(const Plan& plan) {
  json hosts = json::array();
  for (const Host& host : plan.hosts) hosts.push_back({host.name, *host.slots});
  return hosts;
}

// Stores `plan.job` in the form of a Welcome message, as agents get it. Leaves out the environment.
json record_of(const Plan& plan) {
  wire::JobSpec job = plan.job;
  job.environment.clear();
  job.inherited.clear();
  return {{"job", frame_as_json(wire::encode({}, wire::Welcome{.node = {}, .job = std::move(job)}))},
          {"nodes", plan.nodes},
          {"min_nodes", plan.min_nodes},
          {"max_nodes", plan.max_nodes},
          {"spare_nodes", plan.spare_nodes},
          {"recovery", plan.recovery},
          {"take_over", plan.take_over},
          {"shares_checkpoints", plan.shares_checkpoints},
          {"hosts", hosts_of(plan)},
          {"image", plan.remote.container.image},
          {"chose_python", plan.chose_python},
          {"program_is_here", plan.program_is_here}};
}

Plan plan_from(const json& record) {
  const auto message = wire::decode_for_agent(frame_from(record.at("job")));
  if (!message) throw std::invalid_argument("its plan: " + message.error().message());
  Plan plan;
  plan.job = std::get<wire::Welcome>(*message).job;
  record.at("nodes").get_to(plan.nodes);
  record.at("min_nodes").get_to(plan.min_nodes);
  record.at("max_nodes").get_to(plan.max_nodes);
  record.at("spare_nodes").get_to(plan.spare_nodes);
  record.at("recovery").get_to(plan.recovery);
  record.at("take_over").get_to(plan.take_over);
  plan.shares_checkpoints = record.value("shares_checkpoints", false);
  plan.remote.container.image = record.value("image", "");
  plan.chose_python = record.value("chose_python", false);
  plan.program_is_here = record.value("program_is_here", true);
  const json& hosts = record.at("hosts");
  if (hosts.size() > std::size_t{2 * kMostWorkers})
    throw std::invalid_argument(fmt::format("its plan: hosts: {} are too many", hosts.size()));
  for (const json& each : hosts) {
    Host& host = plan.hosts.emplace_back();
    each.at(0).get_to(host.name);
    host.slots = each.at(1).get<std::int32_t>();
  }
  if (const Status possible = check_plan(plan); !possible)
    throw std::invalid_argument("its plan: " + possible.error().message());
  return plan;
}

std::vector<std::string> texts_of(const Decisions& decisions) {
  std::vector<std::string> texts;
  for (const Decision& decision : decisions) texts.push_back(text_of(decision));
  return texts;
}

std::string lines_of(const std::vector<std::string>& texts) {
  if (texts.empty()) return "  nothing\n";
  std::string lines;
  for (const std::string& text : texts) lines += "  " + one_line(text) + "\n";
  return lines;
}

constexpr Duration kMostSlept = std::chrono::years(10);

class Replayer {
 public:
  explicit Replayer(const json& head)
      : controller_(plan_from(head.at("plan")), head.at("version").get<std::string>()) {
    replay_.version = head.at("version").get<std::string>();
  }

  // Replays one record. Returns false if the decisions are not the same as those in the record.
  Expected<bool> take(const json& record) {
    if (const auto state = record.find("state"); state != record.end()) {
      if (std::exchange(begun_, true))
        return failure(ErrorCode::kCorrupt, "a state in the middle of the events");
      if (auto restored = restore(controller_, *state); !restored) return std::unexpected(restored.error());
      return true;
    }
    ++replay_.event_count;
    const auto event = event_from(record);
    if (!event) return std::unexpected(within_event(event.error()));
    const auto at = record.at("at").get<TimePoint>();
    if (const Status possible = check(*event, at); !possible)
      return std::unexpected(within_event(possible.error()));
    std::vector<std::string> replayed = texts_of(controller_.apply(*event, at));
    auto recorded = record.value("decisions", std::vector<std::string>());
    replay_.decision_count += replayed.size();
    if (replayed == recorded) return true;
    replay_.first_difference = {replay_.event_count, std::string(name_of(*event)), std::move(recorded),
                                std::move(replayed)};
    return false;
  }

  Replay result(bool torn) && {
    replay_.torn = torn;
    return std::move(replay_);
  }

 private:
  // io/launcher.h promises the core some things about events: Began comes first and only once, and no
  // SecondPassed comes before its time. This function checks that the journal keeps these promises.
  Status check(const Event& event, TimePoint at) {
    if (std::holds_alternative<Began>(event) == std::exchange(begun_, true))
      return failure(ErrorCode::kCorrupt, "{}",
                     replay_.event_count == 1 ? "the job has not begun" : "the job has already begun");
    const auto* second = std::get_if<SecondPassed>(&event);
    if (second == nullptr) return {};
    slept_ += at - second->due;
    if (at < second->due || slept_ > kMostSlept)
      return failure(ErrorCode::kCorrupt, "it is not due, or the launcher slept for over ten years");
    return {};
  }
  Error within_event(const Error& error) const {
    return Error(error).within(fmt::format("event {}", replay_.event_count));
  }

  Controller controller_;
  Replay replay_;
  bool begun_ = false;  // by Began, or by a state
  Duration slept_{};    // by the launcher, in total
};

}  // namespace

std::string journal_head(const Plan& plan, std::string_view version) {
  std::string bytes(kJournalHead);
  append_record(bytes, {{"version", version}, {"plan", record_of(plan)}});
  return bytes;
}

std::string journal_state(const Controller& controller) {
  std::string bytes;
  append_record(bytes, {{"state", state_of(controller)}});
  return bytes;
}

std::string journal_entry(const Event& event, TimePoint at, const Decisions& decisions) {
  json record = to_record(event);
  record["at"] = at;
  if (!decisions.empty()) record["decisions"] = texts_of(decisions);
  std::string bytes;
  append_record(bytes, record);
  return bytes;
}

namespace {

Expected<Replay> replay_all(std::string_view bytes) {
  auto reader = RecordReader::open(bytes);
  if (!reader) return std::unexpected(reader.error());
  const auto head = reader->next();
  if (!head) return std::unexpected(head.error());
  if (!*head) return failure(ErrorCode::kCorrupt, "the journal has no plan");
  try {
    Replayer replayer(**head);
    for (;;) {
      const auto record = reader->next();
      if (!record) return std::unexpected(record.error());
      if (!*record) return std::move(replayer).result(reader->torn());
      const auto same = replayer.take(**record);
      if (!same) return std::unexpected(same.error());
      if (!*same) return std::move(replayer).result(false);
    }
  } catch (const std::exception& error) {
    return failure(ErrorCode::kCorrupt, "the journal cannot be read: {}", error.what());
  }
}

}  // namespace

Expected<Replay> replay(std::string_view bytes) {
  auto replayed = replay_all(bytes);
  if (!replayed)
    return std::unexpected(Error(replayed.error().code(), shortened(replayed.error().message())));
  return replayed;
}

std::string replay_as_text(const Replay& replay) {
  if (const auto& difference = replay.first_difference)
    return fmt::format("first difference: event {} ({})\nrecorded:\n{}now:\n{}", difference->event,
                       difference->name, lines_of(difference->recorded), lines_of(difference->replayed));
  return fmt::format("{}, {}: the same{}\n", count_of(replay.event_count, "event"),
                     count_of(replay.decision_count, "decision"),
                     replay.torn ? "; the launcher ended while it wrote the next event" : "");
}

std::string replay_as_json(const Replay& replay) {
  nlohmann::ordered_json out = {{"same", !replay.first_difference.has_value()},
                                {"version", replay.version},
                                {"events", replay.event_count},
                                {"decisions", replay.decision_count},
                                {"torn", replay.torn},
                                {"first_difference", nullptr}};
  if (const auto& difference = replay.first_difference)
    out["first_difference"] = {{"event", difference->event},
                               {"name", difference->name},
                               {"recorded", difference->recorded},
                               {"now", difference->replayed}};
  // Workers' texts may not be UTF-8.
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
