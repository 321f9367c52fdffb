// One collective of a group, as this rank has entered it: waits for it, and finds out what is the matter when
// it does not end.
//
// A rank that has waited for a second writes into the group's store what it waits for; two that wait for
// different things under the same number find that out there. It looks as well whether another member's
// process is gone. What one rank finds is written down, once for the group, and ends all that wait or fail.
// Costs nothing while all goes well. For one thread.
#pragma once

#include <functional>
#include <muster/comm/group.h>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "common/base/clock.h"

namespace muster {

// std::logic_error in the name of `what` if this rank is not in the group.
void require_member(const Group& group, const std::string& what);
// std::runtime_error if NCCL has given the group up.
void refuse_if_given_up(const Group& group, const std::function<std::string()>& text);

class Call {
 public:
  // `text` says what must be the same on all members: "all_reduce of Float [4]"; it is asked for by any
  // thread, and only for a call that waits for long, fails or is traced. The group, and what `text` looks at,
  // outlive the call. std::logic_error if this rank is not a member.
  Call(const Group& group, std::function<std::string()> text);
  // Starts and waits for it, or for the next part of it. std::invalid_argument tells what torch says of its
  // arguments; std::runtime_error the call, the group and the reason why it does not end. Of work of GPUs the
  // current stream waits, and this returns.
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
  // While it lives, this is the call that the training thread is in: from before it is started, since what
  // another rank has sent already may end the process at once.
  class InHand {
   public:
    explicit InHand(const Call& call);
    InHand(const InHand&) = delete;
    InHand& operator=(const InHand&) = delete;
    ~InHand();

   private:
    const Call& call_;
    TimePoint begin_{};  // where there is a trace
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
  std::int64_t number_ = 0;                // 0: nothing has been started, so that the others need not come
  c10::intrusive_ptr<c10d::Store> store_;  // a connection of its own, once it is needed and can be had
  bool wrote_ = false;
};

// Closes the connections of a group's Gloo, if it has one. Gloo cannot be told to: it gives a whole group up
// when a wait in it has run out. `peer`: a place with which there is a connection.
void close_gloo(c10d::ProcessGroup& group, int peer);

// Connects this rank with the one at place `peer`, as their first message would. Over NCCL both must come,
// and a rank connects with several in ascending order. std::runtime_error names the peer. Without NCCL:
// nothing.
void connect_for_messages(const Group& group, int peer);

// In the handler of what ended something between two members, told by `text`: std::runtime_error as above.
[[noreturn]] void fail_for_peer(const Group& group, const std::string& text);

}  // namespace muster
