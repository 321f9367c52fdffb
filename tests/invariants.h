// The guarantees that every level of tests checks: the cluster in one process on virtual time, and real
// processes.
//
// Each function is given what was observed and what really happened, and fails the running test when a
// guarantee of docs/architecture.md is broken. Numbers are those of the table there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

namespace muster::invariants {

// Who ended an attempt: a rank, or a node whose agent is gone.
struct Culprit {
  std::optional<int> rank;
  std::optional<int> node;
  bool operator==(const Culprit&) const = default;
};

inline std::string text_of(const Culprit& culprit) {
  return "rank " + (culprit.rank ? std::to_string(*culprit.rank) : "none") + ", node " +
         (culprit.node ? std::to_string(*culprit.node) : "none");
}

// G1: when the job has ended, nothing of it lives.
inline void nothing_is_left(int living_process_count) {
  EXPECT_EQ(living_process_count, 0) << "G1: processes are left";
}

// G2: no worker of an attempt is started on a node while a process of an earlier one lives there.
inline void attempts_do_not_overlap(int node, int earlier_process_count) {
  EXPECT_EQ(earlier_process_count, 0) << "G2: node " << node << " still has processes of an earlier attempt";
}

// G3: a file of a committed checkpoint is what was written.
inline void is_as_committed(const std::string& file, const std::string& digest,
                            const std::string& committed) {
  EXPECT_EQ(digest, committed) << "G3: " << file;
}

// G4: what was reported committed is where the next attempt goes on, or behind it.
inline void loses_no_commit(std::uint64_t committed_step, std::uint64_t resumed_step) {
  EXPECT_GE(resumed_step, committed_step) << "G4: a committed step was not resumed from";
}

// G4: a step of the committed history uses its samples, each once, over all ranks.
inline void same_samples(std::uint64_t step, std::vector<std::uint64_t> used,
                         std::vector<std::uint64_t> right) {
  std::ranges::sort(used);
  std::ranges::sort(right);
  EXPECT_EQ(used, right) << "G4: samples of step " << step;
}

// G5: whatever happened, the end is that of a run to which nothing happened.
inline void ends_as_undisturbed(const std::string& hash, const std::string& undisturbed) {
  EXPECT_EQ(hash, undisturbed) << "G5: the job ended with another state than an undisturbed one";
}

// G2: the ranks of an attempt are 0 to N-1, each of one node, and N is what was asked for.
inline void ranks_are_whole(const std::vector<int>& first_ranks, int workers_per_node, int min_nodes,
                            int max_nodes) {
  for (std::size_t i = 0; i < first_ranks.size(); ++i)
    EXPECT_EQ(first_ranks[i], static_cast<int>(i) * workers_per_node)
        << "G2: ranks are missing or given twice";
  EXPECT_GE(static_cast<int>(first_ranks.size()), min_nodes) << "fewer nodes than allowed";
  EXPECT_LE(static_cast<int>(first_ranks.size()), max_nodes) << "more nodes than asked for";
}

// G6: the failure that came first is blamed, never a victim.
inline void blames(const Culprit& observed, const Culprit& first) {
  EXPECT_EQ(observed, first) << "G6: blamed " << text_of(observed) << ", but first was " << text_of(first);
}

// G6 where it cannot be known which of several faults came first.
inline void blames_one_of(const Culprit& observed, const std::vector<Culprit>& possible) {
  if (possible.size() == 1) return blames(observed, possible.front());
  EXPECT_TRUE(std::ranges::find(possible, observed) != possible.end()) << "G6: blamed " << text_of(observed);
}

// G7: the job ends, or goes on, within `limit` of the last fault.
inline void makes_progress(bool ended, std::chrono::nanoseconds since_last_fault,
                           std::chrono::nanoseconds limit) {
  EXPECT_TRUE(ended) << "G7: the job neither ends nor goes on";
  EXPECT_LE(since_last_fault.count(), limit.count()) << "G7: the job took too long to go on";
}

// G3: a job is preempted only if what it did is saved.
inline void preemption_is_saved(int exit_code, int commit_count) {
  if (exit_code == 75) EXPECT_GT(commit_count, 0) << "G3: 75 was reported, and nothing was saved";
}

// G8: success is reported only if every rank of the last attempt exited 0.
inline void success_is_earned(int exit_code, int world_size, int succeeded_count) {
  if (exit_code == 0) {
    EXPECT_EQ(succeeded_count, world_size) << "G8: success was reported, but not earned";
  }
}

}  // namespace muster::invariants
