#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

#include "tests/unit/cluster/simulated_cluster.h"

namespace muster::simulation {
namespace {

using namespace std::chrono_literals;
using launcher::Phase;
using launcher::Verdict;

constexpr Duration kHour = 1h;
// G7: silence, stacks, the stop of the others with its margin, the longest back-off of three restarts, a
// start, the work, and leaving.
constexpr Duration kProgress =
    SimulatedCluster::kSilenceLimit + 2s + SimulatedCluster::kGrace + 5s + 3s + Script().work + 2s;

std::uint64_t current_seed = 0;

// A CHECK that fails ends the program before GoogleTest can name the seed.
void name_seed(int) {
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "MUSTER_TEST_SEED=%llu\n",
                                 static_cast<unsigned long long>(current_seed));
  (void)!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size));
  std::signal(SIGABRT, SIG_DFL);
}

template <class Body>
void for_seeds_from(std::uint64_t first, std::uint64_t count, Body body) {
  for (current_seed = first; current_seed - first < count && !testing::Test::HasFailure(); ++current_seed) {
    SCOPED_TRACE("MUSTER_TEST_SEED=" + std::to_string(current_seed));
    body(current_seed);
  }
}

// `count` seeds that are always the same, and a quarter as many that are new in each run; or the one of
// MUSTER_TEST_SEED.
template <class Body>
void for_seeds(std::uint64_t count, Body body) {
  std::signal(SIGABRT, name_seed);
  if (const char* only = std::getenv("MUSTER_TEST_SEED"))
    return for_seeds_from(std::strtoull(only, nullptr, 10), 1, body);
  for_seeds_from(0, count, body);
  const std::uint64_t base = std::uint64_t{std::random_device()()} << 20;
  std::printf("seeds 0 to %llu, and %llu from %llu\n", static_cast<unsigned long long>(count - 1),
              static_cast<unsigned long long>(count / 4), static_cast<unsigned long long>(base));
  for_seeds_from(base, count / 4, body);
}

Fault fault_in(Attempt attempt, Timeline& chance, int node_count) {
  struct When {
    Phase phase;
    Duration within;
  };
  constexpr When kWhen[] = {{Phase::kGathering, 50ms}, {Phase::kPreparing, 10ms}, {Phase::kRunning, 1900ms},
                            {Phase::kRunning, 1900ms}, {Phase::kRunning, 5ms},    {Phase::kLeaving, 5ms}};
  const When when = kWhen[chance.below(std::size(kWhen))];
  Fault fault{.kind = static_cast<Fault::Kind>(chance.below(static_cast<int>(kFaultKinds))),
              .attempt = attempt,
              .phase = when.phase,
              .after = chance.between(0ms, when.within),
              .node = NodeId(chance.below(node_count))};
  // Half of the failures are of workers, as in life.
  constexpr Fault::Kind kOfWorkers[] = {Fault::Kind::kWorkerDies, Fault::Kind::kWorkerDies,
                                        Fault::Kind::kOutOfMemory, Fault::Kind::kWorkerStalls,
                                        Fault::Kind::kWorkerStopped};
  if (when.phase == Phase::kRunning && chance.one_in(2))
    fault.kind = kOfWorkers[chance.below(std::size(kOfWorkers))];
  return fault;
}

// One fault an attempt, and sometimes another while the job recovers from it.
Script random_script(std::uint64_t seed) {
  Timeline chance(seed * 7919 + 1);
  Script script;
  script.node_count = 1 + chance.below(4);
  script.workers_per_node = 1 + chance.below(4);
  script.min_nodes = chance.one_in(3) ? 1 + chance.below(script.node_count) : script.node_count;
  script.spare_nodes = chance.one_in(3) ? 1 + chance.below(2) : 0;
  script.preemptible = chance.one_in(2);
  script.max_restarts = chance.below(4);
  for (int count = chance.below(5), i = 1; i <= count; ++i) {
    const Attempt attempt(static_cast<std::uint64_t>(i));
    script.faults.push_back(fault_in(attempt, chance, script.node_count + script.spare_nodes));
    if (!chance.one_in(3)) continue;
    Fault second = fault_in(attempt, chance, script.node_count + script.spare_nodes);
    second.phase = Phase::kStopping;
    second.after = chance.between(150ms, 600ms);
    script.faults.push_back(second);
  }
  return script;
}

