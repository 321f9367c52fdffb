// One worker of an attempt: the states that it can have, and the meaning of each event in each state.
//
// A table decides everything. Worker adds the pid, and remembers whether the worker was told to stop. Node
// passes the events to Worker. The result is an effect, which Node turns into an action. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/ids.h"

namespace muster::agent {

enum class WorkerState { kReady, kRunning, kStopping, kKilled, kEnded };
enum class WorkerEvent { kStarted, kNotStarted, kStopRequested, kKillRequested, kExited };
enum class WorkerEffect { kNone, kSignal, kKill };

constexpr std::size_t kWorkerStateCount = 5;
constexpr std::size_t kWorkerEventCount = 5;

struct WorkerTransition {
  WorkerState next{};
  WorkerEffect effect{};
  bool possible = false;  // false: only a bug in the agent can cause this event in this state
};

// The rows are the states, and the columns are the events. Both are in the order of their enums.
constexpr std::array<std::array<WorkerTransition, kWorkerEventCount>, kWorkerStateCount> kWorkerTable = [] {
  using enum WorkerState;
  using enum WorkerEffect;
  constexpr WorkerTransition bug{};
  constexpr auto to = [](WorkerState next, WorkerEffect effect) {
    return WorkerTransition{next, effect, true};
  };
  constexpr WorkerTransition end = to(kEnded, kNone);
  return std::array<std::array<WorkerTransition, kWorkerEventCount>, kWorkerStateCount>{{
      //             started              not started  stop requested          kill requested       exited
      /* ready    */ {to(kRunning, kNone), end, to(kEnded, kNone), to(kEnded, kNone), bug},
      /* running  */ {bug, bug, to(kStopping, kSignal), to(kKilled, kKill), end},
      /* stopping */ {bug, bug, to(kStopping, kNone), to(kKilled, kKill), end},
      /* killed   */ {bug, bug, to(kKilled, kNone), to(kKilled, kNone), end},
      /* ended    */ {bug, bug, to(kEnded, kNone), to(kEnded, kNone), bug},
  }};
}();

class Worker {
 public:
  // Enters the next state, and returns the effect that Node has to carry out. If the event is impossible in
  // this state, that is a bug, and the program stops.
  WorkerEffect on(WorkerEvent event);
  void started(std::int32_t pid);
  std::int32_t pid() const { return pid_; }                           // 0 until it was started
  bool running() const { return state_ == WorkerState::kRunning; }    // and was not told to stop
  bool stopping() const { return state_ == WorkerState::kStopping; }  // told to stop, not killed
  bool ended() const { return state_ == WorkerState::kEnded; }
  // Returns whether a signal was sent to the worker to stop it or to kill it.
  bool stop_requested() const { return stop_requested_; }

 private:
  WorkerState state_ = WorkerState::kReady;
  std::int32_t pid_ = 0;
  bool stop_requested_ = false;
};

}  // namespace muster::agent
