// Finds a training that keeps the graphs of its steps, and so grows until memory runs out: the sum of losses
// that were never asked for their item() is the usual one.
//
//   muster::GraphWatch watch(job);
//   for (...) { ...; loss.backward(); optimizer.step(); watch.step(loss, "loss"); }
//
// It holds on to nothing, and looks whether a graph of some steps ago still lives. What it finds is said
// once. For the training thread.
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
  // A graph that lives `steps` steps later is kept. std::invalid_argument for less than 2: a variable of the
  // program has the last one.
  explicit GraphWatch(const Group& group, std::int64_t steps = 3);

  // Once in each step, with what backward() was called on. The name is for the message; none: the tensor's
  // own.
  void step(const at::Tensor& loss, const std::string& name = "");

  const std::string& found() const { return found_; }  // what was said; empty: nothing

 private:
  struct Watched {
    std::int64_t step;
    std::string name;
    std::function<bool()> lives;  // whether the graph of that step does
  };
  int rank_;
  std::int64_t limit_;
  std::int64_t steps_ = 0;
  std::deque<Watched> watched_;
  std::string found_;
};

}  // namespace muster
