#include "runtime/train/running_schedule.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace muster {
namespace {

using std::numbers::pi;

// A schedule's position for one group.
struct Place {
  std::int64_t epoch = 0;
  bool initial = false;  // true for the step that a schedule makes when it begins
  double lr = 0;         // the rate of the step before
  double base_lr = 0;
  std::size_t group = 0;
  std::int64_t t_cur = 0;
  std::int64_t t_i = 0;
};

// Converts a whole number to double, as Python does in `a / b` and `a * b`.
double number(std::int64_t count) {
  return static_cast<double>(count);
}

template <class Value>
const Value& of_group(const std::vector<Value>& values, std::size_t group) {
  return values[values.size() == 1 ? 0 : group];
}

// There is a next_lr() for each schedule. It computes the rate of a step. If Python's schedule computes the
// rate from the rate of the step before, next_lr() does so, too.
//
// A SequentialLR calls start_lr() when it starts a schedule. Some of Python's schedules have a closed form,
// that is, a formula that gives the rate of any step. start_lr() is this formula for step 0. The other
// schedules have no start_lr().

double next_lr(const LambdaLR& options, const Place& at) {
  return at.base_lr * of_group(options.lr_lambda, at.group)(at.epoch);
}

double next_lr(const StepLR& options, const Place& at) {
  return at.epoch == 0 || at.epoch % options.step_size != 0 ? at.lr : at.lr * options.gamma;
}
double start_lr(const StepLR& /*options*/, double base_lr) {
  return base_lr;
}

double next_lr(const MultiStepLR& options, const Place& at) {
  const auto here = std::ranges::count(options.milestones, at.epoch);
  return here == 0 ? at.lr : at.lr * std::pow(options.gamma, number(here));
}
double start_lr(const MultiStepLR& options, double base_lr) {
  const auto before =
      std::ranges::count_if(options.milestones, [](auto milestone) { return milestone <= 0; });
  return base_lr * std::pow(options.gamma, number(before));
}

double next_lr(const ConstantLR& options, const Place& at) {
  if (at.epoch == 0) return at.lr * options.factor;
  return at.epoch != options.total_iters ? at.lr : at.lr * (1.0 / options.factor);
}
double start_lr(const ConstantLR& options, double base_lr) {
  return base_lr * options.factor;
}

double next_lr(const LinearLR& options, const Place& at) {
  if (at.epoch == 0) return at.lr * options.start_factor;
  if (at.initial || at.epoch > options.total_iters) return at.lr;
  const double way = options.end_factor - options.start_factor;
  return at.lr *
         (1.0 + way / (number(options.total_iters) * options.start_factor + number(at.epoch - 1) * way));
}
double start_lr(const LinearLR& options, double base_lr) {
  return base_lr * options.start_factor;
}

double next_lr(const ExponentialLR& options, const Place& at) {
  return at.initial ? at.lr : at.lr * options.gamma;
}
double start_lr(const ExponentialLR& /*options*/, double base_lr) {
  return base_lr;
}

double next_lr(const PolynomialLR& options, const Place& at) {
  if (at.initial || at.epoch > options.total_iters) return at.lr;
  const double total = number(options.total_iters);
  return at.lr *
         std::pow((1.0 - number(at.epoch) / total) / (1.0 - number(at.epoch - 1) / total), options.power);
}
double start_lr(const PolynomialLR& /*options*/, double base_lr) {
  return base_lr;
}

double next_lr(const CosineAnnealingLR& options, const Place& at) {
  if (at.initial) return at.lr;
  const double whole = number(options.T_max);
  if ((at.epoch - 1 - options.T_max) % (2 * options.T_max) == 0)
    return at.lr + (at.base_lr - options.eta_min) * (1 - std::cos(pi / whole)) / 2;
  return (1 + std::cos(pi * number(at.epoch) / whole)) / (1 + std::cos(pi * number(at.epoch - 1) / whole)) *
             (at.lr - options.eta_min) +
         options.eta_min;
}
double start_lr(const CosineAnnealingLR& options, double base_lr) {
  return options.eta_min + (base_lr - options.eta_min) * 2.0 / 2;
}

double next_lr(const CosineAnnealingWarmRestarts& options, const Place& at) {
  return options.eta_min +
         (at.base_lr - options.eta_min) * (1 + std::cos(pi * number(at.t_cur) / number(at.t_i))) / 2;
}

// ---- OneCycleLR

struct Phase {
  double end_step;
  double ScheduledGroup::* start_lr;
  double ScheduledGroup::* end_lr;
  double ScheduledGroup::* start_momentum;
  double ScheduledGroup::* end_momentum;
};

std::int64_t steps_of(const OneCycleLR& options) {
  return options.total_steps != 0 ? options.total_steps : options.epochs * options.steps_per_epoch;
}

std::vector<Phase> phases_of(const OneCycleLR& options) {
  using Group = ScheduledGroup;
  const double total = number(steps_of(options));
  std::vector<Phase> phases{{options.pct_start * total - 1, &Group::initial_lr, &Group::max_lr,
                             &Group::max_momentum, &Group::base_momentum}};
  if (options.three_phase) {
    phases.push_back({2 * options.pct_start * total - 2, &Group::max_lr, &Group::initial_lr,
                      &Group::base_momentum, &Group::max_momentum});
    phases.push_back(
        {total - 1, &Group::initial_lr, &Group::min_lr, &Group::max_momentum, &Group::max_momentum});
  } else {
    phases.push_back(
        {total - 1, &Group::max_lr, &Group::min_lr, &Group::base_momentum, &Group::max_momentum});
  }
  return phases;
}

double anneal(OneCycleLR::Anneal strategy, double start, double end, double share) {
  if (strategy == OneCycleLR::Anneal::kLinear) return (end - start) * share + start;
  return end + (start - end) / 2.0 * (std::cos(pi * share) + 1);
}

void set_one_cycle(const OneCycleLR& options, std::int64_t step, ScheduledGroup& group) {
  if (step > steps_of(options))
    throw std::logic_error(
        fmt::format("OneCycleLR: step() after the last of its {} steps", steps_of(options)));
  const std::vector<Phase> phases = phases_of(options);
  double start = 0;
  std::size_t at = 0;
  for (; at + 1 < phases.size() && number(step) > phases[at].end_step; ++at) start = phases[at].end_step;
  const Phase& phase = phases[at];
  const double share = (number(step) - start) / (phase.end_step - start);
  group.lr = anneal(options.anneal_strategy, group.*phase.start_lr, group.*phase.end_lr, share);
  if (options.cycle_momentum)
    group.momentum =
        anneal(options.anneal_strategy, group.*phase.start_momentum, group.*phase.end_momentum, share);
}

// ---- Checks of the options

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}
void require_least(const char* name, std::int64_t value, std::int64_t least) {
  require(value >= least, fmt::format("{} is {}; it must be at least {}", name, value, least));
}
template <class Value>
void require_per_group(const char* name, const std::vector<Value>& values, std::size_t groups) {
  const std::string one_each =
      groups == 1 ? "" : fmt::format(", or {}, one for each group of the optimizer", groups);
  require(values.size() == 1 || values.size() == groups,
          fmt::format("{} has {} values; it must have 1{}", name, values.size(), one_each));
}

