// The history of one attempt, for the report. It has the attempt's size, steps, stragglers and end.
//
// Plain values, kept by the chronicle (chronicle.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/step_shares.h"
#include "common/wire/messages.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

// A rank that was slower than the others.
struct Slowness {
  Rank rank;
  NodeId node;
  std::int64_t since_step = 0;  // when it was noticed
  Duration busy{};              // time of the rank's own work in that step
  Duration usual{};             // time of the other ranks' own work
  std::optional<std::int64_t> until_step{};
};

// A stall that the user was told about.
struct ToldStall {
  std::string what;  // "rank 1 (node0) has made no step after step 57 for 130 s"
  TimePoint since;
  std::optional<TimePoint> until{};  // when a rank moved on
};

struct AttemptHistory {
  Attempt attempt;
  std::optional<std::int64_t> resumed_step;  // reported by rank 0
  // These two are set when the attempt ends. last_step is the highest step that a rank has reported.
  // committed_step is the step of the newest checkpoint.
  std::optional<std::int64_t> last_step;
  std::optional<std::int64_t> committed_step;
  std::optional<std::int64_t> repeated_steps;
  std::optional<Verdict> verdict;  // empty while it runs
  std::int32_t world_size = 0;
  std::int32_t node_count = 0;
  std::vector<Slowness> stragglers{};
  std::vector<ToldStall> stalls{};             // the newest 100
  std::map<Rank, RankSteps> profiles{};        // the newest of each rank
  std::optional<std::int64_t> offered_step{};  // newest complete checkpoint when the attempt began

  // For the journal (journal/state.h). The profiles are left out, because they are big and decide nothing.
  template <class Archive>
  void fields(Archive& archive) {
    archive(attempt, resumed_step, last_step, committed_step, repeated_steps, verdict, world_size, node_count,
            stragglers, stalls, offered_step);
  }
  // Returns whether the fields that were read are consistent.
  bool restored() const {
    return resumed_step.value_or(0) >= 0 && last_step.value_or(0) >= 0 && committed_step.value_or(0) >= 0 &&
           offered_step.value_or(0) >= 0;
  }
};

// Returns the step from which the next attempt can resume, according to the reports of the workers. Returns
// nullopt if it is not known.
std::optional<std::int64_t> saved_step(std::span<const AttemptHistory> history);
// Returns how many reported steps the next launch must repeat, because no checkpoint has them. Returns
// nullopt if no steps were reported.
std::optional<std::int64_t> lost_steps(std::span<const AttemptHistory> history);
// Returns a text such as "rank 1 (node0) has made no step after step 57 for 130 s; it went on after 140 s".
std::string text_of(const ToldStall& stall);
// Returns a text such as "4 steps are lost". Returns an empty text if no steps are known.
std::string loss_text(std::span<const AttemptHistory> history);

}  // namespace muster::launcher
