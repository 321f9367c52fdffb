// Parameters of one name on several stages, such as an embedding that is the output's weights too: they begin
// equal, and each gets the sum of the gradients of all.
//
// The sum is taken in the order of the stages' ranks, so that all get the same bits. For the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <string>
#include <vector>

namespace muster {

struct TiedWeight {
  std::string name;
  std::vector<int> ranks;         // in the job, that have it, ascending; one of them is this one
  int first_rank = 0;             // that has its first stage
  std::vector<at::Tensor> here;   // of this rank's stages
  bool counts_elsewhere = false;  // the first stage is another rank's
};

// The copies that do not count where all are added up: all but the first stage's.
std::vector<at::Tensor> other_copies(const std::vector<TiedWeight>& tied);
// To all what the first stage has.
void share_values(const Group& group, const std::vector<TiedWeight>& tied);
// Before a step whose gradients are added to sums: these count once.
void count_sums_once(const std::vector<TiedWeight>& tied);
// After the last backward of a step.
void sum_gradients(const Group& group, const std::vector<TiedWeight>& tied);

}  // namespace muster
