#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/collectives.h>
#include <muster/train/early_stopping.h>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "common/base/log.h"

namespace muster {
namespace {

// Returns the mean of the values of all ranks. Every rank adds them in the same order, so all ranks get the
// same bits. If all values are equal, returns this value, without a rounding error.
double agree(const Group& group, double mine) {
  const at::Tensor all = torch::empty({group.size()}, at::kDouble);
  all_gather_into_tensor(group, all, torch::full({1}, mine, at::kDouble));
  const auto* const first = static_cast<const double*>(all.const_data_ptr());
  if (std::all_of(first, first + group.size(), [&](double each) { return each == *first; })) return *first;
  double sum = 0;
  for (const double* each = first; each != first + group.size(); ++each) sum += *each;
  return sum / group.size();
}

}  // namespace

EarlyStopping::EarlyStopping(Group group, const EarlyStoppingOptions& options)
    : group_(std::move(group)),
      options_(options),
      best_(options.mode == EarlyStoppingOptions::Mode::kMin ? std::numeric_limits<double>::infinity()
                                                             : -std::numeric_limits<double>::infinity()) {
  if (options_.patience < 1)
    throw std::invalid_argument(
        fmt::format("EarlyStopping: patience is {}; it must be at least 1", options_.patience));
  if (!(options_.min_delta >= 0))
    throw std::invalid_argument(
        fmt::format("EarlyStopping: min_delta is {}; it must be at least 0", options_.min_delta));
}

bool EarlyStopping::step(double value) {
  last_ = agree(group_, value);
  const std::int64_t epoch = epochs_++;
  const bool improves = options_.mode == EarlyStoppingOptions::Mode::kMin
                            ? last_ + options_.min_delta < best_
                            : last_ - options_.min_delta > best_;
  if (std::exchange(had_stopped_, false) && group_.rank() == 0)
    log::warning(
        "EarlyStopping: the training had stopped before this start, and trains on: "
        "end its loop where should_stop() is true, before each step");
  if (should_stop()) return true;
  if (options_.check_finite && !std::isfinite(last_)) {
    reason_ = fmt::format("the metric is {} in epoch {}", last_, epoch);
  } else if (improves) {
    best_ = last_;
    best_epoch_ = epoch;
    wait_count_ = 0;
  } else if (++wait_count_ >= options_.patience) {
    const std::string epochs = wait_count_ == 1 ? "1 epoch" : fmt::format("{} epochs", wait_count_);
    reason_ = best_epoch_ < 0
                  ? fmt::format("the metric has had no finite value in {}", epochs)
                  : fmt::format("no improvement in {} on {} of epoch {}", epochs, best_, best_epoch_);
  }
  if (should_stop() && group_.rank() == 0) log::info("training stops early: {}", reason_);
  return should_stop();
}

void EarlyStopping::save(SavedState& to) const {
  to.shared_value("last", write_number(last_));
  to.shared_value("best", write_number(best_));
  to.shared_value("best_epoch", write_number(best_epoch_));
  to.shared_value("epochs", write_number(epochs_));
  to.shared_value("wait_count", write_number(wait_count_));
  to.shared_value("reason", reason_);
}

void EarlyStopping::load(LoadedState& from) {
  last_ = from.number<double>("last");
  best_ = from.number<double>("best");
  best_epoch_ = from.number<std::int64_t>("best_epoch");
  epochs_ = from.number<std::int64_t>("epochs");
  wait_count_ = from.number<std::int64_t>("wait_count");
  reason_ = from.value("reason");
  had_stopped_ = should_stop();
}

}  // namespace muster
