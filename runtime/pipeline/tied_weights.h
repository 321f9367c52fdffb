// Parameters of one name in several stages, such as an embedding whose weights are the output layer's too.
// The copies start equal, and each gets the sum of all copies' gradients.
//
// All ranks add in the order of the stages' ranks, so that they get the same bits. The functions are for the
// training thread alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <string>
#include <vector>

namespace muster {

struct TiedWeight {
  std::string name;
  std::vector<int> ranks;         // the job's ranks that have it, ascending; includes this rank
  int first_rank = 0;             // the rank of its first stage
  std::vector<at::Tensor> here;   // the copies in this rank's stages
  bool counts_elsewhere = false;  // another rank has the first stage
};

// Returns the copies that a sum over all parameters must leave out: all but the first stage's.
std::vector<at::Tensor> other_copies(const std::vector<TiedWeight>& tied);
// Copies the first stage's values to all copies.
void share_values(const Group& group, const std::vector<TiedWeight>& tied);
// Call before a step whose gradients are added to earlier sums, so that these sums count once.
void count_sums_once(const std::vector<TiedWeight>& tied);
// Call after the last backward pass of a step.
void sum_gradients(const Group& group, const std::vector<TiedWeight>& tied);

}  // namespace muster
