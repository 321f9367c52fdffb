// Finds a training that keeps the autograd graphs of its steps, and so grows until memory runs out. The usual
// cause is a sum of losses without item().
//
//   muster::GraphWatch watch(job);
//   for (...) { ...; loss.backward(); optimizer.step(); watch.step(loss, "loss"); }
//
// A GraphWatch keeps no graph alive. It checks whether a graph of some steps ago still exists, and reports
// the first such graph. Only the training thread may use a GraphWatch.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <deque>
#include <functional>
#include <muster/comm/group.h>
#include <string>

namespace muster {

class GraphWatch {
 public:
  // Reports a graph that still exists `steps` steps later. `steps` must be at least 2, because the program's
  // variable for the loss keeps the previous step's graph alive. Otherwise throws std::invalid_argument.
  explicit GraphWatch(const Group& group, std::int64_t steps = 3);

  // Call it once per step, with the tensor on which backward() was called. `name` is the tensor's name in the
  // report. If it is empty, the report uses the name that the tensor has in LibTorch.
  void step(const at::Tensor& loss, const std::string& name = "");

  const std::string& found() const { return found_; }  // the report; empty: none

 private:
  struct Watched {
    std::int64_t step;
    std::string name;
    std::function<bool()> lives;  // true while the graph of that step exists
  };
  int rank_;
  std::int64_t limit_;
  std::int64_t steps_ = 0;
  std::deque<Watched> watched_;
  std::string found_;
};

}  // namespace muster
