// Runs one collective of a group on this rank: waits for it, and finds the reason if it does not complete.
//
// After a second, a waiting rank writes its operation to the group's store; two ranks that wait in different
// operations under the same number detect that there. A rank also checks whether the process of another
// member is gone. The first rank that finds a reason writes it to the store; the reason ends the call on all
// ranks that wait or fail. These checks cost nothing while calls complete in time. For one thread.
#pragma once

#include <functional>
#include <muster/comm/group.h>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "common/base/clock.h"

namespace muster {

// Throws std::logic_error, with `what` in the message, if this rank is not in the group.
void require_member(const Group& group, const std::string& what);
// Throws std::runtime_error if NCCL has given up the group.
void refuse_if_given_up(const Group& group, const std::function<std::string()>& text);

class Call {
 public:
  // `text` describes what must be equal on all members: "all_reduce of Float [4]". Any thread may call
  // `text`, but only if the call takes long, fails or is traced. The group, and everything that `text` uses,
  // must outlive the call. Throws std::logic_error if this rank is not a member.
  Call(const Group& group, std::function<std::string()> text);
  // Starts the collective, or the next part of it, and waits for it. For work on a GPU only the current
  // stream waits, and run() returns at once.
  // Throws std::invalid_argument with torch's objection to the arguments, or std::runtime_error with the
  // call, the group and the reason why the call did not complete.
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
  // starts, because data that another rank has already sent can end the process at once.
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

// Closes the connections of a group's Gloo, if it has one. Gloo has no function for that, but it gives up a
// whole group when a wait in it times out; so this function waits in vain for a message from place `peer`,
// with which this rank must be connected.
void close_gloo(c10d::ProcessGroup& group, int peer);

// Without NCCL, does nothing. With NCCL, connects this rank with the one at place `peer`, as their first
// message would. Both ranks must call it, and a rank that connects with several must do so in ascending
// order. Throws std::runtime_error, which names the peer.
void connect_for_messages(const Group& group, int peer);

// Call it in the handler of an error between two members; `text` describes their operation. Throws
// std::runtime_error as Call::run() does.
[[noreturn]] void fail_for_peer(const Group& group, const std::string& text);

}  // namespace muster
