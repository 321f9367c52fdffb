// Runs one collective of a group on this rank: waits for it, and finds the reason if it does not complete.
//
// After a second, a waiting rank writes its operation to the group's store, under the call's number. A rank
// that waits in a different operation with the same number finds that entry. A rank also checks whether the
// process of another member is gone. The first rank that finds a reason writes it to the store, and the
// reason ends the call on all ranks that wait or fail. These checks cost nothing while calls complete in
// time. Use a Call on one thread.
#pragma once

#include <functional>
#include <muster/comm/group.h>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "common/base/clock.h"

namespace muster {

// Throws std::logic_error, with `what` in the message, if this rank is not in the group.
void require_member(const Group& group, const std::string& what);
// Throws std::runtime_error if NCCL has given up the group; the message begins with text().
void refuse_if_given_up(const Group& group, const std::function<std::string()>& text);

class Call {
 public:
  // `text` returns what must be equal on all members: "all_reduce of Float [4]". If the call takes long,
  // fails or is traced, any thread can call `text`. The group, and everything that `text` uses, must outlive
  // the call. Throws std::logic_error if this rank is not a member.
  Call(const Group& group, std::function<std::string()> text);
  // Starts the collective, or the next part of it, and waits for it. For work on a GPU, run() returns at
  // once, and only the current stream waits. Throws std::invalid_argument, with torch's message, if torch
  // refuses the arguments. Throws std::runtime_error, with the call, the group and the reason, if the call
  // does not complete.
  template <class Start>
  void run(bool on_gpu, const Start& start) {
    const InHand in_hand(*this);
    if (on_gpu) refuse_if_given_up(group_, text_);
    c10::intrusive_ptr<c10d::Work> work;
    try {
      work = start();
    } catch (const c10::Error& error) {
      refuse(error.what_without_backtrace());
    }
    wait(*work, on_gpu);
  }
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  // While an InHand exists, its Call is the training thread's current one. Create it before the collective
  // starts: if another rank has already sent wrong data, Gloo ends the process at once.
  class InHand {
   public:
    explicit InHand(const Call& call);
    InHand(const InHand&) = delete;
    InHand& operator=(const InHand&) = delete;
    ~InHand();

   private:
    const Call& call_;
    TimePoint begin_{};  // set if there is a trace
  };

  void wait(c10d::Work& work, bool on_gpu);
  void look(bool for_gone);
  void ask_store(bool for_gone);
  void tidy_up();
  [[noreturn]] void fail(const std::string& reason);
  [[noreturn]] void explain(const std::string& error);
  bool reach_store();

  const Group& group_;
  std::function<std::string()> text_;
  std::int64_t number_ = 0;                // 0: nothing was started, so the other ranks need not take part
  c10::intrusive_ptr<c10d::Store> store_;  // a connection of its own, opened when needed and possible
  bool wrote_ = false;
};

// Closes the connections of the group's Gloo backend, if it has one. Gloo has no function for that, but it
// closes all connections of a group when a wait times out. So this function waits in vain for a message from
// place `peer`. This rank must be connected with `peer`.
void close_gloo(c10d::ProcessGroup& group, int peer);

// If the group has NCCL, connects this rank with the rank at place `peer`, as their first message would. Both
// ranks must call it. A rank that connects with several places must do so in ascending order. Throws
// std::runtime_error, which names the peer.
void connect_for_messages(const Group& group, int peer);

// Call it in the handler of an error between two members; `text` describes their operation. Throws
// std::runtime_error as Call::run() does.
[[noreturn]] void fail_for_peer(const Group& group, const std::string& text);

}  // namespace muster
