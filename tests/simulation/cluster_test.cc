#include "tests/simulation/cluster.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <unistd.h>

#include "tests/simulation/runner.h"
#include "tests/simulation/training.h"

namespace muster::simulation {
namespace {

using namespace std::chrono_literals;
using launcher::Phase;
using launcher::Verdict;

std::uint64_t current_seed = 0;

// A CHECK that fails, and a crash, end the program before GoogleTest can name the seed.
constexpr std::array kDeadly = {SIGABRT, SIGSEGV, SIGBUS};
std::array<struct sigaction, kDeadly.size()> handlers_before{};  // for example a sanitizer's

void restore_handlers() {
  for (std::size_t i = 0; i < kDeadly.size(); ++i) sigaction(kDeadly.at(i), &handlers_before.at(i), nullptr);
}

// The signal is raised again when this returns, for the earlier handler.
void name_seed(int) {
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "MUSTER_TEST_SEED=%llu\n",
                                 static_cast<unsigned long long>(current_seed));
  (void)!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size));
  restore_handlers();
}

class SeedsNamed {
 public:
  SeedsNamed() {
    struct sigaction action{};
    action.sa_handler = name_seed;
    for (std::size_t i = 0; i < kDeadly.size(); ++i)
      sigaction(kDeadly.at(i), &action, &handlers_before.at(i));
  }
  SeedsNamed(const SeedsNamed&) = delete;
  SeedsNamed& operator=(const SeedsNamed&) = delete;
  ~SeedsNamed() { restore_handlers(); }
};

// Ends the job after this fault and other faults.
void begin_with(Script& script, const Fault& fault) {
  script.faults.insert(script.faults.begin(), fault);
  script.until_faults_are_made = true;
}

template <class Body>
void for_seeds_from(std::uint64_t first, std::uint64_t count, Body body) {
  for (current_seed = first; current_seed - first < count && !testing::Test::HasFailure(); ++current_seed) {
    SCOPED_TRACE("MUSTER_TEST_SEED=" + std::to_string(current_seed));
    body(current_seed);
  }
}

// AddressSanitizer makes this forty times as slow and checks only memory: a hundredth of the seeds is enough.
#if __has_feature(address_sanitizer)
constexpr std::uint64_t kShare = 100;
#else
constexpr std::uint64_t kShare = 1;
#endif

// Returns `count` fixed seeds, the seeds that once failed, and `count` / 4 new seeds for each run; or only
// MUSTER_TEST_SEED. With AddressSanitizer it leaves out the seeds that once failed, and new ones if `count`
// is small.
template <class Body>
void for_seeds(std::uint64_t count, std::initializer_list<std::uint64_t> once_failed, Body body) {
  const SeedsNamed named;
  if (const char* only = std::getenv("MUSTER_TEST_SEED"))
    return for_seeds_from(std::strtoull(only, nullptr, 10), 1, body);
  count = std::max<std::uint64_t>(count / kShare, 1);
  for_seeds_from(0, count, body);
  if (kShare == 1)
    for (const std::uint64_t seed : once_failed) for_seeds_from(seed, 1, body);
  const std::uint64_t base = std::uint64_t{std::random_device()()} << 20;
  std::printf("seeds 0 to %llu, and %llu from %llu\n", static_cast<unsigned long long>(count - 1),
              static_cast<unsigned long long>(count / 4), static_cast<unsigned long long>(base));
  for_seeds_from(base, count / 4, body);
}

// With MUSTER_TEST_TRACE and MUSTER_TEST_SEED: prints a line for each event.
std::function<void(const std::string&)> trace() {
  if (std::getenv("MUSTER_TEST_SEED") == nullptr || std::getenv("MUSTER_TEST_TRACE") == nullptr) return {};
  return [](const std::string& line) { std::printf("%s\n", line.c_str()); };
}

// Checks the number of cases over all seeds.
void expect_at_least(int count, int least, const std::string& what) {
  const bool all = kShare == 1 && std::getenv("MUSTER_TEST_SEED") == nullptr;
  if (all && !testing::Test::HasFailure()) EXPECT_GE(count, least) << what;
}

Outcome run(Cluster& cluster) {
  Outcome outcome = cluster.run();
  for (const Finding& each : outcome.findings)
    ADD_FAILURE() << std::chrono::duration<double>(each.at).count() << " s: " << each.text;
  return outcome;
}

const Verdict& verdict_of(const Cluster& cluster) {
  return cluster.first().job().verdict();
}

TEST(Cluster, KeepsItsGuaranteesUnderRandomFaults) {
  std::array<int, kFaultKindCount> made{};
  int cleared_up = 0, got_input = 0;
  for_seeds(1200, {2005109, 2006438, 4006809, 922109450910, 932498977145}, [&](std::uint64_t seed) {
    Cluster cluster(short_script(seed), seed, trace());
    const Outcome outcome = run(cluster);
    for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) made.at(kind) += outcome.faults.at(kind);
    if (cluster.first().cleared_up()) ++cleared_up;
    if (cluster.input_of(cluster.first()).read_count > 0) ++got_input;
  });
  expect_at_least(cleared_up, 600, "launches that were checked against G1 at their end");
  expect_at_least(got_input, 200, "jobs in which a rank read input");
  for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) {
    // Usually no node has an earlier agent whose name a stranger could use.
    const auto fault = static_cast<FaultKind>(kind);
    if (!traits_of(fault).ends_launch && fault != FaultKind::kStranger)
      expect_at_least(made.at(kind), 5, std::string(name_of(static_cast<FaultKind>(kind))) + " is not tried");
  }
}

