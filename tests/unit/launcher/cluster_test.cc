#include <gtest/gtest.h>

#include "tests/unit/launcher/simulated_cluster.h"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using invariants::Culprit;

constexpr Fault kFaults[] = {Fault::kNone,       Fault::kWorkerDies,          Fault::kAgentDies,
                             Fault::kAgentHangs, Fault::kAgentDiesUnprepared, Fault::kAgentDiesWhileStopping};

SimulatedCluster::Script random_script(std::uint64_t seed) {
  std::mt19937_64 rng(seed * 7919);
  SimulatedCluster::Script script;
  script.node_count = 2 + static_cast<int>(rng() % 3);
  script.workers_per_node = 1 + static_cast<int>(rng() % 4);
  script.max_restarts = static_cast<int>(rng() % 4);
  for (std::uint64_t attempt = rng() % 5; attempt > 0; --attempt)
    script.faults.push_back(kFaults[rng() % std::size(kFaults)]);
  return script;
}

Culprit blamed(const Verdict& verdict) {
  Culprit culprit;
  if (verdict.culprit) culprit.rank = verdict.culprit->rank.value();
  if (verdict.node) culprit.node = verdict.node->value();
  return culprit;
}

class Cluster : public testing::TestWithParam<int> {};

TEST_P(Cluster, KeepsItsGuaranteesUnderRandomFaults) {
  constexpr int kSeedsEach = 50;
  for (int i = 0; i < kSeedsEach; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kSeedsEach + i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SimulatedCluster::Script script = random_script(seed);
    SimulatedCluster cluster(script, seed);
    cluster.run();
    invariants::makes_progress(cluster.done(), cluster.since_last_fault(), 15s);
    invariants::nothing_is_left(cluster.living_worker_count());
    const Job& job = cluster.job();
    invariants::success_is_earned(job.verdict().exit_code, script.node_count * script.workers_per_node,
                                  cluster.succeeded_count());
    for (const AttemptHistory& attempt : job.history()) {
      ASSERT_TRUE(attempt.verdict) << "attempt " << attempt.attempt.value();
      const auto fault = cluster.first_faults().find(attempt.attempt);
      if (fault != cluster.first_faults().end()) invariants::blames(blamed(*attempt.verdict), fault->second);
      if (fault == cluster.first_faults().end()) EXPECT_EQ(attempt.verdict->exit_code, 0);
    }
    const auto fault_count = static_cast<int>(cluster.first_faults().size());
    EXPECT_EQ(job.restart_count(), std::min(fault_count, script.max_restarts));
    EXPECT_EQ(job.verdict().exit_code == 0, fault_count <= script.max_restarts) << "faults " << fault_count;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Cluster, testing::Range(0, 12));

class InterruptedCluster : public testing::TestWithParam<int> {};

TEST_P(InterruptedCluster, EndsWithNothingLeftWheneverTheUserInterrupts) {
  constexpr int kSeedsEach = 50;
  for (int i = 0; i < kSeedsEach; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kSeedsEach + i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedCluster::Script script = random_script(seed);
    std::mt19937_64 rng(seed);
    script.first_signal = std::chrono::milliseconds(rng() % 4000);
    if (seed % 2 == 0) script.second_signal = *script.first_signal + std::chrono::milliseconds(rng() % 1000);
    SimulatedCluster cluster(script, seed);
    cluster.run();
    EXPECT_TRUE(cluster.done());
    invariants::nothing_is_left(cluster.living_worker_count());
    const Job& job = cluster.job();
    invariants::success_is_earned(job.verdict().exit_code, script.node_count * script.workers_per_node,
                                  cluster.succeeded_count());
    const bool stopped = job.verdict().kind == Verdict::Kind::kInterrupted;
    EXPECT_EQ(job.verdict().exit_code == 130, stopped);
    const auto fault = job.history().empty() ? cluster.first_faults().end()
                                             : cluster.first_faults().find(job.history().back().attempt);
    const bool failed = !job.history().empty() && job.history().back().verdict &&
                        job.history().back().verdict->restart_may_help();
    if (failed && fault != cluster.first_faults().end())
      invariants::blames(blamed(job.verdict()), fault->second);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, InterruptedCluster, testing::Range(0, 6));

TEST(ClusterSeed, GivesTheSameRunForTheSameSeed) {
  const SimulatedCluster::Script script = random_script(17);
  SimulatedCluster one(script, 17);
  SimulatedCluster other(script, 17);
  one.run();
  other.run();
  EXPECT_EQ(one.since_last_fault(), other.since_last_fault());
  EXPECT_EQ(one.job().history().size(), other.job().history().size());
}

}  // namespace
}  // namespace muster::launcher
