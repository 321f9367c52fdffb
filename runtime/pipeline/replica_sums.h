// Averages the gradients of one stage over its replicas. Sums them while other stages still compute, and
// stores the mean at the end of the step.
//
// Only the training thread uses ReplicaSums.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <muster/comm/group.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace muster {

class ReplicaSums {
 public:
  // Ignores parameters that need no gradient.
  ReplicaSums(const Group& replicas, const std::vector<at::Tensor>& parameters);

  // Call begin() when the stage's last gradient of the step is ready. It starts the sums. finish() waits for
  // the sums and stores the means.
  void begin();
  void finish();
  // Copies the first replica's tensors to all replicas, in place.
  void broadcast(const std::vector<at::Tensor>& tensors) const;

 private:
  struct Row {  // all gradients of one type, one after the other
    std::vector<at::Tensor> parameters;
    at::Tensor sum;
    c10::intrusive_ptr<c10d::Work> work;
  };
  Group replicas_;
  std::vector<Row> rows_;
};

}  // namespace muster
