// Runs one collective of a group on this rank: waits for it, and finds the reason if it does not complete.
//
// If a rank has waited for a second, it writes its operation to the group's store, under the number of the
// call. Another rank may already have written an operation under this number. If that is a different
// operation, the reason is found. A waiting rank also checks whether the process of another member has ended.
// The first rank that finds a reason writes it to the store. Then the call ends with this reason on all ranks
// that still wait or have failed. If all calls complete in time, these checks cost nothing.
//
// Use a Call on one thread.
#pragma once

#include <functional>
#include <muster/comm/group.h>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "common/base/clock.h"

namespace muster {

// If this rank is not in the group, throws std::logic_error, with `what` in the message.
void require_member(const Group& group, const std::string& what);
// If NCCL has given up the group, throws std::runtime_error. The message begins with text().
void refuse_if_given_up(const Group& group, const std::function<std::string()>& text);

class Call {
 public:
  // `text` returns a description of the call, such as "all_reduce of Float [4]", which must be equal on all
  // members. Any thread can call `text` if the call takes long, fails or is traced. The group and everything
  // that `text` uses must live longer than the call. If this rank is not a member of the group, throws
  // std::logic_error.
  Call(const Group& group, std::function<std::string()> text);
  // Starts the collective, or the next part of it, and waits until it has ended. For work on a GPU, run()
  // returns at once, and only the current stream waits. If torch refuses the arguments, throws
  // std::invalid_argument with torch's message. If the call does not complete, throws std::runtime_error,
  // which names the call, the group and the reason.
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
  // An InHand marks its Call as the training thread's current call, as long as the InHand exists. Create the
  // InHand before the collective starts: if another rank has already sent data of the wrong size, Gloo ends
  // this process as soon as the collective starts.
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

// Closes the connections of the group's Gloo backend, if the group has one. Gloo has no function for this.
// But when a wait times out, Gloo closes all connections of the group. So this function waits for a message
// that never comes from the member at place `peer`, until the wait times out. This rank must already be
// connected to that member.
void close_gloo(c10d::ProcessGroup& group, int peer);

// If the group has NCCL, connects this rank with the rank at place `peer`. Without this call, the first
// message between the two ranks would have to connect them. Both ranks must call this function. A rank that
// connects with several places must do so in ascending order. If it fails, throws std::runtime_error, which
// names the peer.
void connect_for_messages(const Group& group, int peer);

// Call it in the handler of an error that occurred in an operation between two members. `text` describes the
// operation. This function finds the reason and throws std::runtime_error, as Call::run() does.
[[noreturn]] void fail_for_peer(const Group& group, const std::string& text);

}  // namespace muster
