// How many reductions of gradients this rank has taken part in, and what that says about a collective that
// failed: whether another rank has ended its training earlier.
//
// A rank that ends says so in the job's store, which it does not keep alive. For the training thread;
// explain() for any, when the process or its function is about to end. Nothing throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster {

class Attendance {
 public:
  Attendance(const c10::intrusive_ptr<c10d::Store>& store, int rank);

  void reduces() { ++count_; }  // this rank is about to
  void ends();
  // About an exception with this text; empty if it is not about a peer, or nothing is known.
  std::string explain(const std::string& text) const;

 private:
  c10::weak_intrusive_ptr<c10d::Store> store_;
  std::string key_;
  int rank_;
  std::atomic<std::int64_t> count_ = 0;
};

}  // namespace muster
