// The gradients of one stage over its replicas: summed while other stages' microbatches are still computed,
// and the mean put into place at the end of the step.
//
// For the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <muster/comm/group.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace muster {

class ReplicaSums {
 public:
  // Those of the parameters that need a gradient.
  ReplicaSums(const Group& replicas, const std::vector<at::Tensor>& parameters);

  // When the stage's last gradient of the step is there.
  void begin();
  void finish();
  // To all the first replica's, in place.
  void broadcast(const std::vector<at::Tensor>& tensors) const;

 private:
  struct Row {  // of one type: all gradients, one after the other
    std::vector<at::Tensor> parameters;
    at::Tensor sum;
    c10::intrusive_ptr<c10d::Work> work;
  };
  Group replicas_;
  std::vector<Row> rows_;
};

}  // namespace muster
