// Learning rates that change during a training: PyTorch's schedules, with their names, options and values,
// bit for bit.
//
//   muster::LRScheduler scheduler(optimizer, muster::SequentialLR{
//       .schedulers = {muster::LinearLR{.start_factor = 0.1, .total_iters = 500},
//                      muster::CosineAnnealingLR{.T_max = 9500}},
//       .milestones = {500}});
//   state.add("scheduler", scheduler);  // before restore()
//   for (...) { ...; optimizer.step(); scheduler.step(); }
//
// The constructor sets the rates of the first step, as in Python. Use one LRScheduler per optimizer; combine
// several schedules in a ChainedScheduler. The optimizer must outlive the LRScheduler. Only the training
// thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace muster {

class LoadedState;
class SavedState;
struct LRSchedule;

// In the schedules below, a vector of numbers or functions has one element for all groups of the optimizer,
// or one element for each group.

// Multiplies the optimizer's initial rate by `lr_lambda(number of steps)`.
struct LambdaLR {
  std::vector<std::function<double(std::int64_t)>> lr_lambda;
};
struct StepLR {
  std::int64_t step_size = 0;
  double gamma = 0.1;
};
struct MultiStepLR {
  std::vector<std::int64_t> milestones{};
  double gamma = 0.1;
};
struct ConstantLR {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
};
struct LinearLR {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  std::int64_t total_iters = 5;
};
struct ExponentialLR {
  double gamma = 0;
};
struct PolynomialLR {
  std::int64_t total_iters = 5;
  double power = 1.0;
};
struct CosineAnnealingLR {
  std::int64_t T_max = 0;
  double eta_min = 0;
};
struct CosineAnnealingWarmRestarts {
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0;
};
// Changes the learning rate. If cycle_momentum is true, it also changes the momentum (of SGD and RMSprop) or
// beta1 (of Adam).
struct OneCycleLR {
  enum class Anneal { kCos, kLinear };
  std::vector<double> max_lr{};
  std::int64_t total_steps = 0;  // 0: epochs x steps_per_epoch
  std::int64_t epochs = 0;
  std::int64_t steps_per_epoch = 0;
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::kCos;
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.85};
  std::vector<double> max_momentum = {0.95};
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};
// The program calls step(metric) for this schedule. All ranks must pass the same metric, such as the result
// of a muster metric's compute().
struct ReduceLROnPlateau {
  enum class Mode { kMin, kMax };
  enum class ThresholdMode { kRel, kAbs };
  Mode mode = Mode::kMin;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  std::int64_t cooldown = 0;
  std::vector<double> min_lr = {0};
  double eps = 1e-8;
};
// Applies all schedules in each step, in order. Takes all kinds but ReduceLROnPlateau and ChainedScheduler.
struct ChainedScheduler {
  std::vector<LRSchedule> schedulers;
};
// Applies one schedule after the other; at each milestone the next schedule begins. Takes all kinds but
// ReduceLROnPlateau, ChainedScheduler and SequentialLR.
struct SequentialLR {
  std::vector<LRSchedule> schedulers;
  std::vector<std::int64_t> milestones{};
};

// Any schedule.
struct LRSchedule : std::variant<LambdaLR, StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR,
                                 PolynomialLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR,
                                 ReduceLROnPlateau, ChainedScheduler, SequentialLR> {
  using variant::variant;
};

class LRScheduler {
 public:
  // Throws std::invalid_argument, which names the option that is wrong.
  LRScheduler(torch::optim::Optimizer& optimizer, const LRSchedule& schedule);
  LRScheduler(LRScheduler&&) noexcept;
  ~LRScheduler();

  // Call it after optimizer.step(), or after an epoch, as the schedule requires. Throws std::logic_error for
  // ReduceLROnPlateau, after the last step of a OneCycleLR, and if groups were added to the optimizer.
  void step();
  // Call it for ReduceLROnPlateau. For any other schedule, it throws std::logic_error.
  void step(double metric);

  std::vector<double> get_last_lr() const;  // for each group
  std::int64_t last_epoch() const;          // steps since construction; for a chain, the first schedule's

  // TrainState calls these. They save the progress and the initial rates. They do not save the options,
  // because the program gives them.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
