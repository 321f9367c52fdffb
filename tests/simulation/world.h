// Shared by all parts of one simulation: time, chance, the machines, the checkpoint directory, and the truth
// about faults.
//
// Plain members, for this folder only; one object for each seed. One thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/directory.h"
#include "tests/simulation/ground_truth.h"
#include "tests/simulation/machine.h"

namespace muster::simulation {

class AgentHost;
class Training;

// The time limits of guarantees; the same for each job.
struct Limits {
  static constexpr Duration kGrace = std::chrono::seconds(3);
  static constexpr Duration kSilence = std::chrono::seconds(2);
  static constexpr Duration kPreemptionGrace = std::chrono::seconds(2);
  static constexpr Duration kControllerGrace = std::chrono::seconds(4);
};

// How much of a launch's input ranks have read.
struct InputRead {
  std::uint64_t read_count = 0;  // records
  bool end_read = false;
};

struct World {
  World(Script what, std::uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  Duration age() const { return timeline.now() - began; }
  void say(const std::string& line) const {
    if (trace) trace(line);
  }
  // A fault that keeps the job from making progress has happened, or lasts until `until`.
  void disturbed(TimePoint until) { disturbed_until = std::max(disturbed_until, until); }
  void came_true(FaultKind kind) { ++faults[static_cast<std::size_t>(kind)]; }
  // Whether datagrams that ranks have sent since then were lost.
  bool any_datagram_lost_since(TimePoint time) const;
  void progressed() { progressed_at = timeline.now(); }

  Script script;
  std::uint64_t seed;
  Timeline timeline;
  Chance chance;
  Chance other_chance;  // for options that only some scripts have, so that the draws of other scripts stay
                        // the same
  TimePoint began = timeline.now();
  std::function<void(const std::string&)> trace;
  Invariants invariants{[this] { return age(); }};
  Directory directory;
  std::vector<std::unique_ptr<Machine>> machines;                          // by node
  std::map<int, std::unique_ptr<GroundTruth>> truths;                      // by launch
  std::map<std::pair<int, Attempt>, std::shared_ptr<Training>> trainings;  // by launch, attempt
  std::map<Owner, std::weak_ptr<AgentHost>> hosts;
  std::array<int, kFaultKindCount> faults{};  // faults that happened
  std::map<NodeId, FaultKind> refusals;       // refusals that wait for the node's next attempt
  std::map<int, InputRead> input;             // by launch
  int growth_count = 0;                       // attempts that may end because hosts were added
  std::function<bool(int launch)> launcher_lives;
  bool may_end = false;  // the training has run for long enough
  // The largest error of clocks that pings correct: if two ends are further apart, the launcher sees their
  // order.
  Duration clock_error;
  TimePoint clocks_unsure_until =
      began;  // pings that were held up may be all that there is to correct them by
  TimePoint disturbed_until = began;
  TimePoint progressed_at = began;
  TimePoint steps_told_at = began;  // until then ranks report the step in which one hangs
};

}  // namespace muster::simulation
