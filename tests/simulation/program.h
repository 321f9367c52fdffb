// A simulated launcher or agent process: its one thread, and its view of time.
//
// Events take effect while it runs: while it is stopped (SIGSTOP) they wait, and once it is dead they are
// dropped. It has its machine's clock, which neither begins at zero nor runs like other clocks. Held by
// shared pointers; scheduled calls hold weak ones.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/net/time.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/timeline.h"

namespace muster::simulation {

// One machine's monotonic clock.
class MachineClock {
 public:
  MachineClock(const Timeline& timeline, Duration offset, double drift)
      : timeline_(timeline), local_(timeline.now() + offset), since_(timeline.now()), drift_(drift) {}
  TimePoint now() const { return local_at(timeline_.now()); }
  TimePoint local_at(TimePoint time) const;
  // The simulation's time at which the clock will show `local`.
  TimePoint time_when(TimePoint local) const;
  // From now on the clock gains this many seconds per second.
  void set_drift(double drift);

 private:
  const Timeline& timeline_;
  TimePoint local_;  // the clock's time at `since_`
  TimePoint since_;
  double drift_;
};

class Program : public net::Time, public std::enable_shared_from_this<Program> {
 public:
  Program(Timeline& timeline, const MachineClock& clock, std::uint64_t seed)
      : timeline_(timeline), clock_(clock), chance_(seed, 11) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  TimePoint now() const override { return clock_.now(); }
  std::unique_ptr<net::Alarm> make_alarm(std::function<void()> ring) override;

  // Runs this in its thread: now, or when the program goes on.
  void run(Timeline::What what) { enter(std::move(what), inputs_); }
  // The same after a delay.
  void run_after(Duration delay, Timeline::What what);
  // Called after each action of the program.
  void set_observer(std::function<void()> observer) { observer_ = std::move(observer); }

  void stop() { stopped_ = true; }
  void resume();
  void die();
  bool alive() const { return !dead_; }
  bool runs() const { return !dead_ && !stopped_; }

 private:
  class AlarmClock;
  using Waiting = std::deque<Timeline::What>;

  void enter(Timeline::What what, Waiting& waiting);
  void work();

  Timeline& timeline_;
  const MachineClock& clock_;
  Chance chance_;
  std::function<void()> observer_;
  bool stopped_ = false;
  bool dead_ = false;
  bool works_ = false;
  bool rings_first_ = false;
  Waiting inputs_;
  Waiting rings_;  // of alarms that ring
};

}  // namespace muster::simulation
