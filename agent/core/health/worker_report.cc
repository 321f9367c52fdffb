#include "agent/core/health/worker_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/wire/json.h"
#include "common/wire/metric_name.h"

namespace muster::agent {

namespace {

using wire::ReportKind;

bool is_progress(ReportKind kind) {
  return kind == ReportKind::kHeartbeat || kind == ReportKind::kStep;
}

bool is_for_agent(ReportKind kind) {
  using enum ReportKind;
  return kind == kSection || kind == kIdle || kind == kStacks || kind == kMemorySlots || kind == kHeld ||
         kind == kLastLine;
}

// Returns whether reports of this kind matter for the job's exit code, or for decisions about the job or its
// sweep.
bool decides(ReportKind kind) {
  using enum ReportKind;
  return kind == kHello || kind == kSaved || kind == kCommitted || kind == kPreempted || kind == kFenced ||
         kind == kMetric;
}

constexpr std::size_t kMaxWordBytes = 128;

// Replaces characters that cannot be printed, because the text will be shown on terminals.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), kMaxWordBytes));
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text;
}

constexpr std::int64_t kMaxSectionMs = std::int64_t{1} << 40;

void read_section(const nlohmann::json& parsed, Report& report) {
  const bool beat = report.message.kind == ReportKind::kHeartbeat;
  if (beat ? !parsed.contains("section") : report.message.kind != ReportKind::kSection) return;
  report.section = parsed.at(beat ? "section" : "name").get<std::string>();
  report.section = printable(*std::move(report.section));
  if (beat) report.message.text = *report.section;
  if (beat)
    report.section_time = std::chrono::milliseconds(
        std::clamp(parsed.contains("section_ms") ? whole_number<std::int64_t>(parsed["section_ms"]) : 0,
                   std::int64_t{0}, kMaxSectionMs));
  else
    report.entered = parsed.at("state").get<std::string>() == "enter";
}

std::int64_t nanoseconds(const nlohmann::json& milliseconds, double highest) {
  if (!milliseconds.is_number())
    throw nlohmann::json::type_error::create(302, "a time is not a number", &milliseconds);
  return static_cast<std::int64_t>(std::clamp(milliseconds.get<double>(), 0.0, highest) * 1e6);
}

// A step cannot report a longer busy time than this, which is 11 days. The sum of many such times, in
// nanoseconds, then fits into 64 bits.
constexpr double kMaxBusyMs = 1e9;

// Reads the loss and the number of samples. JSON has no numbers for NaN and infinity. So if the loss is one
// of these, workers send null.
void read_numbers(const nlohmann::json& parsed, wire::WorkerReported& message) {
  if (const auto loss = parsed.find("loss"); loss != parsed.end())
    message.loss = loss->is_null() ? "nan" : fmt::format("{}", loss->get<double>());
  if (parsed.contains("samples"))
    message.samples = std::max<std::int64_t>(whole_number<std::int64_t>(parsed["samples"]), 0);
}

constexpr std::size_t kMaxParts = 16;
constexpr double kMaxPartMs = 1e11;  // three years

void read_profile(const nlohmann::json& parsed, wire::WorkerReported& message) {
  message.step = whole_number<std::int64_t>(parsed.at("steps"));
  if (message.step < 0) throw nlohmann::json::other_error::create(503, "a negative step", &parsed);
  for (const auto& [part, milliseconds] : parsed.at("parts_ms").items()) {
    if (message.parts_ns.size() == kMaxParts)
      throw nlohmann::json::other_error::create(503, "more than 16 parts of a step", &parsed);
    message.parts_ns[printable(part)] = nanoseconds(milliseconds, kMaxPartMs);
  }
}

constexpr std::size_t kMaxValues = 64;

// JSON has no numbers for NaN and infinity, but people must see that a training has diverged. So workers send
// such values as the words "nan", "inf" and "-inf".
double metric_value(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string& word = value.get_ref<const std::string&>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  throw nlohmann::json::other_error::create(503, "a value that is not a number", &value);
}

void read_metric(const nlohmann::json& parsed, wire::WorkerReported& message) {
  const auto& values = parsed.at("values").get_ref<const nlohmann::json::object_t&>();
  if (values.size() > kMaxValues)
    throw nlohmann::json::other_error::create(503, "more than 64 values of metrics", &parsed);
  for (const auto& [name, value] : values) {
    if (!wire::is_metric_name(name))
      throw nlohmann::json::other_error::create(503, "a metric with a wrong name", &parsed);
    message.values[name] = metric_value(value);
  }
}

}  // namespace

