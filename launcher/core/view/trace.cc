#include "launcher/core/view/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "common/base/text.h"
#include "common/base/trace_file.h"
#include "common/wire/json.h"

namespace muster::launcher {

namespace {

using nlohmann::json;

constexpr std::int64_t kLauncher = 1'000'000;  // the launcher's process number; ranks use their own numbers
constexpr std::int64_t kAttempts = 1;
constexpr std::int64_t kEvents = 2;
constexpr std::int64_t kLanes = 1000;  // limit for tracks of one name
// Times were written as decimal fractions. This is their rounding error.
constexpr std::int64_t kRounding = 1000;

// Returns the name of a track. If a name needs several tracks, all but the first get a number.
std::string lane_name(std::string_view track, std::int64_t lane) {
  return lane == 0 ? std::string(track) : fmt::format("{} {}", track, lane + 1);
}

std::optional<std::int64_t> whole_field(const json& object, const char* name) {
  if (!object.contains(name)) return std::nullopt;
  return whole_number<std::int64_t>(object[name]);
}

// Returns the member `name`, a number of microseconds, in nanoseconds. Throws json::exception if it is not a
// time.
std::int64_t ns_field(const json& object, const char* name) {
  constexpr double kMostNs = 4e18;
  const double ns = object.at(name).get<double>() * 1000;
  if (!(std::abs(ns) < kMostNs)) throw json::other_error::create(503, "not a time", &object);
  return std::llround(ns);
}

// The object's JSON without its braces.
std::string inside(const nlohmann::ordered_json& object) {
  const std::string text = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

std::string arguments_of(const json& event) {
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  for (const char* name : {"attempt", "rank", "node", "host", "text"}) {
    if (event.contains(name)) arguments[name] = event[name];
  }
  return inside(arguments);
}

// Tracks that have the same name. This class chooses one of them for each span.
class Lanes {
 public:
  // Returns the track for the span. Call it in the order in which the spans begin. If two begin together, the
  // longer one comes first. It may move a span by less than kRounding.
  std::int64_t place(std::int64_t& begin, std::int64_t& end) {
    std::size_t lane = 0;
    while (lane < lanes_.size() && !lanes_[lane].takes(begin, end)) ++lane;
    if (lane == lanes_.size()) lanes_.emplace_back().takes(begin, end);
    return static_cast<std::int64_t>(lane);
  }

 private:
  struct Lane {
    std::vector<std::int64_t> ends;  // ends of the spans around the next one, outermost first
    std::int64_t newest_begin = std::numeric_limits<std::int64_t>::min();

    bool takes(std::int64_t& begin, std::int64_t& end) {
      std::int64_t from = std::max(begin, newest_begin);
      std::int64_t to = std::max(end, from);
      std::size_t around = ends.size();
      for (;;) {
        while (around > 0 && ends[around - 1] <= from) --around;
        if (around == 0 || to <= ends[around - 1]) break;
        const std::int64_t inner = ends[around - 1];
        if (to - inner < kRounding) {
          to = inner;
          break;
        }
        if (inner - from >= kRounding) return false;
        from = inner;
      }
      ends.resize(around);
      ends.push_back(to);
      newest_begin = begin = from;
      end = to;
      return true;
    }
  };
  std::vector<Lane> lanes_;
};

}  // namespace

Trace::Trace(const JobRecord& job, std::string_view events, std::optional<std::uint64_t> attempt)
    : job_id_(job.job_id), only_(attempt) {
  std::map<NodeId, std::vector<ClockOffset::Answer>> answers;
  for (const std::string_view line : split(events, '\n')) {
    try {
      read_event(line, answers);
    } catch (const json::exception&) {
      continue;  // a line that is still being written
    }
  }
  for (const auto& [node, its] : answers) clocks_.emplace(node, TraceClock(its));
}

void Trace::read_event(std::string_view line, std::map<NodeId, std::vector<ClockOffset::Answer>>& answers) {
  const json event = parse_shallow_json(line, Fractions::kTaken);
  const std::string name = event.at("event");
  const auto at = whole_field(event, "monotonic_ns");
  const auto node = whole_field(event, "node");
  if (name == "clock") {
    answers[NodeId(static_cast<std::int32_t>(node.value_or(0)))].push_back(
        {.round_trip_ns = whole_number<std::int64_t>(event.at("round_trip_ns")),
         .offset_ns = whole_number<std::int64_t>(event.at("ahead_ns")),
         .at_ns = at.value_or(0)});
    return;
  }
  const auto attempt = event.contains("attempt") ? whole_number<std::uint64_t>(event["attempt"]) : 0;
  if (name == "workers_started") started_.add(event);
  if (!at) return;
  if (!began_ns_) began_ns_ = *at;
  if (only_ && attempt != *only_) return;
  launcher_.push_back({.track = kEvents,
                       .begin_ns = *at,
                       .end_ns = *at,
                       .name = name,
                       .arguments = arguments_of(event),
                       .attempt = attempt,
                       .is_moment = true});
}

std::string Trace::beginning() {
  std::vector<Span> spans = launcher_;
  std::optional<Span> attempt;
  for (const Span& event : launcher_) {
    if (event.name == "attempt_begun")
      attempt = Span{
          .track = kAttempts, .begin_ns = event.begin_ns, .name = fmt::format("attempt {}", event.attempt)};
    if (!attempt) continue;
    attempt->end_ns = std::max(attempt->begin_ns, event.begin_ns);
    if (event.name != "attempt_ended") continue;
    attempt->arguments = event.arguments;
    spans.push_back(*std::exchange(attempt, std::nullopt));
  }
  if (attempt) spans.push_back(*attempt);  // still running
  std::string text = R"({"displayTimeUnit":"ms","otherData":{)";
  text += inside({{"job", job_id_}});
  text += "},\"traceEvents\":[\n";
  return text +
         write({kLauncher, "launcher", -1, {{kAttempts, "attempts"}, {kEvents, "events"}}}, spans).substr(2);
}

std::string Trace::rank_name(Rank rank, std::uint64_t attempt) const {
  const auto* const node = started_.find(attempt, rank);
  if (node == nullptr) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (node{}{}{})", rank, node->plan.node, node->host.empty() ? "" : ", ",
                     node->host);
}

std::string Trace::of_rank(Rank rank, const std::map<std::uint64_t, std::string>& text_of_attempt) {
  std::vector<Span> spans;
  Tracks tracks{rank.value(), fmt::format("rank {}", rank), rank.value()};
  for (const auto& [track, name] : kTraceTracks) tracks.names[static_cast<std::int64_t>(track)] = name;
  for (const auto& [attempt, text] : text_of_attempt) {
    if (only_ && attempt != *only_) continue;
    tracks.name = rank_name(rank, attempt);
    const auto* const node = started_.find(attempt, rank);
    const auto clock = node == nullptr ? clocks_.end() : clocks_.find(node->plan.node);
    const bool is_known = clock != clocks_.end() && clock->second.is_known();
    if (node != nullptr && !node->host.empty() && !is_known && strange_clocks_.insert(node->plan.node).second)
      summary_.remarks.push_back(fmt::format(
          "the clock offset of node{} is unknown: the times of its ranks are not adjusted", node->plan.node));
    const std::size_t before = spans.size();
    const std::size_t unread = read_rank(text, is_known ? clock->second : TraceClock(), spans);
    if (unread > 0)
      summary_.remarks.push_back(
          fmt::format("rank {}, attempt {}: {} lines are not events", rank, attempt, unread));
    for (std::size_t i = before; i < spans.size(); ++i) {
      if (spans[i].is_moment)
        summary_.remarks.push_back(fmt::format("rank {}, attempt {}: {}", rank, attempt, spans[i].name));
    }
  }
  if (!spans.empty()) ++summary_.ranks;
  return write(tracks, std::move(spans));
}

// Reads the trace file of a rank. Returns the number of lines that are not events. If the last line is torn,
// it is not counted.
std::size_t Trace::read_rank(std::string_view text, const TraceClock& clock, std::vector<Span>& spans) const {
  std::size_t unread = 0;
  const std::size_t whole = text.rfind('\n');
  for (std::string_view line : split(text.substr(0, whole == std::string_view::npos ? 0 : whole), '\n')) {
    if (line.ends_with(',')) line.remove_suffix(1);
    if (line.empty() || line == "[") continue;
    try {
      const json event = parse_shallow_json(line, Fractions::kTaken);
      const std::string& kind = event.at("ph").get_ref<const std::string&>();
      if (kind == "M") continue;
      Span span{.track = whole_number<std::int64_t>(event.at("tid")),
                .begin_ns = ns_field(event, "ts"),
                .name = event.at("name"),
                .is_moment = kind != "X"};
      span.end_ns =
          span.is_moment ? span.begin_ns : span.begin_ns + std::max<std::int64_t>(0, ns_field(event, "dur"));
      span.begin_ns = clock.here(span.begin_ns);
      span.end_ns = clock.here(span.end_ns);
      if (event.contains("args") && event["args"].is_object()) span.arguments = inside(event["args"]);
      spans.push_back(std::move(span));
    } catch (const json::exception&) {
      ++unread;
    }
  }
  return unread;
}

std::string Trace::write(const Tracks& tracks, std::vector<Span> spans) {
  std::string text;
  const auto name = [&](std::int64_t track, const std::string& its, std::int64_t place) {
    text += ",\n";
    append_trace_name(text, tracks.process, track, its, place);
  };
  name(0, tracks.name, tracks.place);
  std::ranges::sort(spans, [](const Span& one, const Span& other) {
    return std::tie(one.begin_ns, other.end_ns, one.name) < std::tie(other.begin_ns, one.end_ns, other.name);
  });
  std::map<std::int64_t, Lanes> lanes;
  std::set<std::int64_t> named;
  for (Span& span : spans) {
    const auto track = tracks.names.find(span.track);
    if (track == tracks.names.end()) continue;
    const std::int64_t lane = span.is_moment ? 0 : lanes[span.track].place(span.begin_ns, span.end_ns);
    if (lane >= kLanes) continue;
    const std::int64_t number = span.track * kLanes + lane;
    if (named.insert(number).second) name(number, lane_name(track->second, lane), number);
    text += ",\n";
    write_span(text, span, tracks.process, number);
  }
  return text;
}

void Trace::write_span(std::string& text, const Span& span, std::int64_t process, std::int64_t track) {
  append_trace_event(text, {.process = process,
                            .track = track,
                            .name = span.name,
                            .begin_ns = span.begin_ns - began_ns_.value_or(0),
                            .duration_ns = span.is_moment ? -1 : span.end_ns - span.begin_ns,
                            .arguments = span.arguments});
  ++summary_.events;
  summary_.first_ns = std::min(summary_.first_ns.value_or(span.begin_ns), span.begin_ns);
  summary_.last_ns = std::max(summary_.last_ns.value_or(span.end_ns), span.end_ns);
}

}  // namespace muster::launcher