// Trainings of ten virtual minutes, with several launches.
TEST(Cluster, KeepsItsGuaranteesInLongTrainings) {
  int read_all = 0, faults = 0;
  for_seeds(40, {409, 863, 1010, 1041, 1294, 1928, 747000782064, 529386952573, 789158321352, 863213852359},
            [&](std::uint64_t seed) {
              Cluster cluster(long_script(seed, 8, 4), seed, trace());
              const Outcome outcome = run(cluster);
              EXPECT_GE(outcome.length, 10min);
              faults += outcome.fault_count();
              if (cluster.input_of(cluster.first()).end_read) ++read_all;
            });
  expect_at_least(faults, 500, "faults");
  expect_at_least(read_all, 5, "jobs in which a rank read the input to its end");
}

TEST(Cluster, EndsWithNothingLeftWheneverTheUserInterrupts) {
  int interrupted = 0;
  for_seeds(400, {}, [&](std::uint64_t seed) {
    Cluster cluster(short_script(seed), seed, trace());
    Chance chance(seed, 100);
    Duration when = chance.between(0ms, 4s);
    for (int count = 0; count == 0 || (count < 3 && chance.one_in(2)); ++count) {
      cluster.at(when, [](Launch& launch) { launch.interrupt(SIGINT); });
      when += chance.between(0ms, 1s);
    }
    run(cluster);
    if (verdict_of(cluster).kind == Verdict::Kind::kInterrupted) ++interrupted;
  });
  expect_at_least(interrupted, 200, "jobs that were interrupted");
}

TEST(Cluster, EndsWithNothingLeftWheneverItIsCancelledAndSavesWhereItCan) {
  int saved = 0;
  for_seeds(400, {}, [&](std::uint64_t seed) {
    const Script script = short_script(seed);
    Cluster cluster(script, seed, trace());
    Chance chance(seed, 100);
    const bool now = chance.one_in(3);
    cluster.at(chance.between(0ms, 4s), [now](Launch& launch) { launch.cancel(now); });
    run(cluster);
    const Training* ranks = cluster.first().training();
    if (ranks == nullptr || !ranks->saved_on_notice()) return;
    EXPECT_TRUE(script.preemptible && !now);
    if (verdict_of(cluster).kind == Verdict::Kind::kCancelled) ++saved;
  });
  expect_at_least(saved, 20, "jobs that saved when they were cancelled");
}

TEST(Cluster, SavesAndLeavesOnNoticeOrEndsAtOnce) {
  int preempted = 0;
  for_seeds(400, {1019416, 1341690392608806, 3244991385174115, 3379704856838203, 4269117931520098},
            [&](std::uint64_t seed) {
              Cluster cluster(short_script(seed), seed, trace());
              Chance chance(seed, 100);
              cluster.at(chance.between(0ms, 4s), [](Launch& launch) { launch.interrupt(SIGTERM); });
              run(cluster);
              if (verdict_of(cluster).kind == Verdict::Kind::kPreempted) ++preempted;
            });
  expect_at_least(preempted, 40, "jobs that were preempted");
}

TEST(Cluster, LeavesNothingBehindWhenTheLauncherIsKilled) {
  int lost = 0;
  for_seeds(400, {}, [&](std::uint64_t seed) {
    Chance chance(seed, 100);
    Script script = short_script(seed);
    script.length = chance.between(1s, 10s);
    Fault end{.kind = chance.one_in(2) ? FaultKind::kLauncherFallsSilent : FaultKind::kLauncherDies,
              .gap = chance.between(0ms, 6s),
              .choice = 1};
    begin_with(script, end);
    Cluster cluster(script, seed, trace());
    run(cluster);
    if (!cluster.first().finished()) ++lost;
  });
  expect_at_least(lost, 200, "launchers that were lost");
}

TEST(Cluster, LetsNoMoreThanOneLaunchGoOnInACheckpointDirectory) {
  int fenced = 0, second_count = 0;
  for_seeds(
      300, {700000000746, 900000000112, 900000000932, 1100000003099, 1100000005590}, [&](std::uint64_t seed) {
        Chance chance(seed, 100);
        Script script = short_script(seed);
        script.checkpoints = true;
        script.length = chance.between(2s, 10s);
        Fault second{
            .kind = FaultKind::kSecondLauncher, .gap = chance.between(0ms, 4s), .choice = chance.below(12)};
        begin_with(script, second);
        Cluster cluster(script, seed, trace());
        const Outcome outcome = run(cluster);
        second_count += outcome.faults.at(static_cast<std::size_t>(FaultKind::kSecondLauncher));
        const Training* ranks = cluster.first().training();
        if (verdict_of(cluster).kind == Verdict::Kind::kRefused && ranks != nullptr && ranks->fenced())
          ++fenced;
      });
  expect_at_least(second_count, 150, "launches beside another one in its directory");
  expect_at_least(fenced, 50, "launches whose directory another one took over");
}

