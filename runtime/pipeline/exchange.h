// Activations and gradients on their way between the ranks of a pipeline, in one step.
//
// Receives are posted ahead, so that what comes early need not wait; sends go on while this rank computes,
// and what they hold is let go as soon as an answer shows that it has arrived. What a stage gives to one on
// the same rank is handed over. For the training thread.
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

// One tensor between two stages.
struct TensorKind {
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
  bool needs_grad = false;
  bool operator==(const TensorKind&) const = default;
};
// Of each stage of this rank.
struct StageKinds {
  std::vector<TensorKind> inputs;
  std::vector<TensorKind> outputs;
};

class Exchange {
 public:
  // The group is of the pipeline's ranks, whose places are the schedule's. Plan and kinds outlive it. Over
  // NCCL it connects this rank with those of the plan, which must come as well.
  Exchange(Group group, const ExchangePlan& plan, const std::map<int, StageKinds>& kinds);

  // What the message holds; of a gradient those of the outputs that need one. Waits for it.
  std::vector<at::Tensor> take(const StageMessage& message);
  void give(const StageMessage& message, std::vector<at::Tensor> tensors);
  // Returns when all that was given has been taken.
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
    std::deque<Posted> sends{};                // not known to have arrived
    int sent_away = 0;                         // of channel.out, those that `sends` has no more
  };
  void post(Line& line, std::size_t until);
  void let_go(Line& line, int arrived);
  std::vector<at::Tensor> buffers_for(const StageMessage& message) const;
  Line* line_of(const StageMessage& message, std::vector<StageMessage> Channel::* messages,
                std::size_t& place);

  Group group_;
  const std::map<int, StageKinds>& kinds_;
  std::deque<Line> lines_;
  std::vector<std::pair<StageMessage, std::vector<at::Tensor>>> here_;  // between stages of this rank
};

}  // namespace muster
