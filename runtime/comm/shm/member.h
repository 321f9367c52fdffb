// This process's part in a group of ranks on one host: takes requests, works on them, and waits for the other
// ranks.
//
// Collectives run one after the other, in the order of start(); messages run at the same time. A thread that
// waits for a request does the work itself, which saves a change of threads. The member's own thread works
// only on hurried requests (Request::hurried) that no thread waits for, and sleeps otherwise. A waiting
// thread sleeps in the kernel until another rank has made progress. Every kLook, it checks whether that rank
// is still there. An error ends the group: all requests of this rank end with the reason, later ones end at
// once, and the other ranks see the reason. Calls are safe from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "runtime/comm/shm/collectives.h"
#include "runtime/comm/shm/messages.h"
#include "runtime/comm/shm/request.h"
#include "runtime/comm/shm/segment.h"

namespace muster::shm {

constexpr std::chrono::milliseconds kLook{20};

struct MemberSettings {
  int rank = 0;                       // this rank's place in the group
  std::vector<int> names;             // for each place, its rank in the job, for error texts
  std::chrono::milliseconds limit{};  // an awaited request fails after this long without progress
};

// The oar is the right to work on requests. Invariants:
// - At most one thread holds the oar. oar_ is the number of that thread's turn; 0: no thread has the oar.
// - mutex_ guards the members below it. The thread with the oar releases mutex_ while it works and while it
//   sleeps, and takes it to change those members.
// - Only the thread with the oar uses messages_, board_, collectives_, ended_ and wrong_.
// - If the member's own thread has the oar and sleeps (asleep_), another thread can take the oar from it, or
//   borrow the oar for a moment (borrowed_). After its sleep, the member's thread waits until borrowed_ is
//   false. It stops if oar_ has changed.
// - A request is in one place at a time: in given_ until the thread with the oar takes it, in collectives_ or
//   messages_ until it ends, and in to_tell_ until on_end() is called. No lock is held during on_end().
// - Once broken_ is set, it never changes. Every request then ends with that reason.
// - A thread that is about to sleep sets sleeps_for, and then checks for progress again. A rank that has made
//   progress publishes the progress, and then reads sleeps_for. Each has a fence between its two steps, so no
//   wake-up is lost.
class Member {
 public:
  // Returns when all ranks have joined. kTimedOut names the missing ranks, kUnavailable a rank that has
  // ended. Calls `refused` from time to time; a text that is not empty becomes the error (kInvalidArgument).
  static Expected<std::unique_ptr<Member>> join(Segment segment, MemberSettings settings,
                                                const std::function<std::string()>& refused);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  Board& board() { return board_; }
  const MemberSettings& settings() const { return settings_; }

  // Begins the request. A small request progresses as far as it can before start() returns. If another thread
  // is working on requests, that thread works on this request instead.
  void start(std::shared_ptr<Request> request);
  // Returns false if the request has not ended by `until`.
  bool wait(Request& request, TimePoint until = TimePoint::max());
  bool test(Request& request);  // whether it has ended; does not wait
  void hurry(Request& request);
  // Ends all requests that have not ended, here and on the other ranks, for this reason.
  void give_up(const std::string& reason);
  // Leaves in good order. After that, other ranks' requests that need more from this rank end with an error.
  void leave();
  // True on the member's own thread, which cannot destroy the member.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Member(Segment segment, MemberSettings settings);
  Status wait_for_all(const std::function<std::string()>& refused);
  void run();

  // row() works on requests until `enough` returns true, until the time `until`, or until on_end() of a
  // request is due. row_once() makes one pass.
  template <class Enough>
  void row(Lock& lock, std::uint64_t me, TimePoint until, const Enough& enough);
  void row_once(Lock& lock);
  void row_what_is_little(Lock& lock);  // works on small requests that arrived while this thread had the oar
  bool may_take_oar() const { return oar_ == 0 || (oar_is_threads_ && asleep_ && !borrowed_); }
  std::uint64_t take_oar(bool thread);
  void give_back();
  void tell(Lock& lock);

  // Only for the thread with the oar, the right to work on requests. Functions with a Lock release the lock
  // for a while.
  bool advance();
  bool advance_unlocked(Lock& lock);
  void take_given();
  bool look_for_a_moment(Lock& lock);
  void sleep(Lock& lock, std::uint64_t me, TimePoint until);
  std::uint64_t mask() const;
  bool set_alarm(Lock& lock);
  void look(Lock& lock);
  std::string find_wrong(bool at_processes, bool at_times);
  std::string what_is_wrong_with(const std::vector<int>& ranks, bool at_processes, bool all_needed) const;
  std::string names_of(const std::vector<int>& ranks) const;
  bool over_time(Request& request) const;
  void tell_others(const std::string& reason);
  void break_off(const std::string& reason);

  const Segment segment_;
  const MemberSettings settings_;
  std::vector<UniqueFd> processes_;  // pidfds of the ranks
  bool processor_for_each_ = false;

  // Only for the thread with the oar, the right to work on requests.
  Messages messages_;
  Board board_;
  std::deque<std::shared_ptr<Collective>> collectives_;
  std::vector<std::shared_ptr<Request>> ended_;
  std::string wrong_;  // the error of the work in progress
  TimePoint looked_at_{};

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Request>> given_;  // not yet taken by the thread with the oar
  std::vector<std::shared_ptr<Request>> to_tell_;
  std::string to_break_for_;  // give_up()'s reason, for the thread with the oar
  std::string broken_;        // why the group has ended; empty: it has not
  std::uint64_t oar_ = 0;     // number of the current turn; 0: no thread has the oar
  std::uint64_t last_oar_ = 0;
  bool oar_is_threads_ = false, asleep_ = false, borrowed_ = false, leaving_ = false, stopping_ = false;
  int waiting_ = 0;  // threads in wait()
  int hurried_ = 0;  // hurried requests that have not ended
  std::jthread thread_;
};

}  // namespace muster::shm
