// A tied weight is a parameter that several stages have under one name, such as an embedding whose weights
// the output layer uses. The copies start equal, and each gets the sum of all copies' gradients.
//
// All ranks add the gradients in the same order, so that they get the same bits. Only the training thread
// calls the functions.
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

// A tied weight has a copy in each stage that uses it. Returns this rank's copies, except the copies in a
// weight's first stage. A sum over all parameters must leave the returned copies out, so that each weight
// counts once.
std::vector<at::Tensor> other_copies(const std::vector<TiedWeight>& tied);
// Copies each weight's values from its first stage to all other stages that have it.
void share_values(const Group& group, const std::vector<TiedWeight>& tied);
// Call this before a step that adds its gradients to the gradients of earlier steps. At that time, all copies
// of a weight have the same gradient, which is the sum of the earlier steps. This function sets the gradient
// to zero in all copies but that of the first stage, so that sum_gradients() counts the earlier steps once.
void count_sums_once(const std::vector<TiedWeight>& tied);
// Sums the gradients of all copies. Call this after the last backward pass of a step.
void sum_gradients(const Group& group, const std::vector<TiedWeight>& tied);

}  // namespace muster