// The first loss ends the attempt; the others follow before the next attempt can start workers.
TEST(Cluster, UsesUpOneRestartForNodesThatAreLostTogether) {
  int later = 0;
  for_seeds(200, {}, [&](std::uint64_t seed) {
    Chance chance(seed, 100);
    Script script = short_script(seed);
    script.faults.clear();
    script.node_count = script.min_nodes = 4;
    script.spare_nodes = chance.below(3);
    script.max_restarts = 1;
    script.length = 4s;
    Cluster cluster(script, seed, trace());
    const auto kill = [](Launch& launch, int node) {
      return launch.agents().hit_agent({.kind = FaultKind::kAgentKilled, .node = node});
    };
    cluster.at(2s, [&](Launch& launch) { EXPECT_TRUE(kill(launch, 0)); });
    int next = 1;
    for (Duration when = 2s; when < 4s; when += 1ms) {
      cluster.at(when, [&](Launch& launch) {
        using enum Phase;
        const Phase phase = launch.job().phase();
        const bool counted = phase == kGathering || phase == kBeginning;
        if (next > 3 || !(counted || (phase == kStopping && chance.one_in(40))) || !kill(launch, next))
          return;
        ++next;
        if (counted) ++later;
      });
    }
    run(cluster);
    EXPECT_EQ(verdict_of(cluster).exit_code, 0) << verdict_of(cluster).cause;
    EXPECT_EQ(cluster.first().job().restart_count(), 1);
  });
  expect_at_least(later, 100, "nodes that were lost when the restart had been counted");
}

TEST(Cluster, SucceedsInTimeThoughWhatRanksLeaveCannotBeKilled) {
  int survivor_count = 0;
  for_seeds(200, {}, [&](std::uint64_t seed) {
    Script script = short_script(seed);
    script.faults.clear();
    script.some_survive_sigkill = true;
    script.blind = false;  // otherwise the launcher names some leftovers after the verdict
    script.warm = false;   // a template may take a minute
    Cluster cluster(script, seed, trace());
    const Outcome outcome = run(cluster);
    EXPECT_EQ(verdict_of(cluster).exit_code, 0);
    EXPECT_EQ(cluster.first().job().restart_count(), 0);
    EXPECT_LE(outcome.length, script.length + 2 * script.step + 1s + Limits::kGrace + 5s);
    EXPECT_EQ(std::ssize(verdict_of(cluster).evidence), cluster.first().survivor_count());
    survivor_count += cluster.first().survivor_count();
  });
  expect_at_least(survivor_count, 50, "processes that survived SIGKILL");
}

// The launcher does not repeat an attempt while the lost node has leftovers, so the job may end early.
TEST(Cluster, EndsUnderRandomFaultsThoughWhatRanksLeaveCannotBeKilled) {
  for_seeds(400, {2009631, 100597852274753, 3390156258148409}, [](std::uint64_t seed) {
    Script script = short_script(seed);
    script.some_survive_sigkill = true;
    Cluster cluster(script, seed, trace());
    run(cluster);
  });
}

TEST(Timeline, SchedulesNothingOnceItIsClosed) {
  Timeline timeline;
  bool happened = false;
  const auto schedule = [&](int*) { timeline.after(0s, [&] { happened = true; }); };
  int any = 0;
  timeline.after(0s, [held = std::unique_ptr<int, decltype(schedule)>(&any, schedule)] {});
  timeline.close();
  EXPECT_FALSE(timeline.step(timeline.now() + 1s));
  EXPECT_FALSE(happened);
}

TEST(Shrink, LeavesTheFaultsThatAreNeededForTheFailure) {
  const Script script = long_script(17, 8, 4);
  const auto count_of = [](const Script& each, FaultKind kind) {
    return std::ranges::count(each.faults, kind, &Fault::kind);
  };
  const FaultKind first = script.faults.front().kind;
  const FaultKind last = script.faults.back().kind;
  ASSERT_NE(first, last);
  const Script smallest = shrink(script, [&](const Script& smaller) {
    return count_of(smaller, first) > 0 && count_of(smaller, last) > 0;
  });
  EXPECT_EQ(smallest.faults.size(), 2U);
  EXPECT_EQ(smallest.node_count, 8);
}

#if !__has_feature(address_sanitizer)  // takes 25 s with it, and finds nothing more
TEST(Cluster, DoesTheSameForTheSameSeed) {
  std::array<std::string, 2> traces;
  for (std::string& trace : traces) run_seed(17, {}, [&](const std::string& line) { trace += line + "\n"; });
  EXPECT_GT(traces[0].size(), 1000U);
  EXPECT_EQ(traces[0], traces[1]);
}
#endif

}  // namespace
}  // namespace muster::simulation