void check(const LambdaLR& options, std::size_t groups) {
  require_per_group("LambdaLR's lr_lambda", options.lr_lambda, groups);
  for (const auto& each : options.lr_lambda) require(each != nullptr, "LambdaLR's lr_lambda is empty");
}
void check(const StepLR& options, std::size_t /*groups*/) {
  require_least("StepLR's step_size", options.step_size, 1);
}
void check(const MultiStepLR& /*options*/, std::size_t /*groups*/) {}
void check(const ConstantLR& options, std::size_t /*groups*/) {
  require(options.factor > 0 && options.factor <= 1,
          fmt::format("ConstantLR's factor is {}; it must be greater than 0 and at most 1", options.factor));
  require_least("ConstantLR's total_iters", options.total_iters, 1);
}
void check(const LinearLR& options, std::size_t /*groups*/) {
  require(options.start_factor > 0 && options.start_factor <= 1,
          fmt::format("LinearLR's start_factor is {}; it must be greater than 0 and at most 1",
                      options.start_factor));
  require(options.end_factor >= 0 && options.end_factor <= 1,
          fmt::format("LinearLR's end_factor is {}; it must be between 0 and 1", options.end_factor));
  require_least("LinearLR's total_iters", options.total_iters, 1);
}
void check(const ExponentialLR& options, std::size_t /*groups*/) {
  require(options.gamma != 0, "ExponentialLR's gamma is not set");
}
void check(const PolynomialLR& options, std::size_t /*groups*/) {
  require_least("PolynomialLR's total_iters", options.total_iters, 1);
}
void check(const CosineAnnealingLR& options, std::size_t /*groups*/) {
  require_least("CosineAnnealingLR's T_max", options.T_max, 1);
}
void check(const CosineAnnealingWarmRestarts& options, std::size_t /*groups*/) {
  require_least("CosineAnnealingWarmRestarts' T_0", options.T_0, 1);
  require_least("CosineAnnealingWarmRestarts' T_mult", options.T_mult, 1);
}
void check(const OneCycleLR& options, std::size_t groups) {
  require(steps_of(options) > 0,
          "OneCycleLR's total_steps is not set; set it, or epochs and steps_per_epoch, to at least 1");
  require(options.pct_start >= 0 && options.pct_start <= 1,
          fmt::format("OneCycleLR's pct_start is {}; it must be between 0 and 1", options.pct_start));
  require_per_group("OneCycleLR's max_lr", options.max_lr, groups);
  require_per_group("OneCycleLR's base_momentum", options.base_momentum, groups);
  require_per_group("OneCycleLR's max_momentum", options.max_momentum, groups);
  double start = 0;
  for (const Phase& phase : phases_of(options)) {
    require(
        phase.end_step != start || steps_of(options) == 1,
        fmt::format("OneCycleLR's pct_start is {} of {} steps, which leaves one of its phases without a step",
                    options.pct_start, steps_of(options)));
    start = phase.end_step;
  }
}
void check(const ReduceLROnPlateau& options, std::size_t groups) {
  require(options.factor < 1,
          fmt::format("ReduceLROnPlateau's factor is {}; it must be below 1", options.factor));
  require_per_group("ReduceLROnPlateau's min_lr", options.min_lr, groups);
}
template <class... Refused>
void check_children(const char* who, const std::vector<LRSchedule>& schedules) {
  require(!schedules.empty(), fmt::format("{} has no schedulers", who));
  for (const LRSchedule& each : schedules)
    require(
        !(std::holds_alternative<Refused>(each) || ...),
        fmt::format("{} cannot contain ReduceLROnPlateau{}", who,
                    sizeof...(Refused) == 3 ? ", ChainedScheduler or SequentialLR" : " or ChainedScheduler"));
}
void check(const ChainedScheduler& options, std::size_t /*groups*/) {
  check_children<ReduceLROnPlateau, ChainedScheduler>("ChainedScheduler", options.schedulers);
}
void check(const SequentialLR& options, std::size_t /*groups*/) {
  check_children<ReduceLROnPlateau, ChainedScheduler, SequentialLR>("SequentialLR", options.schedulers);
  require(
      options.milestones.size() + 1 == options.schedulers.size(),
      fmt::format(
          "SequentialLR has {} schedulers and {} milestones; there must be one milestone fewer than schedulers",
          options.schedulers.size(), options.milestones.size()));
  require(std::ranges::is_sorted(options.milestones), "SequentialLR's milestones are not in ascending order");
}

