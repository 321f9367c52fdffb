// How training steps spent their time: the totals of each rank, and the mean over all ranks, as values and as
// a table.
//
// Pure. The code that measures a part names it: "data", "compute", "communicate", "checkpoint", or a section
// that the user defines.
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
  double mean_ms = 0;  // per step, over the ranks
  double share = 0;    // of the whole step
  double most_ms = 0;
  std::int32_t most_rank = 0;
};

struct StepShares {
  std::int64_t step_count = 0;    // of the rank with the most steps
  std::int32_t rank_count = 0;    // ranks that reported
  double step_ms = 0;             // mean over the ranks
  std::vector<StepShare> shares;  // without parts that took no time on any rank
};

// Ignores ranks without a step.
StepShares shares_of(const std::vector<RankSteps>& ranks);

// "12.3 ms a step: compute 80 %, communicate 15 %, data 5 %": the largest first, without parts below 1 %.
std::string to_line(const StepShares& all);
// Lines that begin with `indent`; empty without steps.
std::string to_table(const StepShares& all, const std::string& indent = "");

}  // namespace muster