// A class that speaks of special evidence needs a fault that leaves it.
void expect_class_fits(const Verdict& verdict, const SimulatedCluster& cluster) {
  const auto happened = [&](Fault::Kind kind) {
    return std::ranges::find(cluster.faults(), kind) != cluster.faults().end();
  };
  if (verdict.kind == Verdict::Kind::kOutOfMemory) {
    EXPECT_TRUE(happened(Fault::Kind::kOutOfMemory));
    EXPECT_EQ(verdict.exit_code, 253);
  }
  if (verdict.kind == Verdict::Kind::kHang)
    EXPECT_TRUE(happened(Fault::Kind::kWorkerStalls) || happened(Fault::Kind::kWorkerStopped));
}

void expect_guarantees(const SimulatedCluster& cluster, const Script& script) {
  const launcher::Job& job = cluster.job();
  invariants::makes_progress(cluster.ended(), cluster.since_last_fault(), kProgress);
  invariants::nothing_is_left(cluster.living_count());
  for (const Judgement& judgement : cluster.judgements()) {
    const Verdict& verdict = judgement.verdict;
    invariants::success_is_earned(verdict.exit_code, judgement.world_size, judgement.succeeded_count);
    if (verdict.kind == Verdict::Kind::kSucceeded) continue;
    if (verdict.kind == Verdict::Kind::kInterrupted) {
      EXPECT_TRUE(verdict.exit_code == 130 ? !script.interrupts.empty() : script.notice.has_value());
      EXPECT_TRUE(verdict.exit_code == 130 || verdict.exit_code == 143) << verdict.exit_code;
    } else if (verdict.kind == Verdict::Kind::kCancelled) {
      EXPECT_TRUE(script.cancel);
      EXPECT_EQ(verdict.exit_code, 130);
    } else if (verdict.kind == Verdict::Kind::kPreempted) {
      EXPECT_TRUE(script.preemptible && script.notice);
      EXPECT_EQ(verdict.exit_code, 75);
      invariants::preemption_is_saved(verdict.exit_code, cluster.commit_count());
    } else {
      EXPECT_NE(verdict.kind, Verdict::Kind::kTimeLimit) << "there is none";
      expect_class_fits(verdict, cluster);
      invariants::blames_one_of(blamed(verdict), judgement.culprits);
    }
  }
  const Verdict& verdict = job.verdict();
  const bool last_failed =
      !job.history().empty() && job.history().back().verdict.value_or(Verdict()).restart_may_help();
  if (last_failed) invariants::blames_one_of(blamed(verdict), cluster.judgements().back().culprits);
  EXPECT_LE(job.restart_count(), std::ssize(cluster.faults())) << "a restart that nothing called for";
  const int allowed = cluster.restarts_when_interrupted().value_or(script.max_restarts);
  EXPECT_LE(job.restart_count(), allowed) << "a restart after the user stopped the job";
  if (verdict.restart_may_help() && verdict.gave_up != Verdict::GaveUp::kNoProgress)
    EXPECT_EQ(job.restart_count(), script.max_restarts) << "given up while restarts were left";
}

TEST(Cluster, KeepsItsGuaranteesUnderRandomFaults) {
  std::array<int, kFaultKinds> tried{};
  for_seeds(2000, [&](std::uint64_t seed) {
    const Script script = random_script(seed);
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    expect_guarantees(cluster, script);
    for (const Fault::Kind kind : cluster.faults()) ++tried.at(static_cast<std::size_t>(kind));
  });
  for (std::size_t kind = 0;
       kind < tried.size() && !testing::Test::HasFailure() && std::getenv("MUSTER_TEST_SEED") == nullptr;
       ++kind)
    EXPECT_GE(tried.at(kind), 15) << "faults of kind " << kind << " are not tried";
}

TEST(Cluster, EndsWithNothingLeftWheneverTheUserInterrupts) {
  for_seeds(1000, [](std::uint64_t seed) {
    Script script = random_script(seed);
    Timeline chance(seed);
    script.interrupts.push_back(chance.between(0ms, 4s));
    while (script.interrupts.size() < 3 && chance.one_in(2))
      script.interrupts.push_back(script.interrupts.back() + chance.between(0ms, 1s));
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    expect_guarantees(cluster, script);
  });
}

