#include <algorithm>
#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/train/lr_scheduler.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/train/running_schedule.h"

namespace muster {
namespace {

namespace optim = torch::optim;

// If the optimizer has a momentum or a beta1 in this group, calls use(value, set). `value` is the momentum or
// beta1, and `set(value)` changes it. If it has neither, does nothing.
template <class Use>
void with_momentum(optim::OptimizerOptions& options, const Use& use) {
  const auto momentum = [&](auto* of) {
    if (of != nullptr) use(of->momentum(), [of](double value) { of->momentum(value); });
  };
  const auto beta1 = [&](auto* of) {
    if (of != nullptr)
      use(std::get<0>(of->betas()), [of](double value) { of->betas({value, std::get<1>(of->betas())}); });
  };
  momentum(dynamic_cast<optim::SGDOptions*>(&options));
  momentum(dynamic_cast<optim::RMSpropOptions*>(&options));
  beta1(dynamic_cast<optim::AdamOptions*>(&options));
  beta1(dynamic_cast<optim::AdamWOptions*>(&options));
}

std::vector<ScheduledGroup> groups_of(optim::Optimizer& optimizer) {
  std::vector<ScheduledGroup> groups;
  for (optim::OptimizerParamGroup& from : optimizer.param_groups()) {
    ScheduledGroup& group = groups.emplace_back();
    group.lr = group.initial_lr = from.options().get_lr();
    with_momentum(from.options(), [&](double value, const auto&) { group.momentum = value; });
  }
  return groups;
}

}  // namespace

struct LRScheduler::State {
  State(optim::Optimizer& of, const LRSchedule& schedule)
      : optimizer(of), groups(groups_of(of)), running(schedule, groups) {
    write();
  }

  template <class Step>
  void step(const Step& make) {
    if (optimizer.param_groups().size() != groups.size())
      throw std::logic_error(
          fmt::format("the optimizer has {} groups of parameters now; its schedule was made for {}",
                      optimizer.param_groups().size(), groups.size()));
    // Reads the rates from the optimizer: the program, a checkpoint or another schedule can
    // have changed them.
    const std::vector<ScheduledGroup> now = groups_of(optimizer);
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].lr = now[i].lr;
    make();
    write();
  }
  void write() {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      optim::OptimizerOptions& options = optimizer.param_groups()[i].options();
      options.set_lr(groups[i].lr);
      if (running.cycles_momentum())
        with_momentum(options, [&](double, const auto& set) { set(*groups[i].momentum); });
    }
  }

  optim::Optimizer& optimizer;
  std::vector<ScheduledGroup> groups;
  RunningSchedule running;
};

LRScheduler::LRScheduler(optim::Optimizer& optimizer, const LRSchedule& schedule)
    : state_(std::make_unique<State>(optimizer, schedule)) {}
LRScheduler::LRScheduler(LRScheduler&&) noexcept = default;
LRScheduler::~LRScheduler() = default;

void LRScheduler::step() {
  if (state_->running.is_plateau())
    throw std::logic_error("ReduceLROnPlateau: call step(metric), not step()");
  state_->step([&] { state_->running.step(state_->groups); });
}
void LRScheduler::step(double metric) {
  if (!state_->running.is_plateau())
    throw std::logic_error(fmt::format("{}: call step(), not step(metric)", state_->running.kind()));
  state_->step([&] { state_->running.step(state_->groups, metric); });
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (const optim::OptimizerParamGroup& group : state_->optimizer.param_groups())
    rates.push_back(group.options().get_lr());
  return rates;
}
std::int64_t LRScheduler::last_epoch() const {
  return state_->running.last_epoch();
}

void LRScheduler::save(SavedState& to) const {
  std::vector<double> numbers;
  state_->running.write(numbers);
  to.value_of_first("kind", state_->running.kind());
  to.of_first("numbers", torch::tensor(numbers, at::kDouble));
}

void LRScheduler::load(LoadedState& from) {
  const std::string kind = from.value("kind");
  if (kind != state_->running.kind())
    throw std::invalid_argument(fmt::format("its schedule is {}, not {}", kind, state_->running.kind()));
  std::vector<double> here;
  state_->running.write(here);
  const at::Tensor saved = from.read("numbers");
  if (saved.scalar_type() != at::kDouble || saved.dim() != 1 || saved.size(0) != std::ssize(here))
    throw std::invalid_argument(
        fmt::format("its schedule has {} numbers, not {}", saved.numel(), here.size()));
  const auto* const first = static_cast<const double*>(saved.const_data_ptr());
  std::size_t next = 0;
  state_->running.read({first, first + saved.numel()}, next);
}

}  // namespace muster