const std::vector<LRSchedule>& children_of(const LRSchedule& schedule) {
  static const std::vector<LRSchedule> none;
  if (const auto* const chained = std::get_if<ChainedScheduler>(&schedule)) return chained->schedulers;
  if (const auto* const sequential = std::get_if<SequentialLR>(&schedule)) return sequential->schedulers;
  return none;
}

}  // namespace

RunningSchedule::RunningSchedule(const LRSchedule& schedule, std::vector<ScheduledGroup>& groups)
    : schedule_(schedule) {
  std::visit([&](const auto& options) { check(options, groups.size()); }, schedule_);
  for (const LRSchedule& child : children_of(schedule_)) children_.emplace_back(child, groups);
  if (const auto* const plateau = std::get_if<ReduceLROnPlateau>(&schedule_)) {
    last_epoch_ = 0;
    const double infinity = std::numeric_limits<double>::infinity();
    best_ = plateau->mode == ReduceLROnPlateau::Mode::kMin ? infinity : -infinity;
  } else if (std::holds_alternative<SequentialLR>(schedule_)) {
    begin_sequence(groups);
  } else if (children_.empty()) {
    if (const auto* const one_cycle = std::get_if<OneCycleLR>(&schedule_))
      begin_one_cycle(*one_cycle, groups);
    for (const ScheduledGroup& group : groups) base_lrs_.push_back(group.initial_lr);
    if (const auto* const restarts = std::get_if<CosineAnnealingWarmRestarts>(&schedule_))
      t_i_ = restarts->T_0;
    advance(groups, /*initial=*/true);
  }
}

