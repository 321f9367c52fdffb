// What is remembered of each attempt, for the report: its size, its steps, who was slow, how it ended.
//
// Plain values, which the chronicle keeps (chronicle.h).
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
  std::int64_t since_step = 0;  // at which it was told
  Duration busy{};              // that the rank's own work of a step took then
  Duration usual{};             // that the others' own work of a step took then
  std::optional<std::int64_t> until_step{};
};

struct AttemptHistory {
  Attempt attempt;
  std::optional<std::int64_t> resumed_step;  // that rank 0 said it resumed from
  // Set when the attempt ends: the highest step that any rank reported, and its newest checkpoint's.
  std::optional<std::int64_t> last_step;
  std::optional<std::int64_t> committed_step;
  std::optional<std::int64_t> repeated_steps;
  std::optional<Verdict> verdict;  // empty while it runs
  std::int32_t world_size = 0;
  std::int32_t node_count = 0;
  std::vector<Slowness> stragglers{};
  std::map<Rank, RankSteps> profiles{};        // the newest that each rank told
  std::optional<std::int64_t> offered_step{};  // of the newest complete checkpoint when it began

  // What a journal keeps of it (journal/state.h): not the profiles, which are many and decide nothing.
  template <class Archive>
  void fields(Archive& archive) {
    archive(attempt, resumed_step, last_step, committed_step, repeated_steps, verdict, world_size, node_count,
            stragglers, offered_step);
  }
  // Whether these fields, which were read, can be its own.
  bool restored() const {
    return resumed_step.value_or(0) >= 0 && last_step.value_or(0) >= 0 && committed_step.value_or(0) >= 0 &&
           offered_step.value_or(0) >= 0;
  }
};

// The step that the next attempt can go on from, as far as the workers have told; nothing: none is known.
std::optional<std::int64_t> saved_step(std::span<const AttemptHistory> history);
// How many reported steps are in no checkpoint, so that the next launch has to repeat them; nothing if no
// steps were reported.
std::optional<std::int64_t> lost_steps(std::span<const AttemptHistory> history);
// "4 steps are lost"; empty where none are known.
std::string loss_text(std::span<const AttemptHistory> history);

}  // namespace muster::launcher
