// This process's part in a group of ranks on one host: takes requests, works on them, and waits for the
// others.
//
// Collectives are worked on one after the other, in the order in which they were given; messages beside them.
// Whoever waits does the work: it then costs no change of threads. What is hurried and not waited for is done
// by a thread of the member's own, which sleeps else. Waits sleep in the kernel until another rank has done
// what is missing; every kLook they look whether that rank is still there.
// What goes wrong ends the group: this rank's requests end with the reason, later ones at once, and the
// others hear of it. Calls are safe from any thread.
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
  int rank = 0;                       // this one's place in the group
  std::vector<int> names;             // of the places, in messages: ranks of the job
  std::chrono::milliseconds limit{};  // how long it may be that nothing moves in what is waited for
};

class Member {
 public:
  // Returns when all ranks have come. kTimedOut names who has not; kUnavailable who has ended. `refused` is
  // asked now and then: what it says, if anything, is the error.
  static Expected<std::unique_ptr<Member>> join(Segment segment, MemberSettings settings,
                                                const std::function<std::string()>& refused);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  Board& board() { return board_; }
  const MemberSettings& settings() const { return settings_; }

  // Does at once what can be done at once, if that is little; or the thread does that is at work already.
  void start(std::shared_ptr<Request> request);
  // False if the time was over first.
  bool wait(Request& request, TimePoint until = TimePoint::max());
  bool test(Request& request);  // without waiting: whether it has ended
  void hurry(Request& request);
  // Ends what has not ended, here and with the others, for this reason.
  void give_up(const std::string& reason);
  // The same in good order: requests of the others that need this rank end with an error.
  void leave();
  // Whether the caller is the member's own thread, which cannot end itself.
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Member(Segment segment, MemberSettings settings);
  Status wait_for_all(const std::function<std::string()>& refused);
  void run();

  // Whoever holds the oar works on the requests; one thread at a time.
  template <class Enough>
  void row(Lock& lock, std::uint64_t me, TimePoint until, const Enough& enough);
  void row_once(Lock& lock);
  void row_what_is_little(Lock& lock);  // that was given while another thread held the oar
  bool may_take_oar() const { return oar_ == 0 || (oar_is_threads_ && asleep_ && !borrowed_); }
  std::uint64_t take_oar(bool thread);
  void give_back();
  void tell(Lock& lock);

  // Of who holds it. Those with a Lock give it up for a while.
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
  std::vector<UniqueFd> processes_;  // of the ranks
  bool processor_for_each_ = false;

  // Of who holds the oar.
  Messages messages_;
  Board board_;
  std::deque<std::shared_ptr<Collective>> collectives_;
  std::vector<std::shared_ptr<Request>> ended_;
  std::string wrong_;  // with what is being worked on
  TimePoint looked_at_{};

  std::mutex mutex_;  // for what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Request>> given_;  // not yet taken by who holds the oar
  std::vector<std::shared_ptr<Request>> to_tell_;
  std::string to_break_for_;  // asked for by who does not hold the oar
  std::string broken_;        // why no more is done
  std::uint64_t oar_ = 0;     // who holds it; 0: nobody
  std::uint64_t last_oar_ = 0;
  bool oar_is_threads_ = false, asleep_ = false, borrowed_ = false, leaving_ = false, stopping_ = false;
  int waiting_ = 0;  // threads in wait()
  int hurried_ = 0;  // requests that have not ended
  std::jthread thread_;
};

}  // namespace muster::shm