// The constructor of each child has made the child's first step. This function undoes these steps. Then it
// repeats only the step of the first child.
void RunningSchedule::begin_sequence(std::vector<ScheduledGroup>& groups) {
  for (ScheduledGroup& group : groups) group.lr = group.initial_lr;
  for (RunningSchedule& child : children_) --child.last_epoch_;
  last_epoch_ = 0;
  children_.front().advance(groups, /*initial=*/true);
}

void RunningSchedule::begin_one_cycle(const OneCycleLR& options, std::vector<ScheduledGroup>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    ScheduledGroup& group = groups[i];
    group.max_lr = of_group(options.max_lr, i);
    group.initial_lr = group.max_lr / options.div_factor;
    group.min_lr = group.initial_lr / options.final_div_factor;
    if (!options.cycle_momentum) continue;
    require(group.momentum.has_value(),
            "OneCycleLR: the optimizer has neither momentum nor betas; set cycle_momentum to false");
    group.max_momentum = of_group(options.max_momentum, i);
    group.base_momentum = of_group(options.base_momentum, i);
    group.momentum = group.max_momentum;
  }
}

// Makes one step of a schedule that does not consist of other schedules.
void RunningSchedule::advance(std::vector<ScheduledGroup>& groups, bool initial) {
  if (const auto* const restarts = std::get_if<CosineAnnealingWarmRestarts>(&schedule_)) {
    if (last_epoch_ < 0) {
      t_cur_ = 0;
    } else if (++t_cur_ >= t_i_) {
      t_cur_ %= t_i_;
      t_i_ *= restarts->T_mult;
    }
  }
  ++last_epoch_;
  set_rates(groups, initial);
}

// Starts this schedule when a SequentialLR reaches it.
void RunningSchedule::restart(std::vector<ScheduledGroup>& groups) {
  last_epoch_ = 0;
  std::visit(
      [&](const auto& options) {
        if constexpr (requires { start_lr(options, 0.0); })
          for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr = start_lr(options, base_lrs_[i]);
        else
          set_rates(groups, /*initial=*/false);
      },
      schedule_);
}

void RunningSchedule::set_rates(std::vector<ScheduledGroup>& groups, bool initial) {
  std::visit(
      [&](const auto& options) {
        for (std::size_t i = 0; i < groups.size(); ++i) {
          const Place at{last_epoch_, initial, groups[i].lr, base_lrs_[i], i, t_cur_, t_i_};
          if constexpr (std::is_same_v<decltype(options), const OneCycleLR&>)
            set_one_cycle(options, last_epoch_, groups[i]);
          else if constexpr (requires { next_lr(options, at); })
            groups[i].lr = next_lr(options, at);
        }
      },
      schedule_);
}

