// How many reductions of gradients this rank has taken part in, and what that says about one that fails or
// does not end: whether another rank has come to the end of its data, or of its training, earlier.
//
// A rank that leaves says so in the job's store, which it does not keep alive: a message at the end of a
// loop, none in a step. A rank that waits for others in a backward pass on the CPU for long looks for such a
// message, in a thread of its own, and if it finds one ends the process with an error. For the training
// thread; explain() for any, when the process or its function is about to end.
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
  // Of the group whose keys in the job's store begin so. What is said of an exception about a peer, where
  // nobody has left: who of the group is gone.
  Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank, const std::string& group_key = "",
             std::function<std::string()> who_is_gone = nullptr);
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  ~Attendance();

  // From now on this rank is ended when it waits in vain; and no longer.
  void watch();
  void stop_watching() { watcher_ = {}; }
  void reduces();  // this rank is about to
  void ends();
  // In a join ranks may leave their loops when they like.
  void joins(bool joins) { joins_ = joins; }
  // About an exception with this text; empty if it is not about a peer, or nothing is known.
  std::string explain(const std::string& text) const;
  // What to say if another rank has left the loop that this one is in; else empty.
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
  std::string left_;          // what this rank has said at the end of a loop; empty while it trains
  mutable std::mutex mutex_;  // of what the watcher reads:
  TrainingLoop loop_;         // of the last reduction
  std::int64_t loader_ = 0;   // its loader's number, the same on all ranks: in the order of first reductions
  std::vector<std::uint64_t> loaders_;
  std::jthread watcher_;  // last: it uses the others
};

}  // namespace muster
