// The guarantees that tests on every level check: the cluster in one process on virtual time, and real
// processes.
//
// Each function compares an observation with the truth, and fails the running test if a guarantee of
// docs/architecture.md is broken. The numbers are those of the table there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

namespace muster::invariants {

// The rank that ended an attempt, or the node whose agent is gone.
struct Culprit {
  std::optional<int> rank;
  std::optional<int> node;
  bool operator==(const Culprit&) const = default;
};

inline std::string text_of(const Culprit& culprit) {
  return "rank " + (culprit.rank ? std::to_string(*culprit.rank) : "none") + ", node " +
         (culprit.node ? std::to_string(*culprit.node) : "none");
}

// G1: a job that has ended leaves no process behind.
inline void nothing_is_left(int living_process_count) {
  EXPECT_EQ(living_process_count, 0) << "G1: processes are left";
}

// G2: no worker of an attempt starts on a node while a process of an earlier attempt lives there.
inline void attempts_do_not_overlap(int node, int earlier_process_count) {
  EXPECT_EQ(earlier_process_count, 0) << "G2: node " << node << " still has processes of an earlier attempt";
}

// G3: the files of a committed checkpoint do not change.
inline void is_as_committed(const std::string& file, const std::string& digest,
                            const std::string& committed) {
  EXPECT_EQ(digest, committed) << "G3: " << file;
}

// G4: the next attempt resumes at a reported commit or later.
inline void loses_no_commit(std::uint64_t committed_step, std::uint64_t resumed_step) {
  EXPECT_GE(resumed_step, committed_step) << "G4: the next attempt did not resume from a committed step";
}

// G4: a step of the committed history uses each of its samples once, over all ranks.
inline void same_samples(std::uint64_t step, std::vector<std::uint64_t> used,
                         std::vector<std::uint64_t> right) {
  std::ranges::sort(used);
  std::ranges::sort(right);
  EXPECT_EQ(used, right) << "G4: samples of step " << step;
}

// G5: the final state equals that of an undisturbed run.
inline void ends_as_undisturbed(const std::string& hash, const std::string& undisturbed) {
  EXPECT_EQ(hash, undisturbed) << "G5: the final state differs from that of an undisturbed job";
}

// G2: the ranks of an attempt are 0 to N-1, each on one node, and N is what the job asked for.
inline void ranks_are_whole(const std::vector<int>& first_ranks, int workers_per_node, int min_nodes,
                            int max_nodes) {
  for (std::size_t i = 0; i < first_ranks.size(); ++i)
    EXPECT_EQ(first_ranks[i], static_cast<int>(i) * workers_per_node)
        << "G2: ranks are missing or assigned twice";
  EXPECT_GE(static_cast<int>(first_ranks.size()), min_nodes) << "fewer nodes than allowed";
  EXPECT_LE(static_cast<int>(first_ranks.size()), max_nodes) << "more nodes than requested";
}

// G6: the first failure is blamed, never a victim.
inline void blames(const Culprit& observed, const Culprit& first) {
  EXPECT_EQ(observed, first) << "G6: blamed " << text_of(observed) << ", but first was " << text_of(first);
}

// G6 if the order of several faults is unknown.
inline void blames_one_of(const Culprit& observed, const std::vector<Culprit>& possible) {
  if (possible.size() == 1) return blames(observed, possible.front());
  EXPECT_TRUE(std::ranges::find(possible, observed) != possible.end()) << "G6: blamed " << text_of(observed);
}

// G7: the job ends or continues within `limit` of the last fault.
inline void makes_progress(bool ended, std::chrono::nanoseconds since_last_fault,
                           std::chrono::nanoseconds limit) {
  EXPECT_TRUE(ended) << "G7: the job neither ends nor continues";
  EXPECT_LE(since_last_fault.count(), limit.count()) << "G7: the job took too long to continue";
}

// G3: a job is preempted only if its work is saved.
inline void preemption_is_saved(int exit_code, int commit_count) {
  if (exit_code == 75) EXPECT_GT(commit_count, 0) << "G3: exit code 75, but nothing was saved";
}

// G8: success is reported only if every rank of the last attempt exited 0.
inline void success_is_earned(int exit_code, int world_size, int succeeded_count) {
  if (exit_code == 0) {
    EXPECT_EQ(succeeded_count, world_size) << "G8: success was reported, but not all ranks succeeded";
  }
}

}  // namespace muster::invariants
