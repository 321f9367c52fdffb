// A training from its first launch to its last, on virtual time, with all its faults.
//
// The script and one seed determine everything: delays, the workers' behaviour, faults. Checks the guarantees
// that need a view of the whole: the job makes progress when faults stop, and nothing lives when it has
// ended. One thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/launch.h"

namespace muster::simulation {

struct Outcome {
  std::vector<Finding> findings;
  std::array<int, kFaultKindCount> faults{};  // faults that happened
  Duration length{};                          // virtual
  std::uint64_t event_count = 0;
  int fault_count() const;
};

class Cluster {
 public:
  Cluster(Script script, std::uint64_t seed, std::function<void(const std::string&)> trace = {});
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  // Runs until the training has ended. A training that never ends is a finding.
  Outcome run();

  // For single tests: does this to the launch that runs at this time after the beginning.
  void at(Duration time, std::function<void(Launch&)> what);
  const Launch& first() const { return *launches_.front(); }
  const World& world() const { return world_; }
  InputRead input_of(const Launch& launch) const;

 private:
  Launch& current() { return *launches_.back(); }
  void launch(bool take_over);
  void changed();
  void look();  // once a second
  void make_due_faults();
  bool make(const Fault& fault);
  bool end_launch(const Fault& fault);
  bool all_faults_made() const { return next_fault_ >= world_.script.faults.size(); }
  void launcher_gone(Launch& launch);
  bool over();
  Duration progress_limit() const;

  World world_;
  MachineClock launchers_clock_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::size_t next_fault_ = 0;
  TimePoint fault_due_;
  TimePoint next_poll_{};
  std::optional<TimePoint> phase_met_;  // when the job entered the phase of the next fault
  bool relaunching_ = false;
  bool stuck_told_ = false;
  TimePoint next_dump_{};
  TimePoint next_growth_;
  Chance trouble_;  // for faults
};

}  // namespace muster::simulation
