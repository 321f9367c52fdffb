// A collective in the form of a coroutine. The coroutine runs until it must wait for another rank. When that
// rank has done its part, the coroutine is resumed.
//
// A coroutine never blocks the thread. The data that it uses must live longer than the Steps. A Member
// (member.h) resumes the coroutine. Only one thread at a time can do so.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/shm/segment.h"

namespace muster::shm {

struct Message;
std::string text_of(const CallTag& tag);

// Thrown if another rank is in a different collective that has the same number.
struct Mismatch {
  int rank;
  CallTag other;
};

// A condition that a collective waits for. The condition is that other ranks have made progress, or that
// messages have ended.
class Until {
 public:
  using Counter = std::atomic<std::uint64_t> RankState::*;
  // All ranks from `first` to `end - 1`, except the rank `self`.
  struct Ranks {
    int first = 0, end = 0, self = -1;
  };
  // Waits until the counter of each of these ranks is at least `least`. If `tag` is not null, it also checks
  // that each of these ranks has the same tag for piece `least - 1`.
  Until(const Segment& segment, Counter counter, std::uint64_t least, Ranks ranks,
        const CallTag* tag = nullptr)
      : segment_(&segment), counter_(counter), least_(least), ranks_(ranks), at_(ranks.first), tag_(tag) {}
  explicit Until(const std::vector<std::shared_ptr<Message>>& messages) : messages_(&messages) {}

  bool ready();
  std::vector<int> missing() const;  // the ranks that it waits for

  bool await_ready() { return ready(); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    handle.promise().until = this;
  }
  void await_resume() const;  // throws Mismatch

 private:
  bool has_come(int rank) const;

  const Segment* segment_ = nullptr;
  Counter counter_ = nullptr;
  std::uint64_t least_ = 0;
  Ranks ranks_;
  int at_ = 0;
  const CallTag* tag_ = nullptr;
  const std::vector<std::shared_ptr<Message>>* messages_ = nullptr;
};

class Steps {
 public:
  struct promise_type {
    Until* until = nullptr;
    std::exception_ptr thrown;
    Steps get_return_object() { return Steps(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { thrown = std::current_exception(); }
  };

  Steps() = default;
  Steps(Steps&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Steps& operator=(Steps&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Steps() {
    if (handle_) handle_.destroy();
  }

  // Null: the coroutine waits for nothing.
  Until* waits_for() const { return handle_.promise().until; }
  // Resumes the coroutine. Returns true if it has finished. If it has thrown an exception, throws this
  // exception again.
  bool go_on() {
    handle_.promise().until = nullptr;
    handle_.resume();
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    return handle_.done();
  }

 private:
  explicit Steps(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace muster::shm