void RunningSchedule::step(std::vector<ScheduledGroup>& groups) {
  if (const auto* const sequential = std::get_if<SequentialLR>(&schedule_)) {
    ++last_epoch_;
    const auto& milestones = sequential->milestones;
    const auto next = std::ranges::upper_bound(milestones, last_epoch_);
    RunningSchedule& child = children_[static_cast<std::size_t>(next - milestones.begin())];
    if (next != milestones.begin() && *(next - 1) == last_epoch_)
      child.restart(groups);
    else
      child.advance(groups, /*initial=*/false);
  } else if (children_.empty()) {
    advance(groups, /*initial=*/false);
  } else {
    for (RunningSchedule& child : children_) child.step(groups);
  }
}

bool RunningSchedule::is_better(const ReduceLROnPlateau& options, double metric) const {
  const bool relative = options.threshold_mode == ReduceLROnPlateau::ThresholdMode::kRel;
  if (options.mode == ReduceLROnPlateau::Mode::kMin)
    return metric < (relative ? best_ * (1.0 - options.threshold) : best_ - options.threshold);
  return metric > (relative ? best_ * (options.threshold + 1.0) : best_ + options.threshold);
}

void RunningSchedule::step(std::vector<ScheduledGroup>& groups, double metric) {
  const auto& options = std::get<ReduceLROnPlateau>(schedule_);
  ++last_epoch_;
  if (is_better(options, metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= options.patience) return;
  cooldown_counter_ = options.cooldown;
  num_bad_epochs_ = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double reduced = std::max(groups[i].lr * options.factor, of_group(options.min_lr, i));
    if (groups[i].lr - reduced > options.eps) groups[i].lr = reduced;
  }
}

bool RunningSchedule::is_plateau() const {
  return std::holds_alternative<ReduceLROnPlateau>(schedule_);
}

bool RunningSchedule::cycles_momentum() const {
  const auto* const one_cycle = std::get_if<OneCycleLR>(&schedule_);
  return (one_cycle != nullptr && one_cycle->cycle_momentum) ||
         std::ranges::any_of(children_, &RunningSchedule::cycles_momentum);
}

std::int64_t RunningSchedule::last_epoch() const {
  return std::holds_alternative<ChainedScheduler>(schedule_) ? children_.front().last_epoch() : last_epoch_;
}

std::string RunningSchedule::kind() const {
  constexpr std::string_view kNames[] = {"LambdaLR",
                                         "StepLR",
                                         "MultiStepLR",
                                         "ConstantLR",
                                         "LinearLR",
                                         "ExponentialLR",
                                         "PolynomialLR",
                                         "CosineAnnealingLR",
                                         "CosineAnnealingWarmRestarts",
                                         "OneCycleLR",
                                         "ReduceLROnPlateau",
                                         "ChainedScheduler",
                                         "SequentialLR"};
  std::string name(kNames[schedule_.index()]);
  for (const RunningSchedule& child : children_)
    name += (&child == &children_.front() ? "(" : ", ") + child.kind();
  return children_.empty() ? name : name + ")";
}

void RunningSchedule::write(std::vector<double>& numbers) const {
  for (const std::int64_t count : {last_epoch_, t_cur_, t_i_, cooldown_counter_, num_bad_epochs_})
    numbers.push_back(number(count));
  numbers.push_back(best_);
  numbers.insert(numbers.end(), base_lrs_.begin(), base_lrs_.end());
  for (const RunningSchedule& child : children_) child.write(numbers);
}

void RunningSchedule::read(const std::vector<double>& numbers, std::size_t& next) {
  for (std::int64_t* const count : {&last_epoch_, &t_cur_, &t_i_, &cooldown_counter_, &num_bad_epochs_})
    *count = static_cast<std::int64_t>(numbers.at(next++));
  best_ = numbers.at(next++);
  for (double& each : base_lrs_) each = numbers.at(next++);
  for (RunningSchedule& child : children_) child.read(numbers, next);
}

}  // namespace muster
