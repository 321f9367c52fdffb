// Computes how training steps spent their time. It takes the totals of each rank, and computes the mean over
// all ranks, as values and as text.
//
// The parts of a step are "data", "compute", "communicate", "checkpoint", and sections that the user defines.
// Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

struct RankSteps {
  std::int32_t rank = 0;
  std::int64_t step_count = 0;
  std::map<std::string, std::int64_t> parts_ns;  // the sum over these steps
};

struct StepShare {
  std::string part;
  double mean_ms = 0;  // mean per step, over all ranks
  double share = 0;    // of the whole step; 1 is all of it
  double most_ms = 0;
  std::int32_t most_rank = 0;
};

struct StepShares {
  std::int64_t step_count = 0;    // the steps of the rank that has made the most
  std::int32_t rank_count = 0;    // ranks that reported
  double step_ms = 0;             // mean over the ranks
  std::vector<StepShare> shares;  // only parts that took time on some rank
};

// Ignores ranks without a step.
StepShares shares_of(const std::vector<RankSteps>& ranks);

// Returns a line such as "12.3 ms a step: compute 80 %, communicate 15 %, data 5 %". The largest part is
// first. Parts below 1 % are left out.
std::string to_line(const StepShares& all);
// Returns a table. Its lines begin with `indent`. Returns "" if there are no steps.
std::string to_table(const StepShares& all, const std::string& indent = "");

}  // namespace muster
