// This process's part in a group of ranks on one host. It takes requests, works on them, and waits for the
// other ranks.
//
// Collectives run one after the other, in the order of start(). Messages run at the same time. If a thread
// waits for a request, it does the work itself, because handing the work to another thread takes time. The
// member's own thread works only on requests that are hurried (Request::hurried) and for which no thread
// waits. Otherwise it sleeps.
//
// A thread that cannot continue sleeps in the kernel until another rank has made progress. After each kLook,
// it checks whether that rank still exists. An error ends the whole group. All requests of this rank end with
// the reason, and later requests end with it at once. The other ranks see the reason, too.
//
// Any thread can call the functions.
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
// - At most one thread has the oar. That thread got a number when it took the oar. oar_ is this number. It is
//   0 if no thread has the oar.
// - mutex_ guards the members below it. The thread with the oar releases mutex_ while it works and while it
//   sleeps. It locks mutex_ to change those members.
// - Only the thread with the oar uses messages_, board_, collectives_, ended_ and wrong_.
// - The member's own thread can sleep while it has the oar (asleep_). Then another thread can take the oar
//   from it, or borrow the oar for a moment (borrowed_). After its sleep, the member's thread waits until
//   borrowed_ is false. If oar_ has changed by then, it stops.
// - A request is in one place at a time. It is in given_ until the thread with the oar takes it. Then it is
//   in collectives_ or messages_ until it ends, and in to_tell_ until on_end() is called. No lock is held
//   during on_end().
// - Once broken_ is set, it never changes. Every request then ends with that reason.
// - A thread that is about to sleep sets sleeps_for, and then checks for progress again. A rank that has made
//   progress publishes the progress, and then reads sleeps_for. Each of the two has a fence between its two
//   steps. So the thread that sleeps is always woken.
class Member {
 public:
  // Joins the group. Returns when all ranks have joined. If some ranks do not come in time, returns
  // kTimedOut, which names them. If a rank has ended, returns kUnavailable, which names it. join() calls
  // `refused` from time to time. If `refused` returns a text that is not empty, join() returns
  // kInvalidArgument with this text.
  static Expected<std::unique_ptr<Member>> join(Segment segment, MemberSettings settings,
                                                const std::function<std::string()>& refused);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  Board& board() { return board_; }
  const MemberSettings& settings() const { return settings_; }

  // Begins the request. If the request is small, it progresses as far as possible before start() returns. But
  // if another thread is already working on requests, start() leaves the request to that thread.
  void start(std::shared_ptr<Request> request);
  // Waits until the request has ended, or until the time `until`. Returns false if the request has not ended.
  bool wait(Request& request, TimePoint until = TimePoint::max());
  bool test(Request& request);  // whether it has ended; does not wait
  void hurry(Request& request);
  // Ends the work of the whole group: all requests that have not ended, on this rank and on the other ranks,
  // end with this reason.
  void give_up(const std::string& reason);
  // Leaves the group in good order. After that, if a request of another rank still needs something from this
  // rank, the request ends with an error.
  void leave();
  // Returns true on the member's own thread. This thread must not destroy the member.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Member(Segment segment, MemberSettings settings);
  Status wait_for_all(const std::function<std::string()>& refused);
  void run();

  // row() works on requests until one of these is true: `enough` returns true, the time `until` has come, or
  // on_end() of a request must be called. row_once() works once on all requests.
  template <class Enough>
  void row(Lock& lock, std::uint64_t me, TimePoint until, const Enough& enough);
  void row_once(Lock& lock);
  void row_what_is_little(Lock& lock);  // works on small requests that arrived while this thread had the oar
  bool may_take_oar() const { return oar_ == 0 || (oar_is_threads_ && asleep_ && !borrowed_); }
  std::uint64_t take_oar(bool thread);
  void give_back();
  void tell(Lock& lock);

  // Only the thread that has the oar, that is, the right to work on requests, can call these functions. If a
  // function takes a Lock, it releases the lock for some time.
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

  // Only the thread with the oar uses these members. The oar is the right to work on requests.
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
