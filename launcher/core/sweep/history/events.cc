#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/text.h"
#include "launcher/core/sweep/history/history.h"

namespace muster::launcher::sweep {

namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<RunEnd, std::string_view>, 7> kEndNames = {{
    {RunEnd::kFinished, "finished"},
    {RunEnd::kPaused, "paused"},
    {RunEnd::kStopped, "stopped"},
    {RunEnd::kInfeasible, "infeasible"},
    {RunEnd::kFailed, "failed"},
    {RunEnd::kLost, "lost"},
    {RunEnd::kCancelled, "cancelled"},
}};

// ---- Writing ----

// JSON has no NaN and no infinities, so these become texts. For any other real number, the JSON library
// writes enough digits (up to 17) to read exactly the same number back.
ordered_json real_as_json(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

ordered_json members_of(const TrialCreated& created) {
  return {{"event", "trial_created"},
          {"trial", created.trial},
          {"point", point_as_json(created.point)},
          {"bracket", created.bracket},
          {"reason", created.reason}};
}

ordered_json members_of(const RunBegan& began) {
  return {{"event", "run_began"},        {"trial", began.trial}, {"run", began.run},
          {"until", began.until},        {"place", began.place}, {"reason", began.reason},
          {"at", real_as_json(began.at)}};
}

ordered_json members_of(const Reported& reported) {
  auto values = ordered_json::object();
  for (const auto& [metric, value] : reported.values) values[metric] = real_as_json(value);
  return {{"event", "reported"},
          {"trial", reported.trial},
          {"step", reported.step},
          {"values", std::move(values)},
          {"at", real_as_json(reported.at)}};
}

ordered_json members_of(const RunEnded& ended) {
  const auto* name = std::ranges::find(kEndNames, ended.end, &std::pair<RunEnd, std::string_view>::first);
  return {{"event", "run_ended"}, {"trial", ended.trial}, {"run", ended.run},
          {"end", name->second},  {"text", ended.text},   {"at", real_as_json(ended.at)}};
}

ordered_json members_of(const Exploited& exploited) {
  return {{"event", "exploited"},
          {"trial", exploited.trial},
          {"from", exploited.from},
          {"step", exploited.step},
          {"point", point_as_json(exploited.point)},
          {"reason", exploited.reason}};
}

// ---- Reading ----

// Reads the members of one event. After the first error, nothing more is read.
class EventReader {
 public:
  explicit EventReader(const ordered_json& json) : json_(json) {}

  template <std::integral Number>
  void read(std::string_view name, Number& number) {
    const ordered_json* member = find(name);
    if (member == nullptr) return;
    const auto value = value_from_json(*member);
    const auto* whole = value ? std::get_if<std::int64_t>(&*value) : nullptr;
    if (whole == nullptr || !std::in_range<Number>(*whole)) return refuse(name, "expected a whole number");
    number = static_cast<Number>(*whole);
  }
  void read(std::string_view name, double& number) {
    const ordered_json* member = find(name);
    if (member == nullptr) return;
    const auto real = real_from(*member);
    if (!real) return refuse(name, "expected a number, \"nan\", \"inf\" or \"-inf\"");
    number = *real;
  }
  void read(std::string_view name, std::string& text) {
    const ordered_json* member = find(name);
    if (member == nullptr) return;
    if (!member->is_string()) return refuse(name, "expected a text");
    text = member->get<std::string>();
  }
  void read(std::string_view name, Point& point) {
    const ordered_json* member = find(name);
    if (member == nullptr) return;
    auto read = point_from_json(*member);
    if (!read) return refuse(name, read.error().message());
    point = *std::move(read);
  }
  void read(std::string_view name, std::map<std::string, double>& values) {
    const ordered_json* member = find(name);
    if (member == nullptr) return;
    if (!member->is_object()) return refuse(name, "expected an object of numbers by metric");
    for (const auto& [metric, number] : member->items()) {
      const auto real = real_from(number);
      if (!real)
        return refuse(name, fmt::format("{}: expected a number, \"nan\", \"inf\" or \"-inf\"", metric));
      values.emplace(metric, *real);
    }
  }
  void read(std::string_view name, RunEnd& end) {
    std::string text;
    read(name, text);
    if (error_) return;
    const auto* found = std::ranges::find(kEndNames, text, &std::pair<RunEnd, std::string_view>::second);
    if (found == kEndNames.end()) return refuse(name, fmt::format("unknown end `{}`", text));
    end = found->first;
  }

  void refuse(std::string_view name, std::string_view what) {
    error_ = Error(ErrorCode::kCorrupt, one_line(fmt::format("{}: {}", name, what)));
  }
  // Returns `event`, or the first error.
  template <class Type>
  Expected<Event> result(Type event) && {
    if (error_) return std::unexpected(*std::move(error_));
    return event;
  }

 private:
  const ordered_json* find(std::string_view name) {
    if (error_) return nullptr;
    const auto member = json_.find(name);
    if (member != json_.end()) return &*member;
    refuse(name, "is missing");
    return nullptr;
  }
  static std::optional<double> real_from(const ordered_json& json) {
    if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (json == "inf") return std::numeric_limits<double>::infinity();
    if (json == "-inf") return -std::numeric_limits<double>::infinity();
    return json.is_number() ? std::optional(json.get<double>()) : std::nullopt;
  }

  const ordered_json& json_;
  std::optional<Error> error_;
};

Expected<Event> created_from(EventReader reader) {
  TrialCreated created;
  reader.read("trial", created.trial);
  reader.read("point", created.point);
  reader.read("bracket", created.bracket);
  reader.read("reason", created.reason);
  return std::move(reader).result(std::move(created));
}

Expected<Event> began_from(EventReader reader) {
  RunBegan began;
  reader.read("trial", began.trial);
  reader.read("run", began.run);
  reader.read("until", began.until);
  reader.read("place", began.place);
  reader.read("reason", began.reason);
  reader.read("at", began.at);
  return std::move(reader).result(std::move(began));
}

Expected<Event> reported_from(EventReader reader) {
  Reported reported;
  reader.read("trial", reported.trial);
  reader.read("step", reported.step);
  reader.read("values", reported.values);
  reader.read("at", reported.at);
  return std::move(reader).result(std::move(reported));
}

Expected<Event> ended_from(EventReader reader) {
  RunEnded ended;
  reader.read("trial", ended.trial);
  reader.read("run", ended.run);
  reader.read("end", ended.end);
  reader.read("text", ended.text);
  reader.read("at", ended.at);
  return std::move(reader).result(std::move(ended));
}

Expected<Event> exploited_from(EventReader reader) {
  Exploited exploited;
  reader.read("trial", exploited.trial);
  reader.read("from", exploited.from);
  reader.read("step", exploited.step);
  reader.read("point", exploited.point);
  reader.read("reason", exploited.reason);
  return std::move(reader).result(std::move(exploited));
}

constexpr std::array<std::pair<std::string_view, Expected<Event> (*)(EventReader)>, 5> kEventReaders = {{
    {"trial_created", created_from},
    {"run_began", began_from},
    {"reported", reported_from},
    {"run_ended", ended_from},
    {"exploited", exploited_from},
}};

}  // namespace

std::string_view name_of(RunEnd end) {
  return std::ranges::find(kEndNames, end, &std::pair<RunEnd, std::string_view>::first)->second;
}

ordered_json event_as_json(const Event& event) {
  return std::visit([](const auto& each) { return members_of(each); }, event);
}

Expected<Event> event_from_json(const ordered_json& json) {
  if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) {
    return failure(ErrorCode::kCorrupt, "expected an object with an event's name as its member `event`");
  }
  const std::string& name = json["event"].get_ref<const std::string&>();
  for (const auto& [known, read] : kEventReaders) {
    if (name != known) continue;
    auto event = read(EventReader(json));
    return event ? std::move(event) : failure_within(known, std::move(event));
  }
  return failure(ErrorCode::kCorrupt, "unknown event `{}`", one_line(name));
}

}  // namespace muster::launcher::sweep
