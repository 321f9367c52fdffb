// Counts this rank's reductions of gradients. If a reduction, or a collective that comes before it, fails or
// does not end, finds out whether another rank has come to the end of its data or its training before this
// rank.
//
// A rank that leaves a loop over a data loader notes that in the job's store; steps write nothing. The object
// does not keep the store alive. On the CPU, a thread of the object watches the training thread. If the
// training thread waits long for other ranks, the watcher reads the store. If a rank has left, the watcher
// ends the process with an error. Only the training thread uses the object, but any thread can call
// explain().
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
  // `group_key` is the prefix of the group's keys in the job's store. `who_is_gone` returns the names of the
  // group's ranks whose processes have ended. explain() calls who_is_gone() only if no rank has told the
  // others that it left its loop.
  Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank, const std::string& group_key = "",
             std::function<std::string()> who_is_gone = nullptr);
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;
  ~Attendance();

  // watch() starts the thread that ends this process if it waits for a rank that has left. stop_watching()
  // ends the thread.
  void watch();
  void stop_watching() { watcher_ = {}; }
  // Call one of these two before each training pass. accumulates() is for a pass that reduces no gradients;
  // `meets` is true if the pass begins with a collective, such as the broadcast of buffers.
  void accumulates(bool meets);
  void reduces();
  void ends();  // call at the end of the training
  // Call this when a join begins or ends. In a join, ranks are allowed to leave their loops at any time.
  void joins(bool joins) { joins_ = joins; }
  // Explains an exception that has this text. If the exception is not about another rank, or if the cause is
  // unknown, returns "".
  std::string explain(const std::string& text) const;
  // If another rank has left the loop that this rank is in, returns an error message. Otherwise returns "".
  std::string deserted() const;

 private:
  struct Left {
    int rank = 0;
    std::int64_t count = 0;
    std::int64_t begun = 0;
  };
  void trains();
  void leaves(const TrainingLoop& loop);
  void say(const std::string& before, const std::string& text);
  std::string said(c10d::Store& store) const;
  std::optional<Left> who_left(const std::string& said) const;

  c10::weak_intrusive_ptr<c10d::Store> store_;
  std::string key_;
  int rank_;
  std::function<std::string()> who_is_gone_;
  std::atomic<std::int64_t> count_ = 0;  // reductions
  std::atomic<std::int64_t> begun_ = 0;  // count_, or one more after a collective of the next reduction
  bool joins_ = false;
  std::string left_;          // what this rank wrote to the store when it left a loop; "" while it trains
  mutable std::mutex mutex_;  // guards what the watcher reads:
  TrainingLoop loop_;         // the loop of the last training pass
  std::int64_t loader_ = 0;   // its loader's number, by first use: equal on all ranks
  std::vector<std::uint64_t> loaders_;
  std::jthread watcher_;  // last: it uses the other members
};

}  // namespace muster
