// One trial: a job of the chaos training, one or two faults, and whether what Muster promises held.
//
// Most trials run the plain worker, some the one with LibTorch. The seed alone determines a trial, except for
// the machine's timing. Blocking; one at a time in a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster::chaos {

struct TrialPlan {
  std::uint64_t seed = 0;
  std::size_t fault = 0;                // index in fault_kinds()
  std::optional<std::size_t> second{};  // while the job recovers from the first
  int nodes = 1;
  int workers_per_node = 2;
  int victim = 0;
  int second_victim = 0;
  std::uint64_t step = 1;
  std::string where;  // step, save, start
  std::string second_where;
  bool restarts = true;
  bool tcp = false;
  enum class Size {
    kFixed,
    kSpare,
    kElastic
  } size = Size::kFixed;  // how the job goes on after the loss of a node
  bool torch = false;     // the worker with LibTorch

  int world_size() const { return nodes * workers_per_node; }
  std::string text() const;
  std::string why_not() const;  // why the fault cannot happen on this machine or in this build; or empty
};

TrialPlan make_plan(std::uint64_t seed, std::size_t fault);

struct TrialResult {
  std::vector<std::string> violations;
  std::optional<bool> culprit_right;  // for a single fault with a culprit
  std::optional<Duration> detection;  // until another rank got TERM
  std::optional<Duration> recovery;   // until all ranks of the next attempt had resumed
  int leftover_count = 0;
  bool false_success = false;
};

TrialResult run_trial(const TrialPlan& plan);

}  // namespace muster::chaos
