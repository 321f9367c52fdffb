// The Work of one call. It ends on the engine's thread, or on one that waits for a call of this backend; so
// do the callbacks of its future.
#pragma once

#include <ATen/core/ivalue.h>
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "runtime/comm/mpi/engine.h"

namespace muster::mpi {

class MpiWork : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
          std::vector<at::Tensor> outputs)
      : Work(rank, type, title, inputs), outputs_(std::move(outputs)) {
    std::vector<c10::Device> devices;
    for (const at::Tensor& each : outputs_)
      if (!each.is_cpu()) devices = {each.device()};
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  }

  void ended() {
    future_->markCompleted(c10::IValue(outputs_));
    finish();
  }
  void failed(const std::string& error) {
    const auto exception = std::make_exception_ptr(std::runtime_error("mpi: " + error));
    future_->setError(exception);
    finish(exception);
  }
  void received_from(int source) { source_ = source; }

  bool wait(std::chrono::milliseconds timeout) override {
    using std::chrono::steady_clock;
    const auto end = steady_clock::now() + timeout;
    const bool has_end = timeout != kNoTimeout;
    Engine::of_process().help([&] { return isCompleted() || (has_end && steady_clock::now() >= end); });
    if (!has_end) return Work::wait(timeout);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now());
    return Work::wait(std::max(left, std::chrono::milliseconds(1)));
  }
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace muster::mpi