Expected<Report> parse_report(std::string_view datagram) {
  using nlohmann::json;
  if (datagram.size() > kMaxReportBytes)
    return failure(ErrorCode::kCorrupt, "a report of {} bytes", datagram.size());
  const json parsed = json::parse(datagram, nullptr, false);
  if (!parsed.is_object()) return failure(ErrorCode::kCorrupt, "a report is not a JSON object");
  try {
    Report report;
    report.attempt = Attempt(whole_number<std::uint64_t>(parsed.at("attempt")));
    report.message.rank = Rank(whole_number<std::int32_t>(parsed.at("rank")));
    const auto known = wire::word_named<ReportKind>(parsed.at("type").get_ref<const std::string&>());
    if (parsed.at("v") != 1 || !known) return failure(ErrorCode::kCorrupt, "a report of an unknown kind");
    const ReportKind kind = report.message.kind = *known;
    // A heartbeat need not name a step. Then no step is done yet, and its step is -1.
    report.message.step = parsed.contains("step") ? whole_number<std::int64_t>(parsed["step"])
                                                  : (kind == ReportKind::kHeartbeat ? -1 : 0);
    if (report.message.step < (kind == ReportKind::kHeartbeat ? -1 : 0))
      return failure(ErrorCode::kCorrupt, "a report of step {}", report.message.step);
    report.message.text = parsed.value("text", std::string());
    if (kind == ReportKind::kStep && parsed.contains("busy_ms"))
      report.message.busy_ns = nanoseconds(parsed["busy_ms"], kMaxBusyMs);
    if (kind == ReportKind::kStep) read_numbers(parsed, report.message);
    if (kind == ReportKind::kStep) report.message.group = printable(parsed.value("group", std::string()));
    if (kind == ReportKind::kStep) report.message.text = printable(std::move(report.message.text));
    if (kind == ReportKind::kHeartbeat) report.activity = printable(parsed.value("activity", std::string()));
    report.may_be_late = kind == ReportKind::kHeartbeat && parsed.value("may_be_late", false);
    if (kind == ReportKind::kProfile) read_profile(parsed, report.message);
    if (kind == ReportKind::kMetric) read_metric(parsed, report.message);
    if (kind == ReportKind::kMemorySlots) report.slot_bytes = whole_number<std::uint64_t>(parsed.at("bytes"));
    if (kind == ReportKind::kLastLine) report.pid = whole_number<std::int32_t>(parsed.at("pid"));
    read_section(parsed, report);
    return report;
  } catch (const json::exception& error) {
    return failure(ErrorCode::kCorrupt, "a report with a wrong field: {}", error.what());
  }
}

bool is_for_launcher(const Report& report) {
  return !is_for_agent(report.message.kind);
}

std::vector<wire::WorkerReported> Reports::on(const wire::WorkerReported& report, TimePoint now) {
  if (!is_progress(report.kind)) {
    auto passed_on = take(report.rank);
    passed_on.push_back(report);
    return passed_on;
  }
  Progress& progress = progress_[report.rank];
  // If a step is held back, a heartbeat does not replace it, because a heartbeat has fewer fields.
  const bool beat = report.kind == ReportKind::kHeartbeat;
  if (!progress.held || !beat || progress.held->kind == ReportKind::kHeartbeat) progress.held = report;
  return due(now);
}

std::vector<wire::WorkerReported> Reports::due(TimePoint now) {
  std::vector<wire::WorkerReported> passed_on;
  for (auto& [rank, progress] : progress_) {
    if (!progress.held || (progress.sent && now < *progress.sent + kInterval)) continue;
    progress.sent = now;
    passed_on.push_back(*std::exchange(progress.held, std::nullopt));
  }
  return passed_on;
}

std::vector<wire::WorkerReported> Reports::take(Rank rank) {
  const auto found = progress_.find(rank);
  if (found == progress_.end() || !found->second.held) return {};
  return {*std::exchange(found->second.held, std::nullopt)};
}

bool Reports::admit(const wire::WorkerReported& report, bool crowded) {
  if (!crowded || (decides(report.kind) && sent_in_spite_[{report.rank, report.kind}]++ < kMostInSpite))
    return true;
  ++dropped_count_;
  return false;
}

std::optional<TimePoint> Reports::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [rank, progress] : progress_) {
    if (!progress.held) continue;
    const TimePoint when = *progress.sent + kInterval;
    if (!next || when < *next) next = when;
  }
  return next;
}

}  // namespace muster::agent
