#include "launcher/core/sweep/history/metric_line.h"

#include "common/base/text.h"
#include "common/wire/metric_name.h"

namespace muster::launcher::sweep {

std::optional<Expected<MetricLine>> read_metric_line(std::string_view line) {
  if (!line.starts_with(kMetricMark)) return std::nullopt;
  line.remove_prefix(kMetricMark.size());
  MetricLine read;
  for (const std::string_view word : split(line, ' ')) {
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string_view text = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (name == "step") {
      read.step = parse_number<std::int64_t>(text);
      if (!read.step || *read.step < 0)
        return failure(ErrorCode::kInvalidArgument, "step={} is not a step: give 0 or more", text);
      continue;
    }
    const auto value = parse_number<double>(text);
    if (!wire::is_metric_name(name) || !value)
      return failure(ErrorCode::kInvalidArgument, "`{}` is not a metric: write NAME=NUMBER", word);
    read.values[std::string(name)] = *value;
  }
  if (read.values.empty())
    return failure(ErrorCode::kInvalidArgument, "it names no metric: write NAME=NUMBER");
  return read;
}

std::int64_t LineSteps::step_of(Attempt attempt, Rank rank, const MetricLine& line) {
  if (attempt != attempt_) {
    attempt_ = attempt;
    begin_ = newest_;
    ranks_.clear();
  }
  std::int64_t& newest = ranks_.try_emplace(rank, begin_).first->second;
  const std::int64_t step = line.step.value_or(newest + 1);
  newest = std::max(newest, step);
  newest_ = std::max(newest_, step);
  return step;
}

}  // namespace muster::launcher::sweep
