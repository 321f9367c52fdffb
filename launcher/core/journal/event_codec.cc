#include "launcher/core/journal/event_codec.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "common/wire/codec.h"
#include "common/wire/digest.h"
#include "common/wire/json_types.h"
#include "launcher/core/journal/records.h"
#include "launcher/core/journal/reflection.h"
#include "launcher/core/settings/plan.h"

namespace muster {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentId, node, incarnation)

}  // namespace muster

// AttemptDenied cannot be constructed without an Error, because an Error is never empty. So it needs this
// specialization.
template <>
struct nlohmann::adl_serializer<muster::launcher::AttemptDenied> {
  static void to_json(json& out, const muster::launcher::AttemptDenied& denied) {
    out = {{"by", denied.by},
           {"code", denied.why.code()},
           {"why", denied.why.message()},
           {"question", denied.question}};
  }
  static muster::launcher::AttemptDenied from_json(const json& in) {
    return {.by = in.at("by").get<muster::launcher::AttemptDenied::By>(),
            .why = {in.at("code").get<muster::ErrorCode>(), in.at("why").get<std::string>()},
            .question = in.at("question").get<muster::launcher::Question>()};
  }
};

namespace muster::launcher {

using nlohmann::json;

namespace {

constexpr std::size_t kShownDigits = 8;

wire::FrameHeader header_of(NodeId node, Attempt attempt) {
  wire::FrameHeader header;
  header.source = node;
  header.attempt = attempt;
  return header;
}

template <class Variant>
std::string_view name_of_alternative(const Variant& value) {
  return std::visit([]<class Type>(const Type&) { return name_of_type<Type>(); }, value);
}

}  // namespace

// These encode events without fields, and events whose fields have the same names in the record.
template <class Empty>
  requires std::is_empty_v<Empty>
void to_json(json& out, const Empty&) {
  out = json::object();
}
template <class Empty>
  requires std::is_empty_v<Empty>
void from_json(const json&, Empty&) {}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentConnected, agent, connection)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ConnectionClosed, agent, connection, unreadable)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LeftoversSeen, left, killed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AttemptBegun, attempt, resume_step, question)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointFound, step, question)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PaceChanged, rank, slower, busy, usual, step, part)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interrupted, signal)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cancelled, now)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodesAdded::Node, host, slots)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodesAdded, nodes, now)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SecondPassed, due)

void to_json(json& out, const ProcessEnded& ended) {
  out = {{"agent", ended.agent}, {"how", ended.how}, {"end", ended.end}};
}

// Older journals have the field `refused`, which is true or false, and not `end`.
void from_json(const json& in, ProcessEnded& ended) {
  in.at("agent").get_to(ended.agent);
  in.at("how").get_to(ended.how);
  if (in.contains("refused"))
    ended.end = in.at("refused").get<bool>() ? AgentEnd::kRefused : AgentEnd::kOther;
  else
    in.at("end").get_to(ended.end);
}

void to_json(json& out, const AgentSaid& said) {
  const std::string frame = wire::encode(header_of(said.agent.node, said.attempt), said.message);
  out = {{"agent", said.agent}, {"frame", frame_as_json(frame)}, {"heard_at", said.heard_at}};
}

void from_json(const json& in, AgentSaid& said) {
  wire::Frame frame = frame_from(in.at("frame"));
  const Attempt attempt = frame.header.attempt;
  auto message = wire::decode_for_launcher(std::move(frame));
  if (!message) throw std::invalid_argument(message.error().message());
  said = {in.at("agent").get<AgentId>(), attempt, *std::move(message),
          in.at("heard_at").get<std::optional<TimePoint>>()};
}

namespace {

template <std::size_t index = 0>
Event event_named(std::string_view name, const json& fields) {
  if constexpr (index == std::variant_size_v<Event>) {
    throw std::invalid_argument(fmt::format("unknown event '{}'", name));
  } else {
    using Type = std::variant_alternative_t<index, Event>;
    if (name == name_of_type<Type>()) return fields.get<Type>();
    return event_named<index + 1>(name, fields);
  }
}

// io/launcher.h guarantees the core some things about events. This checks them.
void check_event(const Event& event) {
  if (const auto* begun = std::get_if<AttemptBegun>(&event);
      begun != nullptr && begun->resume_step > std::numeric_limits<std::int64_t>::max())
    throw std::out_of_range(fmt::format("{} is not a step", *begun->resume_step));
  if (const auto* added = std::get_if<NodesAdded>(&event)) {
    for (const NodesAdded::Node& each : added->nodes) {
      if (each.slots < 1 || each.slots > kMostWorkers)
        throw std::out_of_range(fmt::format("{} is not a number of slots", each.slots));
    }
  }
  const auto* said = std::get_if<AgentSaid>(&event);
  if (said == nullptr) return;
  if (const auto* exited = std::get_if<wire::WorkerExited>(&said->message)) check_nanoseconds(exited->at_ns);
  if (const auto* stalled = std::get_if<wire::WorkerStalled>(&said->message))
    check_nanoseconds(stalled->since_ns);
}

std::string text_of(AgentId agent) {
  return fmt::format("node{} (incarnation {})", agent.node, agent.incarnation);
}
template <class OfAnAgent>
  requires requires(OfAnAgent action) { action.agent; }
std::string details_of(const OfAnAgent& action) {
  return text_of(action.agent);
}
std::string details_of(const CloseConnection& action) {
  return fmt::format("connection {}", action.connection);
}
std::string details_of(const LookForLeftovers& action) {
  return action.kill ? "and kill them" : "";
}
std::string details_of(const BeginAttempt& action) {
  return fmt::format("after {}{}", action.last, action.take_over ? ", taking over" : "");
}
std::string details_of(const LookForCheckpoint& action) {
  return fmt::format("of attempt {}", action.attempt);
}
// A Welcome contains the workers' environment. Nothing of that may be stored, so the text has no digest of
// the message. No digest is needed, because every agent gets the same Welcome.
std::string details_of(const Send& action) {
  if (std::holds_alternative<wire::Welcome>(action.message))
    return fmt::format("Welcome to node{}", action.node);
  const std::string frame = wire::encode(header_of(action.node, action.attempt), action.message);
  return fmt::format("{} {} to node{}", name_of_alternative(action.message),
                     xxh3_digest(frame).substr(0, kShownDigits), action.node);
}
std::string details_of(const Tell& action) {
  return action.text;
}
std::string details_of(const Record& action) {
  return fmt::format("{} node {} rank {} {}", action.event, action.node.value_or(NodeId(-1)),
                     action.rank.value_or(Rank(-1)), action.text);
}
std::string details_of(const Finish&) {
  return "";
}

}  // namespace

std::string text_of(const Decision& decision) {
  const std::string details =
      std::visit([](const auto& action) { return details_of(action); }, decision.action);
  return fmt::format("{}{}{} ({})", name_of_alternative(decision.action), details.empty() ? "" : ": ",
                     details, decision.reason);
}

std::string_view name_of(const Event& event) {
  return name_of_alternative(event);
}

json to_record(const Event& event) {
  return std::visit(
      []<class Type>(const Type& what) {
        return json{{"event", name_of_type<Type>()}, {"fields", json(what)}};
      },
      event);
}

Expected<Event> event_from(const json& record) {
  try {
    Event event = event_named(record.at("event").get<std::string_view>(), record.at("fields"));
    check_event(event);
    return event;
  } catch (const std::exception& error) {
    return failure(ErrorCode::kCorrupt, "{}", error.what());
  }
}

}  // namespace muster::launcher
