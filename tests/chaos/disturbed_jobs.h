// The command line of chaos_hosts and chaos_containers, and their loop over jobs. The seed and the job's
// number determine a few faults for each job; then the job is checked.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "tests/chaos/samples.h"

namespace muster::chaos {

struct DisturbedJobs {
  std::string program;
  std::uint64_t faults = 0;  // for all jobs together
  std::uint64_t seed = std::random_device{}();
  std::optional<std::uint64_t> job{};  // run only this job
};

// The result of one job.
struct DisturbedJob {
  std::string plan;
  std::vector<std::string> violations;  // failed checks
  int faults_made = 0;
  std::string said;  // the output of its launchers
};

// Parses --faults N --seed S --job I, all optional. Prints an error and returns false for other words.
inline bool read_command_line(int argc, char** argv, DisturbedJobs& jobs) {
  bool good = argc % 2 == 1;
  for (int i = 1; good && i < argc; i += 2) {
    const std::string word = argv[i];
    const auto number = parse_number<std::uint64_t>(argv[i + 1]);
    good = number && (word == "--faults" || word == "--seed" || word == "--job");
    if (!good) break;
    if (word == "--faults") jobs.faults = *number;
    if (word == "--seed") jobs.seed = *number;
    if (word == "--job") jobs.job = *number;
  }
  good = good && jobs.faults > 0;
  if (!good) fmt::print(stderr, "usage: {} [--faults N] [--seed S] [--job I]\n", jobs.program);
  return good;
}

// `disturb`: runs the job of a seed with this number of faults. Prints a line for each job; returns 1 if a
// job failed, or if no fault happened.
inline int run_all(const DisturbedJobs& jobs,
                   const std::function<DisturbedJob(std::uint64_t seed, int faults)>& disturb) {
  constexpr int kFaultsPerJob = 4;
  fmt::print("{}: {} faults, seed {}\n", jobs.program, jobs.faults, jobs.seed);
  int made = 0, count = 0, failed = 0;
  const std::uint64_t first = jobs.job.value_or(0);
  const std::uint64_t last = jobs.job ? first + 1 : (jobs.faults + kFaultsPerJob - 1) / kFaultsPerJob;
  for (std::uint64_t i = first; i < last; ++i) {
    const auto left = static_cast<int>(jobs.faults - i * kFaultsPerJob);
    const TimePoint began = Clock::now();
    const DisturbedJob job = disturb(mix(jobs.seed * 1000003 + i), std::min(left, kFaultsPerJob));
    const bool passed = job.violations.empty();
    made += job.faults_made;
    ++count;
    failed += passed ? 0 : 1;
    fmt::print("job {}: {} ({:.1f} s): {}\n", i, passed ? "passed" : "FAILED",
               std::chrono::duration<double>(Clock::now() - began).count(), job.plan);
    for (const std::string& violation : job.violations) fmt::print("  {}\n", violation);
    if (!passed) fmt::print("{}\n", job.said);
    (void)std::fflush(stdout);
  }
  fmt::print("{} of {} jobs as they should be, {} faults made (seed {})\n", count - failed, count, made,
             jobs.seed);
  if (made == 0) fmt::print(stderr, "{}: nothing was disturbed\n", jobs.program);
  return failed == 0 && made > 0 ? 0 : 1;
}

}  // namespace muster::chaos
