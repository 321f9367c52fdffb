#include <cstdlib>
#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/train/logger.h>
#include <muster/train/metrics.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/wire/metric_name.h"
#include "runtime/comm/job_state.h"
#include "runtime/train/run_records.h"

namespace muster {

namespace {

// If this job is a trial of a sweep, reports the metrics to the agent, because the sweep uses metrics to
// compare its trials. A tag that is not a valid name of a metric is left out.
void report_of_trial(const std::map<std::string, double>& metrics, std::int64_t step) {
  if (std::getenv("MUSTER_TRIAL") == nullptr || step < 0) return;
  const auto job = newest_job_state();
  if (job == nullptr) return;
  std::map<std::string, double> values;
  for (const auto& [tag, value] : metrics)
    if (wire::is_metric_name(tag)) values.emplace(tag, value);
  job->reports.metrics(step, values);
}

}  // namespace

// Only rank 0 writes, but every rank checks the tag. So all ranks throw the same error.
void Logger::require_tag(const std::string& tag) const {
  if (has_columns_ && RunRecords::is_column(tag))
    throw std::invalid_argument(
        fmt::format("Logger: '{}' cannot be a tag: every row of metrics.jsonl has a member of that name; "
                    "use 'train/{}'",
                    tag, tag));
}

Logger::Logger(Group group, const std::string& directory, const LoggerOptions& options)
    : group_(std::move(group)), has_columns_(options.jsonl) {
  if (directory.empty()) throw std::invalid_argument("Logger: no directory is given");
  if (group_.rank() == 0)
    records_ = std::make_unique<RunRecords>(
        directory,
        RunRecords::Formats{.tensorboard = options.tensorboard, .jsonl = options.jsonl, .csv = options.csv});
}

Logger::Logger(Logger&&) noexcept = default;
Logger::~Logger() = default;

void Logger::add_scalar(const std::string& tag, double value, std::int64_t step) {
  log_metrics({{tag, value}}, step);
}

void Logger::add_scalar(const std::string& tag, double value, std::int64_t step, ReduceOp op) {
  require_tag(tag);
  add_scalar(tag, all_reduce(group_, value, op), step);
}

void Logger::log_metrics(const std::map<std::string, double>& metrics, std::int64_t step) {
  for (const auto& [tag, value] : metrics) require_tag(tag);
  if (!records_) return;
  records_->add_scalars(step, metrics);
  report_of_trial(metrics, step);
}

void Logger::add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step) {
  if (!records_) return;
  const at::Tensor flat = values.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  records_->add_histogram(
      step, tag, {static_cast<const double*>(flat.const_data_ptr()), static_cast<std::size_t>(flat.numel())});
}

void Logger::add_image(const std::string& tag, const at::Tensor& image, std::int64_t step) {
  const at::Tensor planes = image.dim() == 2 ? image.unsqueeze(0) : image;
  const bool real = at::isFloatingType(image.scalar_type());
  if (planes.dim() != 3 || (planes.size(0) != 1 && planes.size(0) != 3) || planes.numel() == 0 ||
      (!real && image.scalar_type() != at::kByte))
    throw std::invalid_argument(
        fmt::format("Logger: the image '{}' is {} of {}; it must be [1 or 3, height, width] or "
                    "[height, width], of uint8 or floating-point numbers",
                    tag, c10::str(image.sizes()), c10::toString(image.scalar_type())));
  if (!records_) return;
  at::Tensor pixels = planes.detach().to(at::kCPU).permute({1, 2, 0});
  if (real) pixels = pixels.to(at::kFloat).nan_to_num(0).clamp(0, 1).mul(255).round().to(at::kByte);
  pixels = pixels.contiguous();
  records_->add_image(
      step, tag, {.height = pixels.size(0), .width = pixels.size(1), .channels = pixels.size(2)},
      {static_cast<const char*>(pixels.const_data_ptr()), static_cast<std::size_t>(pixels.numel())});
}

void Logger::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  require_tag(tag);
  if (records_) records_->add_text(step, tag, text);
}

void Logger::add_hparams(const std::map<std::string, HParam>& hparams,
                         const std::map<std::string, double>& metrics) {
  for (const auto& [tag, value] : metrics) require_tag(tag);
  if (records_) records_->add_settings(hparams, metrics);
}

void Logger::save(SavedState& to) const {
  if (records_) to.value_of_first("files", records_->mark());
}

void Logger::load(LoadedState& from) {
  const std::string mark = from.value("files");
  if (!records_) return;
  if (const Status read = records_->go_on_from(mark); !read)
    throw std::invalid_argument("Logger: " + read.error().message());
}

}  // namespace muster
