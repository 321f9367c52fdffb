// Counts this rank's reductions of gradients, and explains one that fails or does not end: has another rank
// come to the end of its data, or of its training, earlier?
//
// A rank that leaves a loop writes so in the job's store; steps write nothing. The object does not keep the
// store alive. On the CPU, a thread of the object watches the backward pass. If that waits for other ranks
// for long, the thread looks in the store, and ends the process with an error if a rank has left.
// For the training thread. Any thread may call explain(), when the process or its function is about to end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/rank/training_loop.h"

namespace muster {

class Attendance {
 public:
  // `group_key`: the prefix of the group's keys in the job's store.
  // `who_is_gone`: names the group's ranks that are gone, to explain an exception if no rank has left.
  Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank, const std::string& group_key = "",
             std::function<std::string()> who_is_gone = nullptr);
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  ~Attendance();

  // watch() starts the thread that ends this rank if it waits in vain; stop_watching() stops it.
  void watch();
  void stop_watching() { watcher_ = {}; }
  void reduces();  // call before each reduction
  void ends();     // call at the end of the training
  // Begins or ends a join, in which ranks may leave their loops at any time.
  void joins(bool joins) { joins_ = joins; }
  // Explains an exception with this text; "" if it is not about a peer, or nothing is known.
  std::string explain(const std::string& text) const;
  // Returns the error if another rank has left the loop that this rank is in; else "".
  std::string deserted() const;

 private:
  struct Left {
    int rank = 0;
    std::int64_t count = 0;
  };
  void leaves(const TrainingLoop& loop);
  void say(const std::string& before, const std::string& text);
  std::string said(c10d::Store& store) const;
  std::optional<Left> who_left(const std::string& said) const;

  c10::weak_intrusive_ptr<c10d::Store> store_;
  std::string key_;
  int rank_;
  std::function<std::string()> who_is_gone_;
  std::atomic<std::int64_t> count_ = 0;
  bool joins_ = false;
  std::string left_;          // this rank's text in the store after the end of a loop; "" while it trains
  mutable std::mutex mutex_;  // guards what the watcher reads:
  TrainingLoop loop_;         // the loop of the last reduction
  std::int64_t loader_ = 0;   // its loader's number, in the order of first reductions: equal on all ranks
  std::vector<std::uint64_t> loaders_;
  std::jthread watcher_;  // last: it uses the other members
};

}  // namespace muster
