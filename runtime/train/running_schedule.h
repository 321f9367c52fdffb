// Computes the rates of an optimizer's groups after each step. It makes the same arithmetic operations as
// torch/optim/lr_scheduler.py. This matters because each rate is computed from the previous one, so different
// rounding errors would add up.
//
// This class works only on numbers. LRScheduler copies them from an optimizer and back to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <muster/train/lr_scheduler.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// The values of a group that Python keeps in the optimizer's param_groups.
struct ScheduledGroup {
  double lr = 0;
  std::optional<double> momentum;  // or beta1
  double initial_lr = 0;
  double max_lr = 0;  // only for OneCycleLR, like the following
  double min_lr = 0;
  double max_momentum = 0;
  double base_momentum = 0;
};

class RunningSchedule {
 public:
  // Sets the rates of the first step. If an option is wrong, throws std::invalid_argument, which names the
  // option.
  RunningSchedule(const LRSchedule& schedule, std::vector<ScheduledGroup>& groups);

  void step(std::vector<ScheduledGroup>& groups);
  void step(std::vector<ScheduledGroup>& groups, double metric);

  bool is_plateau() const;
  bool cycles_momentum() const;
  std::int64_t last_epoch() const;
  std::string kind() const;  // "SequentialLR(LinearLR, CosineAnnealingLR)"

  // write() appends the state of the schedule to `numbers`. read() takes the same numbers out of `numbers`.
  // It begins at the index `next`, and sets `next` to the index behind them.
  void write(std::vector<double>& numbers) const;
  void read(const std::vector<double>& numbers, std::size_t& next);

 private:
  void begin_sequence(std::vector<ScheduledGroup>& groups);
  void begin_one_cycle(const OneCycleLR& options, std::vector<ScheduledGroup>& groups);
  void advance(std::vector<ScheduledGroup>& groups, bool initial);
  void restart(std::vector<ScheduledGroup>& groups);
  void set_rates(std::vector<ScheduledGroup>& groups, bool initial);
  bool is_better(const ReduceLROnPlateau& options, double metric) const;

  LRSchedule schedule_;
  std::int64_t last_epoch_ = -1;
  std::vector<double> base_lrs_;
  std::int64_t t_cur_ = -1;  // T_cur and T_i of warm restarts
  std::int64_t t_i_ = 0;
  double best_ = 0;  // only for ReduceLROnPlateau, like the next two
  std::int64_t cooldown_counter_ = 0;
  std::int64_t num_bad_epochs_ = 0;
  std::vector<RunningSchedule> children_;
};

}  // namespace muster
