#include "runtime/comm/call.h"

#include <bit>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "runtime/comm/formation.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};
constexpr const char* kFailed = "failed";

struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The call that the training thread is in. If data arrives for a tensor that is too small, Gloo ends the
// process from one of Gloo's threads. Then explain_open_call() adds this call to the error message.
struct OpenCall {
  std::mutex mutex;
  const Group* group = nullptr;  // null: no call
  const std::function<std::string()>* text = nullptr;
  std::int64_t number = 0;
};
OpenCall& open_call() {
  static auto* one = new OpenCall;
  return *one;
}

std::string call_key(std::int64_t number) {
  return fmt::format("call/{}", number);
}

// Describes how this rank's operation differs from `first`, which is what another rank has written to the
// store. Returns "" if they are equal.
std::string difference(const std::string& first, int rank, const std::string& text) {
  const std::size_t space = first.find(' ');
  if (space == std::string::npos || first.substr(space + 1) == text) return {};
  return fmt::format("ranks are in different collectives: rank {} in {}, and rank {} in {}",
                     first.substr(0, space), first.substr(space + 1), rank, text);
}

std::string explain_open_call(const std::string& error) {
  if (!error.contains("gloo")) return {};
  OpenCall& mine = open_call();
  const std::lock_guard lock(mine.mutex);  // the training thread cannot leave its call meanwhile
  if (mine.group == nullptr) return {};
  const std::string text = (*mine.text)();
  const int rank = mine.group->job().rank();
  try {
    const auto store = connect_again(mine.group->store());
    const std::string first =
        store->compareSet(call_key(mine.number), std::string(), fmt::format("{} {}", rank, text));
    if (std::string why = difference(first, rank, text); !why.empty())
      return fmt::format(" ({})", store->compareSet(kFailed, std::string(), why));
    for (const auto pause : kPauses) wait_for_key(*store, kFailed, pause);
    if (store->check({kFailed})) return fmt::format(" ({})", store->get_to_str(kFailed));
  } catch (const std::exception&) {
    // The process that serves the store is gone.
  }
  return fmt::format(" (in {} in the {})", text, mine.group->description());
}

// Waits for the work, but not longer than `limit`. Returns true if the work has ended, and false if it has
// not. If the work has failed, throws its error.
bool ends_within(c10d::Work& work, std::chrono::milliseconds limit) {
  try {
    work.wait(limit);
    return true;
  } catch (const c10::Error&) {
    if (!work.isCompleted()) return false;
  }
  work.wait();  // the work has ended: with this error, or shortly after the timeout
  return true;
}

// Makes the threads of the group's backend stop. A rank that leaves the group would otherwise have to wait
// for them.
void break_off(const Group& group) {
  if (const auto backend = group.process_group()->getBackend(c10::kCPU); backend->getBackendName() != "gloo")
    return backend->abort();
  close_gloo(*group.process_group(), group.rank() == 0 ? 1 : 0);
}

}  // namespace

