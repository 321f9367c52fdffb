// Where the time of training steps went: what each rank has added up, and the mean over all ranks, as values
// and as a table.
//
// Pure. A part is named by who measures it: "data", "compute", "communicate", "checkpoint", or a section of
// the user's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

struct RankSteps {
  std::int32_t rank = 0;
  std::int64_t step_count = 0;
  std::map<std::string, std::int64_t> parts_ns;  // in all these steps together
};

struct StepShare {
  std::string part;
  double mean_ms = 0;  // of a step, over the ranks
  double share = 0;    // of the whole step
  double most_ms = 0;
  std::int32_t most_rank = 0;
};

struct StepShares {
  std::int64_t step_count = 0;    // of the rank that made the most
  std::int32_t rank_count = 0;    // that have told
  double step_ms = 0;             // mean over the ranks
  std::vector<StepShare> shares;  // parts that took no time on any rank are left out
};

// Ranks without a step are left out.
StepShares shares_of(const std::vector<RankSteps>& ranks);

// "12.3 ms a step: compute 80 %, communicate 15 %, data 5 %": the largest first, none below 1 %.
std::string to_line(const StepShares& all);
// Lines that begin with `indent`; empty if there is no step.
std::string to_table(const StepShares& all, const std::string& indent = "");

}  // namespace muster
