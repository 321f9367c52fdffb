#include "tests/simulation/program.h"

#include <utility>

namespace muster::simulation {

TimePoint MachineClock::local_at(TimePoint time) const {
  const Duration passed = time - since_;
  return local_ + passed + Duration(static_cast<Duration::rep>(static_cast<double>(passed.count()) * drift_));
}

TimePoint MachineClock::time_when(TimePoint local) const {
  const Duration ahead = local - local_;
  const auto real = static_cast<Duration::rep>(static_cast<double>(ahead.count()) / (1.0 + drift_));
  TimePoint time = since_ + Duration(real);
  while (local_at(time) < local) time += Duration(1);  // corrects rounding
  return time;
}

void MachineClock::set_drift(double drift) {
  local_ = now();
  since_ = timeline_.now();
  drift_ = drift;
}

// Most alarms are set again long before they ring, to a later time. So the event scheduled for the earlier
// time only looks again.
class Program::AlarmClock final : public net::Alarm {
 public:
  AlarmClock(std::weak_ptr<Program> program, std::function<void()> ring)
      : state_(std::make_shared<State>(std::move(program), std::move(ring))) {}
  AlarmClock(const AlarmClock&) = delete;
  AlarmClock& operator=(const AlarmClock&) = delete;
  ~AlarmClock() override { state_->due.reset(); }
  void set(std::optional<TimePoint> when) override {
    state_->due = when;
    if (when) look_at(state_, *when);
  }

 private:
  struct State {
    State(std::weak_ptr<Program> owner, std::function<void()> what)
        : program(std::move(owner)), ring(std::move(what)) {}
    std::weak_ptr<Program> program;
    std::function<void()> ring;
    std::optional<TimePoint> due;        // by the machine's clock
    std::optional<TimePoint> scheduled;  // the earliest scheduled event
  };

  static void look_at(const std::shared_ptr<State>& state, TimePoint local) {
    const auto program = state->program.lock();
    if (!program || !program->alive()) return;
    const TimePoint time = std::max(program->clock_.time_when(local), program->timeline_.now());
    if (state->scheduled && *state->scheduled <= time) return;
    state->scheduled = time;
    program->timeline_.at(time, [weak = std::weak_ptr(state), time] {
      const auto found = weak.lock();
      if (!found || found->scheduled != time) return;
      found->scheduled.reset();
      if (!found->due) return;
      const auto owner = found->program.lock();
      if (!owner || !owner->alive()) return;
      if (*found->due > owner->now()) return look_at(found, *found->due);
      owner->enter([weak] { ring(weak); }, owner->rings_);
    });
  }

  // The alarm may have been set again while the program was stopped.
  static void ring(const std::weak_ptr<State>& weak) {
    const auto state = weak.lock();
    if (!state || !state->due) return;
    const auto program = state->program.lock();
    if (*state->due > program->now()) return look_at(state, *state->due);
    state->due.reset();
    state->ring();
  }

  std::shared_ptr<State> state_;
};

std::unique_ptr<net::Alarm> Program::make_alarm(std::function<void()> ring) {
  return std::make_unique<AlarmClock>(weak_from_this(), std::move(ring));
}

void Program::run_after(Duration delay, Timeline::What what) {
  timeline_.after(delay, [weak = weak_from_this(), what = std::move(what)]() mutable {
    if (const auto self = weak.lock()) self->run(std::move(what));
  });
}

void Program::enter(Timeline::What what, Waiting& waiting) {
  if (dead_) return;
  waiting.push_back(std::move(what));
  work();
}

// Events caused meanwhile run after it, as in an event loop.
void Program::work() {
  if (std::exchange(works_, true)) return;
  const auto self = shared_from_this();
  while (runs() && !(inputs_.empty() && rings_.empty())) {
    const bool ring = inputs_.empty() || (rings_first_ && !rings_.empty());
    Waiting& waiting = ring ? rings_ : inputs_;
    Timeline::What next = std::move(waiting.front());
    waiting.pop_front();
    next();
    if (observer_ && !dead_) observer_();
  }
  works_ = false;
}

// After a pause, chance decides whether timers or received bytes come first.
void Program::resume() {
  if (dead_ || !std::exchange(stopped_, false)) return;
  rings_first_ = chance_.one_in(2);
  work();
  rings_first_ = false;
}

void Program::die() {
  dead_ = true;
  inputs_.clear();
  rings_.clear();
  observer_ = nullptr;
}

}  // namespace muster::simulation