void close_gloo(c10d::ProcessGroup& group, int peer) {
  if (group.getBackend(c10::kCPU)->getBackendName() != "gloo") return;
  constexpr int kTagOfNobody = std::numeric_limits<int>::max();
  try {
    std::vector<at::Tensor> nothing{at::empty({1}, at::kByte)};
    group.recv(nothing, peer, kTagOfNobody)->wait(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // The wait always times out, because no rank sends with this tag. Gloo then closes the connections, which
    // is what this function is for.
  }
}

void require_member(const Group& group, const std::string& what) {
  if (!group.is_member())
    throw std::logic_error(
        fmt::format("{}: this rank, {}, is not in the {}", what, group.job().rank(), group.description()));
}

void refuse_if_given_up(const Group& group, const std::function<std::string()>& text) {
  if (const std::string failure = state_of(group).nccl_failure(); !failure.empty())
    throw CallError(fmt::format("{} in the {}: {}", text(), group.description(), failure));
}

Call::Call(const Group& group, std::function<std::string()> text) : group_(group), text_(std::move(text)) {
  static std::once_flag once;
  std::call_once(once, [] { explain_exceptions_of_threads_with(explain_open_call); });
  if (!group.is_member()) {
    const std::string what = text_();
    require_member(group, what.substr(0, what.find(' ')));
  }
  clear_presence(state_of(group_.job()));
}

void Call::refuse(const std::string& reason) const {
  throw std::invalid_argument(fmt::format("{} in the {}: {}", text_(), group_.description(), reason));
}

Call::InHand::InHand(const Call& call) : call_(call) {
  if (trace_file() != nullptr) begin_ = Clock::now();
  const std::lock_guard lock(open_call().mutex);
  open_call().group = &call.group_;
  open_call().number = call.number_ != 0 ? call.number_ : state_of(call.group_).call_count + 1;
  open_call().text = &call.text_;
}
Call::InHand::~InHand() {
  if (TraceFile* const trace = trace_file(); trace != nullptr && begin_ != TimePoint())
    trace->add(TraceTrack::kCommunication, fmt::format("{} ({})", call_.text_(), call_.group_.name()), begin_,
               Clock::now(), trace_argument("call", call_.number_));
  const std::lock_guard lock(open_call().mutex);
  open_call().group = nullptr;
}

// Connects to the store. Returns false if no process serves the store any more. Then this rank cannot find
// out what the other ranks do.
bool Call::reach_store() {
  if (store_ != nullptr) return true;
  if (store_is_gone(state_of(group_.job()))) return false;
  try {
    store_ = connect_again(group_.store());
  } catch (const std::exception&) {
    // The store has just gone.
  }
  return store_ != nullptr;
}

void Call::wait(c10d::Work& work, bool on_gpu) {
  step_time().meets(state_of(group_).key);
  const InStepPart waiting(kCommunicatePart);
  if (number_ == 0) number_ = ++state_of(group_).call_count;
  if (on_gpu) {
    try {
      work.wait();
    } catch (const c10::Error&) {
      refuse_if_given_up(group_, text_);
      throw;
    }
    return;
  }
  try {
    for (std::uint64_t looks = 1; !ends_within(work, kSilence); ++looks)
      look(/*for_gone=*/std::has_single_bit(looks));  // checks for gone ranks less and less often
    tidy_up();
  } catch (const CallError&) {
    throw;
  } catch (const std::exception&) {
    explain(current_exception_text());
  }
}

// Deletes the entry that this rank has written to the store for this call.
void Call::tidy_up() {
  if (!wrote_) return;
  try {
    store_->deleteKey(call_key(number_));
  } catch (const c10::Error&) {
    // The process that serves the store is gone.
  }
}

// If there is a known reason why this call cannot complete, throws it. If the store no longer exists, no
// reason is known.
void Call::look(bool for_gone) {
  if (!reach_store()) return;
  try {
    ask_store(for_gone);
  } catch (const c10::Error&) {
    store_ = nullptr;
    wrote_ = false;
  }
}

void Call::ask_store(bool for_gone) {
  const int rank = group_.job().rank();
  const std::string text = text_();
  const std::string mine = fmt::format("{} {}", rank, text);
  const std::string first = store_->compareSet(call_key(number_), std::string(), mine);
  wrote_ = wrote_ || first == mine;
  if (const std::string why = difference(first, rank, text); !why.empty()) fail(why);
  if (store_->check({kFailed})) fail("");
  if (!for_gone) return;
  // A member can leave after it has entered this call. It has then sent or received its part, so it is not
  // missing.
  const std::string gone = find_gone(state_of(group_.job()), group_.ranks(), [&](int member) {
    return calls_of_who_left(*store_, member) >= number_;
  });
  if (!gone.empty()) fail(gone);
}

// Throws CallError. The error contains `reason`, or the reason that another rank has already written to the
// store.
void Call::fail(const std::string& reason) {
  std::string first = reason;
  try {
    first = store_->compareSet(kFailed, std::string(), reason);
  } catch (const c10::Error&) {
    if (reason.empty()) throw;
  }
  break_off(group_);
  throw CallError(fmt::format("{} in the {}: {}", text_(), group_.description(), first));
}

void Call::explain(const std::string& error) {
  try {
    look(/*for_gone=*/true);
    for (const auto pause : kPauses) {
      if (store_ == nullptr) break;
      wait_for_key(*store_, kFailed, pause);
      look(/*for_gone=*/true);
    }
  } catch (const CallError& known) {
    const std::string text = known.what();
    throw CallError(text.contains(error) ? text : fmt::format("{} ({})", text, error));
  } catch (const c10::Error&) {
    // The process that serves the store has ended, too.
  }
  throw CallError(fmt::format("{} in the {}: {}", text_(), group_.description(), error));
}

void fail_for_peer(const Group& group, const std::string& text) {
  const std::string error = current_exception_text();
  refuse_if_given_up(group, [&] { return text; });
  const std::string gone = who_is_gone(state_of(group.job()), group.ranks());
  throw CallError(gone.empty()
                      ? fmt::format("{} in the {}: {}", text, group.description(), error)
                      : fmt::format("{} in the {}: {} ({})", text, group.description(), gone, error));
}

}  // namespace muster
