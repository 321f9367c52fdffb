#include "runtime/comm/shm/member.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/quiet_thread.h"

namespace muster::shm {
namespace {

constexpr std::chrono::hours kForever{1};

// Returns whether the request is so small that start() works on it at once, and does not leave it to another
// thread.
bool is_little(const std::shared_ptr<Request>& request) {
  constexpr std::size_t kLittle = std::size_t{64} << 10;
  const auto* const collective = dynamic_cast<const Collective*>(request.get());
  return collective == nullptr || collective->bytes <= kLittle;
}

int processor_count() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool has_ended(const UniqueFd& process) {
  pollfd waiting{process.get(), POLLIN, 0};
  return process && poll(&waiting, 1, 0) > 0;
}

std::string reason_of(const RankState& state) {
  return {state.reason, strnlen(state.reason, sizeof state.reason)};
}

}  // namespace

Member::Member(Segment segment, MemberSettings settings)
    : segment_(std::move(segment)),
      settings_(std::move(settings)),
      processes_(static_cast<std::size_t>(segment_.ranks())),
      processor_for_each_(segment_.ranks() <= processor_count()),
      messages_(segment_, settings_.rank),
      board_(segment_, messages_, settings_.rank) {}

Expected<std::unique_ptr<Member>> Member::join(Segment segment, MemberSettings settings,
                                               const std::function<std::string()>& refused) {
  std::unique_ptr<Member> member(new Member(std::move(segment), std::move(settings)));
  RankState& mine = member->segment_.state(member->settings_.rank);
  mine.pid = static_cast<std::uint32_t>(getpid());
  mine.presence = Presence::kHere;
  member->segment_.announce(member->settings_.rank);
  if (Status all = member->wait_for_all(refused); !all) {
    member->break_off(all.error().message());
    return std::unexpected(all.error());
  }
  member->thread_ =
      start_quiet_thread("muster-shm", [one = member.get()](const std::stop_token&) { one->run(); });
  return member;
}

Member::~Member() {
  leave();
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  wake(segment_.state(settings_.rank).call);
  wake(segment_.state(settings_.rank).bell);
}

Status Member::wait_for_all(const std::function<std::string()>& refused) {
  RankState& mine = segment_.state(settings_.rank);
  const TimePoint end = Clock::now() + settings_.limit;
  std::vector<int> missing;
  std::string unseen;  // the error if a rank has ended, or cannot be watched
  const auto look_around = [&] {
    missing.clear();
    for (int rank = 0; rank < segment_.ranks(); ++rank) {
      UniqueFd& process = processes_[static_cast<std::size_t>(rank)];
      if (segment_.state(rank).presence == Presence::kAbsent)
        missing.push_back(rank);
      else if (!process && rank != settings_.rank) {
        process.reset(static_cast<int>(syscall(SYS_pidfd_open, segment_.state(rank).pid.load(), 0)));
        if (process) continue;
        const int error = errno;
        const RankState& state = segment_.state(rank);
        const Presence presence = state.presence;
        // A process that has left in good order does not need to be watched. If a request still needs
        // something from that rank, the request fails by itself.
        if (error == ESRCH && presence == Presence::kLeft) continue;
        if (error != ESRCH)
          unseen = fmt::format("the process of {} cannot be watched: {}", names_of({rank}),
                               strerrordesc_np(error));
        else
          unseen = presence == Presence::kGaveUp ? reason_of(state) : names_of({rank}) + " has ended";
      }
    }
    return missing.empty();
  };
  while (true) {
    const std::uint32_t bell = mine.bell;
    mine.sleeps_for = ~std::uint64_t{0};
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (look_around()) break;
    sleep_on(mine.bell, bell, kLook);
    if (look_around()) break;
    if (!unseen.empty()) return failure(ErrorCode::kUnavailable, "{}", unseen);
    if (std::string reason = refused(); !reason.empty())
      return failure(ErrorCode::kInvalidArgument, "{}", reason);
    for (int rank = 0; rank < segment_.ranks(); ++rank) {
      const std::string wrong = what_is_wrong_with({rank}, true, true);
      // It is not an error if the other rank has joined and has already left again. A rank leaves only after
      // it has seen that all ranks have joined. So this rank will see that, too.
      if (!wrong.empty() && segment_.state(rank).presence != Presence::kLeft)
        return failure(ErrorCode::kUnavailable, "{}", wrong);
    }
    if (Clock::now() >= end)
      return failure(ErrorCode::kTimedOut, "{} did not join within {} ms", names_of(missing),
                     settings_.limit.count());
  }
  mine.sleeps_for = 0;
  if (!unseen.empty()) return failure(ErrorCode::kUnavailable, "{}", unseen);
  return {};
}

// Public functions.

void Member::start(std::shared_ptr<Request> request) {
  const bool at_once = is_little(request);
  Lock lock(mutex_);
  const bool hurried = request->hurried;
  if (hurried) ++hurried_;
  given_.push_back(std::move(request));
  if (!broken_.empty()) {
    const std::string reason = broken_;
    break_off(reason);
  } else if (may_take_oar() && at_once) {
    row_once(lock);
  } else if (oar_ == 0) {
    if (hurried) wake(segment_.state(settings_.rank).call);
  } else if (asleep_ && (hurried || !oar_is_threads_)) {
    wake(segment_.state(settings_.rank).bell);
  }
  tell(lock);
}

bool Member::wait(Request& request, TimePoint until) {
  if (request.ended()) return true;
  Lock lock(mutex_);
  ++waiting_;
  ++request.waited_for_;
  while (!request.ended()) {
    if (may_take_oar()) {
      const std::uint64_t me = take_oar(/*thread=*/false);
      row(lock, me, until, [&] { return request.ended(); });
      row_what_is_little(lock);
      oar_ = 0;
      tell(lock);
    } else {
      changed_.wait_until(lock, until);
    }
    if (until != TimePoint::max() && Clock::now() >= until) break;
  }
  --request.waited_for_;
  --waiting_;
  give_back();
  return request.ended();
}

bool Member::test(Request& request) {
  if (request.ended()) return true;
  Lock lock(mutex_);
  if (broken_.empty() && may_take_oar()) row_once(lock);
  tell(lock);
  return request.ended();
}

void Member::hurry(Request& request) {
  const Lock lock(mutex_);
  if (request.hurried || request.ended()) return;
  request.hurried = true;
  ++hurried_;
  if (oar_ == 0) wake(segment_.state(settings_.rank).call);
}

void Member::give_up(const std::string& reason) {
  Lock lock(mutex_);
  if (!broken_.empty()) return;
  if (may_take_oar()) {
    break_off(reason);
  } else {
    to_break_for_ = reason;
    wake(segment_.state(settings_.rank).bell);
  }
  tell(lock);
}

void Member::leave() {
  {
    const Lock lock(mutex_);
    leaving_ = true;
  }
  give_up("this rank has left the group");
}

// The oar.

std::uint64_t Member::take_oar(bool thread) {
  oar_is_threads_ = thread;
  asleep_ = false;
  return oar_ = ++last_oar_;
}

void Member::give_back() {
  if (oar_ != 0) return;
  if (waiting_ > 0)
    changed_.notify_all();
  else if (hurried_ > 0)
    wake(segment_.state(settings_.rank).call);
}

// Calls on_end() for the requests that have ended. It releases `lock` during the calls. The caller must not
// hold a lock that on_end() needs.
void Member::tell(Lock& lock) {
  if (to_tell_.empty()) return;
  const auto all = std::exchange(to_tell_, {});
  lock.unlock();
  for (const auto& each : all) each->on_end();
  lock.lock();
}

void Member::run() {
  RankState& mine = segment_.state(settings_.rank);
  Lock lock(mutex_);
  while (!stopping_) {
    const std::uint32_t seen = mine.call;
    bool again = false;
    if (oar_ == 0 && broken_.empty()) {
      const std::uint64_t me = take_oar(/*thread=*/true);
      row(lock, me, TimePoint::max(), [&] { return hurried_ == 0 || stopping_; });
      if (oar_ == me) {
        row_what_is_little(lock);
        oar_ = 0;
        again = !to_tell_.empty();
        tell(lock);
        if (waiting_ > 0) changed_.notify_all();
      }
    }
    if (again) continue;
    lock.unlock();
    sleep_on(mine.call, seen, kForever);
    lock.lock();
  }
}

template <class Enough>
void Member::row(Lock& lock, std::uint64_t me, TimePoint until, const Enough& enough) {
  for (bool slept = false; oar_ == me;) {
    take_given();
    const bool moved = advance_unlocked(lock);
    if (!moved && slept) look(lock);
    if (enough() || !to_tell_.empty() || !broken_.empty()) return;
    if (moved) continue;
    if (until != TimePoint::max() && Clock::now() >= until) return;
    slept = false;
    if (look_for_a_moment(lock)) continue;
    sleep(lock, me, until);
    if (!broken_.empty()) return;  // a thread that borrowed the oar has ended the group meanwhile
    slept = true;
  }
}

// Works once on all requests. Call it only if may_take_oar() is true. The member's own thread may be asleep
// and have the oar, that is, the right to work on requests. Then this function borrows the oar, and that
// thread goes on sleeping.
void Member::row_once(Lock& lock) {
  if (oar_ == 0) {
    take_oar(/*thread=*/false);
    take_given();
    advance_unlocked(lock);
    oar_ = 0;
    give_back();
    return;
  }
  borrowed_ = true;
  bool again = true;
  while (again) {
    take_given();
    again = set_alarm(lock) && broken_.empty();
  }
  borrowed_ = false;
  changed_.notify_all();
}

void Member::row_what_is_little(Lock& lock) {
  while (broken_.empty() && std::ranges::any_of(given_, is_little)) {
    take_given();
    advance_unlocked(lock);
  }
}

void Member::take_given() {
  for (auto& each : std::exchange(given_, {})) {
    if (auto collective = std::dynamic_pointer_cast<Collective>(each))
      collectives_.push_back(std::move(collective));
    else
      messages_.add(std::static_pointer_cast<Message>(std::move(each)));
  }
}

bool Member::advance() {
  bool moved = messages_.advance(ended_);
  while (!collectives_.empty()) {
    Collective& first = *collectives_.front();
    if (Until* const until = first.steps.waits_for(); until != nullptr && !until->ready()) break;
    moved = true;
    first.still_since_ = TimePoint();
    try {
      if (!first.steps.go_on()) continue;
    } catch (const Mismatch& other) {
      wrong_ =
          fmt::format("ranks are in different collectives: {} in {}, and {} in {}",
                      names_of({settings_.rank}), first.text(), names_of({other.rank}), text_of(other.other));
      return true;
    } catch (const std::exception& error) {
      wrong_ = error.what();
      return true;
    }
    ended_.push_back(std::move(collectives_.front()));
    collectives_.pop_front();
  }
  return moved;
}

bool Member::advance_unlocked(Lock& lock) {
  lock.unlock();
  const bool moved = advance();
  lock.lock();
  for (auto& each : std::exchange(ended_, {})) {
    if (each->hurried) --hurried_;
    each->ended_.store(true, std::memory_order_release);
    to_tell_.push_back(std::move(each));
    if (waiting_ > 0) changed_.notify_all();
  }
  if (!to_break_for_.empty()) wrong_ = std::exchange(to_break_for_, {});
  if (wrong_.empty()) return moved;
  break_off(std::exchange(wrong_, {}));
  return true;
}

// Before a thread sleeps, it calls this function, which checks for progress for a moment. If each rank has a
// processor of its own, the other ranks will arrive soon.
//
// If ranks share processors, other ranks may be waiting for this processor. So this function gives the
// processor away between the checks, by sched_yield(). Passing a processor from rank to rank in this way
// costs less than sleeping and being woken. This was measured with four ranks on two cores: with the yields,
// 64 MiB take four fifths of the time, and 4 KiB take half of it. More than kYields yields change nothing.
bool Member::look_for_a_moment(Lock& lock) {
  constexpr int kLooks = 300;
  constexpr int kYields = 10;
  for (int turn = 0; turn < (processor_for_each_ ? kLooks : kYields) && given_.empty(); ++turn) {
    lock.unlock();
    if (processor_for_each_)
      pause_processor();
    else
      sched_yield();
    lock.lock();
    if (advance_unlocked(lock)) return true;
  }
  return false;
}

std::uint64_t Member::mask() const {
  std::uint64_t bits = messages_.mask();
  if (!collectives_.empty())
    if (const Until* const until = collectives_.front()->steps.waits_for(); until != nullptr)
      if (const std::vector<int> missing = until->missing(); !missing.empty())
        bits |= std::uint64_t{1} << (missing.front() % 64);
  return bits;
}

// The calling thread waits for some ranks and wants to sleep. Asks these ranks to wake the thread. Returns
// true if the thread must not sleep yet, for one of these reasons: there has been progress, there is a new
// request, or the thread now waits for another rank.
bool Member::set_alarm(Lock& lock) {
  std::atomic<std::uint64_t>& sleeps_for = segment_.state(settings_.rank).sleeps_for;
  sleeps_for = mask();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool moved = advance_unlocked(lock);
  return moved || !given_.empty() || (mask() & ~sleeps_for.load()) != 0;
}

void Member::sleep(Lock& lock, std::uint64_t me, TimePoint until) {
  RankState& mine = segment_.state(settings_.rank);
  const std::uint32_t bell = mine.bell;
  if (set_alarm(lock) || !broken_.empty()) {
    mine.sleeps_for = 0;
    return;
  }
  asleep_ = true;
  lock.unlock();
  Duration limit = kLook;
  if (until != TimePoint::max()) limit = std::clamp<Duration>(until - Clock::now(), Duration(0), kLook);
  sleep_on(mine.bell, bell, limit);
  lock.lock();
  changed_.wait(lock, [&] { return !borrowed_; });
  if (oar_ != me) return;
  asleep_ = false;
  mine.sleeps_for = 0;
}

// Errors.

void Member::look(Lock& lock) {
  const TimePoint now = Clock::now();
  const bool timely = now - looked_at_ >= kLook;
  if (timely) looked_at_ = now;
  std::string wrong = find_wrong(timely, timely);
  // A rank that has left may have done its part just before. So this code first checks for progress once
  // more.
  if (wrong.empty() || advance_unlocked(lock) || !broken_.empty()) return;
  break_off(wrong);
}

bool Member::over_time(Request& request) const {
  const auto limit = request.limit.count() > 0 ? request.limit : settings_.limit;
  const TimePoint now = Clock::now();
  if (request.still_since_.load() == TimePoint()) request.still_since_ = now;
  return now - request.still_since_.load() >= limit;
}

std::string Member::find_wrong(bool at_processes, bool at_times) {
  const auto late = [&](Request& request, const std::vector<int>& ranks) {
    if (!at_times || !over_time(request)) return std::string();
    const auto limit = request.limit.count() > 0 ? request.limit : settings_.limit;
    return fmt::format("timed out after {} ms waiting for {}", limit.count(), names_of(ranks));
  };
  if (!collectives_.empty() && collectives_.front()->steps.waits_for() != nullptr) {
    const std::vector<int> missing = collectives_.front()->steps.waits_for()->missing();
    if (std::string wrong = what_is_wrong_with(missing, at_processes, true); !wrong.empty()) return wrong;
    if (std::string wrong = late(*collectives_.front(), missing); !wrong.empty()) return wrong;
  }
  for (const auto& each : messages_.pending()) {
    // A receive request for which no thread waits is left out. The caller may have begun it early and may no
    // longer need it.
    if (each->waited_for_ == 0 && !each->hurried) continue;
    const std::vector<int> missing = messages_.missing(*each);
    if (std::string wrong = what_is_wrong_with(missing, at_processes, missing.size() == 1); !wrong.empty())
      return wrong;
    if (each->waited_for_ == 0) continue;
    if (std::string wrong = late(*each, missing); !wrong.empty()) return wrong;
  }
  return {};
}

// Checks the ranks for which a request waits. Returns a text that says what is wrong, or "" if nothing is
// wrong. If a rank has given up, this is always an error. If `all_needed` is true, it is also an error if one
// of the ranks has left or ended. If `all_needed` is false, each of the ranks could send what the request
// needs. Then it is an error only if all of them have left or ended.
std::string Member::what_is_wrong_with(const std::vector<int>& ranks, bool at_processes,
                                       bool all_needed) const {
  std::string last;
  std::size_t gone = 0;
  for (const int rank : ranks) {
    const RankState& state = segment_.state(rank);
    // Checks the process before `presence`, because a process that has ended may have set `presence` just
    // before.
    const bool ended = at_processes && has_ended(processes_[static_cast<std::size_t>(rank)]);
    const Presence presence = state.presence;
    if (presence == Presence::kGaveUp) return reason_of(state);
    if (presence != Presence::kLeft && !ended) continue;
    last = names_of({rank}) + (presence == Presence::kLeft ? " has left the group" : " has ended");
    ++gone;
  }
  return all_needed || gone == ranks.size() ? last : std::string();
}

std::string Member::names_of(const std::vector<int>& ranks) const {
  std::vector<int> names;
  for (const int rank : ranks) names.push_back(settings_.names[static_cast<std::size_t>(rank)]);
  return fmt::format("rank{} {}", names.size() > 1 ? "s" : "", fmt::join(names, ", "));
}

void Member::tell_others(const std::string& reason) {
  RankState& mine = segment_.state(settings_.rank);
  std::strncpy(mine.reason, reason.c_str(), sizeof mine.reason - 1);
  mine.presence = leaving_ ? Presence::kLeft : Presence::kGaveUp;
  for (int rank = 0; rank < segment_.ranks(); ++rank)
    if (segment_.state(rank).sleeps_for != 0) wake(segment_.state(rank).bell);
}

void Member::break_off(const std::string& reason) {
  if (broken_.empty()) {
    broken_ = reason;
    tell_others(reason);
  }
  take_given();
  std::vector<std::shared_ptr<Request>> all(collectives_.begin(), collectives_.end());
  for (auto& each : messages_.pending()) all.push_back(std::move(each));
  collectives_.clear();
  messages_.clear();
  for (auto& each : all) {
    if (each->hurried) --hurried_;
    each->error_ = fmt::format("{}: {}", each->text(), reason);
    each->ended_.store(true, std::memory_order_release);
    to_tell_.push_back(std::move(each));
  }
  changed_.notify_all();
}

}  // namespace muster::shm
