// Moves activations and gradients between the ranks of a pipeline, during one step.
//
// An Exchange calls irecv() ahead of time, so that early messages need not wait. This rank computes while its
// messages are sent. An Exchange frees sent tensors as soon as a later message from the receiver shows that
// they have arrived. Stages on the same rank hand tensors over directly. Only the training thread uses an
// Exchange.
#pragma once

#include <ATen/core/Tensor.h>
#include <deque>
#include <map>
#include <muster/comm/collectives.h>
#include <muster/comm/group.h>
#include <string>
#include <utility>
#include <vector>

#include "runtime/pipeline/exchange_plan.h"

namespace muster {

// Describes a tensor that one stage sends to another.
struct TensorKind {
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
  bool needs_grad = false;
  bool operator==(const TensorKind&) const = default;
};
// The tensors that a stage of this rank takes and gives.
struct StageKinds {
  std::vector<TensorKind> inputs;
  std::vector<TensorKind> outputs;
};

class Exchange {
 public:
  // A rank's number in the schedule is its rank in `group`. `plan` and `kinds` must outlive the object. With
  // NCCL, the constructor connects this rank with the ranks in the plan, so these ranks must construct their
  // Exchange at the same time.
  Exchange(Group group, const ExchangePlan& plan, const std::map<int, StageKinds>& kinds);

  // Waits for the message and returns its tensors. For kBackward, these are the gradients of the outputs that
  // need a gradient.
  std::vector<at::Tensor> take(const StageMessage& message);
  void give(const StageMessage& message, std::vector<at::Tensor> tensors);
  // Waits until the other ranks have received everything that was passed to give().
  void finish();

 private:
  struct Posted {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
  };
  struct Line {
    const Channel& channel;
    int peer;  // in the job
    std::size_t posted = 0;
    std::map<std::size_t, Posted> receives{};  // by place in channel.in
    std::deque<Posted> sends{};                // possibly still under way
    int sent_away = 0;                         // how many messages of channel.out were removed from `sends`
  };
  void post(Line& line, std::size_t until);
  void let_go(Line& line, int arrived);
  std::vector<at::Tensor> buffers_for(const StageMessage& message) const;
  Line* line_of(const StageMessage& message, std::vector<StageMessage> Channel::* messages,
                std::size_t& place);

  Group group_;
  const std::map<int, StageKinds>& kinds_;
  std::deque<Line> lines_;
  std::vector<std::pair<StageMessage, std::vector<at::Tensor>>> here_;  // given to stages of this rank
};

}  // namespace muster
