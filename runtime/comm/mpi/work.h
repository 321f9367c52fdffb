// The Work of one call. It ends on the engine's thread, or on a thread of the program that waits for a call
// of this backend. The callbacks of its future run on that thread, too.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
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
      : Work(rank, type, at::hasCallbacks() ? title : nullptr, inputs), outputs_(std::move(outputs)) {}

  void ended() { end(nullptr); }
  void failed(const std::string& error) { end(std::make_exception_ptr(std::runtime_error("mpi: " + error))); }
  void received_from(int source) { source_ = source; }

  bool wait(std::chrono::milliseconds timeout) override {
    using std::chrono::steady_clock;
    if (timeout == kNoTimeout) {
      Engine::of_process().help(is_over_, std::nullopt);
      return Work::wait(timeout);
    }
    const auto end = steady_clock::now() + timeout;
    Engine::of_process().help(is_over_, end);
    if (is_over_) return Work::wait(kNoTimeout);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now());
    return Work::wait(std::max(left, std::chrono::milliseconds(1)));
  }
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  // Creates the future at first use.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const auto [future, is_due] = [&] {
      const std::lock_guard lock(future_mutex_);
      const bool is_new = future_ == nullptr;
      if (is_new) future_ = make_future();
      return std::pair(future_, is_new && has_ended_);
    }();
    if (is_due) complete(*future);
    return future;
  }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> make_future() const {
    std::vector<c10::Device> devices;
    for (const at::Tensor& each : outputs_)
      if (!each.is_cpu()) devices = {each.device()};
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  }
  void complete(c10::ivalue::Future& future) const {
    if (error_)
      future.setError(error_);
    else
      future.markCompleted(c10::IValue(outputs_));
  }
  void end(const std::exception_ptr& error) {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const std::lock_guard lock(future_mutex_);
      error_ = error;
      has_ended_ = true;
      future = future_;
    }
    if (future != nullptr) complete(*future);
    finish(error);
    is_over_ = true;
  }

  std::vector<at::Tensor> outputs_;
  std::mutex future_mutex_;
  bool has_ended_ = false;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> is_over_ = false;  // set last, because help() waits for it
  int source_ = -1;
};

}  // namespace muster::mpi
