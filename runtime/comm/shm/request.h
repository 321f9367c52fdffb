// A request that this rank makes to a group on one host. It is a collective, or one end of a message. It ends
// only once.
//
// The caller and the Member (member.h) share a request. Only one of the Member's threads at a time works on
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "runtime/comm/shm/steps.h"

namespace muster::shm {

class Request {
 public:
  virtual ~Request() = default;
  // Returns a description of the request for errors, such as "all_reduce of 4 elements".
  virtual std::string text() const = 0;
  // Called once, when the request has ended. The thread that ended it calls this function and holds no lock.
  virtual void on_end() {}

  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Returns why the request failed. Returns "" if it did not fail. Call it only after the request has ended.
  const std::string& error() const { return error_; }

  // The request fails if it makes no progress for this long. 0 means the limit of the group.
  std::chrono::milliseconds limit{0};
  // If true, the request must make progress even if no thread waits for it.
  bool hurried = false;

 private:
  friend class Member;
  friend class Messages;
  std::string error_;
  std::atomic<bool> ended_ = false;
  std::atomic<TimePoint> still_since_ = TimePoint();  // unset: it has progressed since the last check
  std::atomic<int> waited_for_ = 0;                   // number of threads that wait for it
};

struct Collective : Request {
  std::string text() const override { return text_of(tag); }
  CallTag tag;
  Steps steps;
  std::size_t bytes = 0;  // approximate number that this rank has to move
};

// One tensor's bytes, sent or received.
struct Message : Request {
  std::string text() const override;
  bool sends = false;
  int peer = -1;  // -1: any
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  // Until the message has ended, only the class Messages uses the members below.
  std::size_t moved = 0;
  bool begun = false;
  int source = -1;
  std::string wrong;  // why the data that arrived is unusable
  bool through = false;
};

}  // namespace muster::shm
