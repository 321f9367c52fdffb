// What a rank has asked of a group on one host, and that ends once: a collective, or one end of a message.
//
// Belongs to who asked and to the Member (member.h), whose threads work on it one after the other.
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
  // In messages: "all_reduce of 4 elements".
  virtual std::string text() const = 0;
  // Once it has ended, by the thread that ended it, which holds nothing then.
  virtual void on_end() {}

  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Of one that has ended: why without success, or empty.
  const std::string& error() const { return error_; }

  // How long it may be that nothing moves in it; 0: as long as the group's do.
  std::chrono::milliseconds limit{0};
  // Whether it shall get on although nobody waits for it.
  bool hurried = false;

 private:
  friend class Member;
  friend class Messages;
  std::string error_;
  std::atomic<bool> ended_ = false;
  std::atomic<TimePoint> still_since_ = TimePoint();  // unset: it has moved since somebody looked
  std::atomic<int> waited_for_ = 0;                   // by so many threads
};

struct Collective : Request {
  std::string text() const override { return text_of(tag); }
  CallTag tag;
  Steps steps;
  std::size_t bytes = 0;  // that this rank has to move, about
};

// One tensor's bytes on their way out or in.
struct Message : Request {
  std::string text() const override;
  bool sends = false;
  int peer = -1;  // -1: any
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  // What follows is the Messages' own, until it has ended.
  std::size_t moved = 0;
  bool begun = false;
  int source = -1;
  std::string wrong;  // why what has come is no use
  bool through = false;
};

}  // namespace muster::shm