TEST(Cluster, EndsWithNothingLeftWheneverItIsCancelledAndSavesWhereItCan) {
  int saved = 0;
  for_seeds(1000, [&](std::uint64_t seed) {
    Script script = random_script(seed);
    Timeline chance(seed);
    script.cancel = chance.between(0ms, 4s);
    script.cancel_now = chance.one_in(3);
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    expect_guarantees(cluster, script);
    if (cluster.commit_count() == 0) return;
    EXPECT_TRUE(script.preemptible && !script.cancel_now);
    if (cluster.job().verdict().kind == Verdict::Kind::kCancelled) ++saved;
  });
  if (!testing::Test::HasFailure() && std::getenv("MUSTER_TEST_SEED") == nullptr) {
    EXPECT_GE(saved, 50);
  }
}

TEST(Cluster, SavesAndLeavesOnNoticeOrEndsAtOnce) {
  int preempted = 0;
  for_seeds(1000, [&](std::uint64_t seed) {
    Script script = random_script(seed);
    Timeline chance(seed);
    script.notice = chance.between(0ms, 4s);
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    expect_guarantees(cluster, script);
    if (cluster.job().verdict().kind == Verdict::Kind::kPreempted) ++preempted;
  });
  if (!testing::Test::HasFailure() && std::getenv("MUSTER_TEST_SEED") == nullptr) {
    EXPECT_GE(preempted, 100);
  }
}

TEST(Cluster, LeavesNothingBehindWhenTheLauncherIsKilled) {
  for_seeds(1000, [](std::uint64_t seed) {
    Script script = random_script(seed);
    Timeline chance(seed);
    script.launcher_dies = chance.between(0ms, 6s);
    script.work = chance.between(1s, 10s);
    script.launcher_falls_silent = chance.one_in(2);
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    Duration limit = SimulatedCluster::kControllerGrace + SimulatedCluster::kGrace + 5s;
    if (script.launcher_falls_silent) limit += SimulatedCluster::kSilenceLimit;
    // An agent that was not welcomed yet holds nothing, and waits for that.
    if (!cluster.all_welcomed()) limit = std::max(limit, agent::Node::kWelcomeLimit);
    invariants::makes_progress(cluster.ended(), cluster.since_last_fault(), limit);
    invariants::nothing_is_left(cluster.living_count());
  });
}

TEST(Cluster, SucceedsInTimeThoughWhatRanksLeaveCannotBeKilled) {
  int survivor_count = 0;
  for_seeds(200, [&](std::uint64_t seed) {
    Script script = random_script(seed);
    script.faults.clear();
    script.some_survive_sigkill = true;
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    EXPECT_TRUE(cluster.ended());
    EXPECT_EQ(cluster.job().verdict().exit_code, 0);
    EXPECT_EQ(cluster.job().restart_count(), 0);
    EXPECT_LE(cluster.elapsed(), script.work + 500ms + SimulatedCluster::kGrace + 5s);
    EXPECT_EQ(std::ssize(cluster.job().verdict().evidence), cluster.survivor_count());
    survivor_count += cluster.survivor_count();
  });
  if (!testing::Test::HasFailure() && std::getenv("MUSTER_TEST_SEED") == nullptr)
    EXPECT_GE(survivor_count, 50);
}

// An attempt that lost a node is not repeated beside what that node left, so that the job may end early.
TEST(Cluster, EndsUnderRandomFaultsThoughWhatRanksLeaveCannotBeKilled) {
  for_seeds(1000, [](std::uint64_t seed) {
    Script script = random_script(seed);
    script.some_survive_sigkill = true;
    SimulatedCluster cluster(script, seed);
    cluster.run(kHour);
    invariants::makes_progress(cluster.ended(), cluster.since_last_fault(), kProgress + 10s);
    invariants::nothing_is_left(cluster.living_count());
    const Judgement& last = cluster.judgements().back();
    invariants::success_is_earned(last.verdict.exit_code, last.world_size, last.succeeded_count);
  });
}

TEST(Cluster, DoesTheSameForTheSameSeed) {
  const Script script = random_script(17);
  SimulatedCluster one(script, 17);
  SimulatedCluster other(script, 17);
  one.run(kHour);
  other.run(kHour);
  EXPECT_EQ(one.elapsed(), other.elapsed());
  EXPECT_EQ(one.faults(), other.faults());
}

}  // namespace
}  // namespace muster::simulation
