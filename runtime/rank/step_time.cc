#include "runtime/rank/step_time.h"

#include <algorithm>

#include "runtime/rank/trace.h"

namespace muster {

namespace {

constexpr std::size_t kMaxParts = 12;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::string_view kOtherPart = "other sections";

}  // namespace

// Each new name gets a part of its own, up to kMaxParts parts. If names keep changing, all further names
// share the part kOtherPart.
void StepTime::add(Parts& parts, std::string_view part, Duration time) {
  part = part.substr(0, kMaxNameBytes);
  auto found = std::ranges::find(parts, part, &Parts::value_type::first);
  if (found == parts.end() && parts.size() >= kMaxParts)
    found = std::ranges::find(parts, part = kOtherPart, &Parts::value_type::first);
  if (found != parts.end())
    found->second += time;
  else
    parts.emplace_back(part, time);
}

StepTime::Token StepTime::begin(std::string_view part, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  open_.push_back({.token = ++last_token_, .part = std::string(part), .since = now, .before = step_});
  return last_token_;
}

std::optional<StepTime::Ended> StepTime::end(Token token, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto open = std::ranges::find(open_, token, &Open::token);
  if (open == open_.end()) return std::nullopt;
  step_ = std::move(open->before);
  Ended ended{std::move(open->part), open->since};
  add(step_, ended.part, now - ended.since);
  open_.erase(open, open_.end());
  return ended;
}

void StepTime::divide(std::string_view part, const Parts& others) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, time] : others) {
    const auto whole = std::ranges::find(step_, part, &Parts::value_type::first);
    if (whole == step_.end()) return;
    const Duration taken = std::min(time, whole->second);
    whole->second -= taken;
    if (taken > Duration()) add(step_, name, taken);
  }
}

std::optional<Duration> StepTime::step_ended(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto began = std::exchange(step_began_, now);
  const Parts parts = std::exchange(step_, {});
  const bool waits = std::ranges::find(open_, kCommunicatePart, &Open::part) != open_.end();
  open_.clear();
  if (met_) group_ = *std::exchange(met_, std::nullopt);
  if (!began) return std::nullopt;
  ++step_count_;
  Duration compute = now - *began, data{};
  bool waited = false;
  for (const auto& [part, time] : parts) {
    add(total_, part, time);
    compute -= time;
    if (part == kDataPart) data = time;
    if (part == kCommunicatePart) waited = true;
  }
  add(total_, kComputePart, compute);
  if (waits || !waited) return std::nullopt;
  return compute + data;
}

void StepTime::meets(std::string_view group) {
  const std::scoped_lock lock(mutex_);
  if (!met_)
    met_ = group;
  else if (*met_ != group)
    met_->clear();
}

std::string StepTime::group() const {
  const std::scoped_lock lock(mutex_);
  return group_;
}

std::optional<TimePoint> StepTime::step_began() const {
  const std::scoped_lock lock(mutex_);
  return step_began_;
}

std::optional<TimePoint> StepTime::open_since(std::string_view part) const {
  const std::scoped_lock lock(mutex_);
  const auto open = std::ranges::find(open_, part, &Open::part);
  return open == open_.end() ? std::nullopt : std::optional(open->since);
}

RankSteps StepTime::total() const {
  const std::scoped_lock lock(mutex_);
  RankSteps all{.rank = 0, .step_count = step_count_, .parts_ns = {}};
  for (const auto& [part, time] : total_)
    all.parts_ns[part] += std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  return all;
}

StepTime& step_time() {
  static auto* time = new StepTime;  // never destroyed: a Job in static storage may outlive it otherwise
  return *time;
}

bool end_step_part(StepTime::Token token) {
  const TimePoint now = Clock::now();
  const auto ended = step_time().end(token, now);
  if (TraceFile* const trace = trace_file(); trace != nullptr && ended)
    trace->add(TraceTrack::kStep, ended->part, ended->since, now);
  return ended.has_value();
}

}  // namespace muster
