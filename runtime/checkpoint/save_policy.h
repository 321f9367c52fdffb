// Decides when a training saves: after which steps it saves to the disk, after which steps it saves to the
// memory of the node, when it tries again after a failed save, and after which step it exits because of a
// preemption.
//
// This class does not use torch, the clock, threads or files. The Checkpointer tells the policy what has
// happened and when it happened. The policy answers what to do and why. On all ranks, the policies get the
// same events at the same steps. So they make the same decisions without any communication. Only rank 0 looks
// at the clock. The Checkpointer passes the result to the policies of all ranks, in the form of an event.
//
// Use a policy on the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster {

// Estimates the time between two failures of a training. The training has failed `failures` times in the time
// `observed`. `expected` is the estimate that was made before the training began. This estimate counts like
// an earlier training that has failed once, in the time `expected`.
Seconds mean_time_between_failures(Seconds expected, int failures, Seconds observed);

// Decides how long rank 0 waits between two saves. This is either a fixed time, or the time with which
// failures and saves together cost the training least.
//
// Invariants: `last_save_` is the time when the newest save began. If there was no save yet, it is the time
// of the first call of look(). look() compares the interval with the time that has passed since then.
// `held_up_` and `until_committed_` belong to the newest committed save.
class SaveInterval {
 public:
  // `fixed` is the time between two saves. If it is empty, Young's formula computes this time for a training
  // that fails once in the time `between_failures`.
  SaveInterval(std::optional<Seconds> fixed, Seconds between_failures)
      : fixed_(fixed), between_failures_(between_failures) {}

  struct Look {
    bool saves = false;
    std::int64_t next_step = 0;  // look again after this step
  };
  Look look(std::int64_t step, TimePoint now);

  // Call it when a save is committed. The save began at `when`. It stopped training for the time `held_up`.
  // The time from `when` to the commit was `until_committed`.
  void saved(TimePoint when, Seconds held_up, Seconds until_committed);

  Seconds interval() const;
  // Returns a text with Young's formula and its numbers. Returns nothing in two cases: the interval is fixed,
  // or it differs by less than a quarter from the interval in the previous text.
  std::optional<std::string> explanation();

 private:
  std::optional<Seconds> fixed_;
  Seconds between_failures_;
  Seconds held_up_{1};  // a guess, until the first save
  Seconds until_committed_{0};
  std::optional<TimePoint> last_save_;
  std::optional<TimePoint> last_look_;
  std::int64_t step_of_last_look_ = 0;
  std::optional<Seconds> explained_;
};

// Counts failed saves that follow each other, so that the user is told each cause only once.
class FailedSaves {
 public:
  // Call it when a save has failed. If the previous save failed for the same cause, repeats() counts the save
  // and returns true: the user already knows the cause.
  bool repeats(const std::string& cause);
  // Call it when the save of `step` has failed for a new cause. Tell the user this cause.
  void begin(std::int64_t step, std::string cause);
  // Call it when the cause of the failures is gone. Returns a line for the user if more than one save failed.
  std::optional<std::string> end();

 private:
  std::string cause_;
  std::int64_t first_step_ = 0;
  int count_ = 0;
};

struct SaveSetting {
  std::int64_t every = 0;         // steps from one save to the next; 0: by time alone
  std::int64_t memory_every = 0;  // steps from one copy in memory to the next; 0: no copies
  std::optional<SaveInterval> interval = std::nullopt;  // rank 0's clock decides as well; none: steps alone
  std::optional<std::uint64_t> unread = std::nullopt;   // a step in the directory that nobody has restored
};

struct SaveDecision {
  enum class Action { kNothing, kSave, kHoldInMemory, kPrepareMemory };
  Action action = Action::kNothing;
  std::string_view reason = "nothing is due";
  bool leaves = false;  // training exits once the save is committed
  bool operator==(const SaveDecision&) const = default;
};

// The Checkpointer passes these events to on().
struct StepDone {
  bool is_preemption_noticed = false;
};
struct StopHeard {
  std::optional<std::int64_t> step = std::nullopt;  // all ranks stop after this step; none: not agreed yet
};
struct ClockHeard {
  SaveInterval::Look look;  // rank 0's answer
};
struct SaveBegun {};
struct StateCopied {};  // training goes on while the copy is written
struct SaveEnded {
  Status outcome;
  TimePoint when;
};
struct RestoreBegun {};
struct RestoreEnded {
  std::int64_t step = 0;
  bool is_on_disk = false;  // the step that was restored is a checkpoint on the disk
};

// Invariants, between two calls:
// - `steps_` is the step that training has completed. Only StepDone and RestoreEnded change it.
// - `last_tried_` is the step of the newest save that has begun. After a restore from the disk, it is the
//   step that was restored. `tries_` counts the saves of this step. The name of a save consists of the number
//   of restores, the step and `tries_`. It is the same on all ranks, and no other save has it.
// - `outcome_` is the outcome of the newest save that has ended. Before the first save and after a restore,
//   it is success. There is never more than one save between its SaveBegun and its SaveEnded.
// - `newest_committed_` is the newest step that is certainly on the disk.
// - `next_look_` is the step after which rank 0 looks at its clock again. It is the same on all ranks. It is
//   greater than the step of the previous look.
// - The policy decides only once to save and exit. If that save fails, leaving() says what to do.
class SavePolicy {
 public:
  explicit SavePolicy(SaveSetting setting = {}) : setting_(std::move(setting)) {}

  // The policy asks the Checkpointer these questions. The Checkpointer answers them, in this order, before it
  // calls after_step().
  struct Questions {
    bool stop = false;     // after which step do all ranks stop? The answer is StopHeard
    bool prepare = false;  // prepare for the first save now; needs no answer
    bool clock = false;    // is a save due by rank 0's clock? Rank 0 asks look(); the answer is ClockHeard
  };
  Questions on(const StepDone& event);
  struct StopNews {
    bool is_new = false;     // all ranks have just agreed on the step
    bool is_missed = false;  // this rank has already done more steps than that
  };
  StopNews on(const StopHeard& event);
  // If Questions::clock is set, rank 0 calls look(). The policies of all ranks must then get the answer of
  // look(), in a ClockHeard.
  SaveInterval::Look look(TimePoint now) { return setting_.interval->look(steps_, now); }
  std::optional<std::string> explain_interval() { return setting_.interval->explanation(); }
  void on(const ClockHeard& event);
  SaveDecision after_step();

  // Call it when the program asks to save the current step. No other save may be in progress then.
  SaveDecision on_request() const;

  // Returns the name of the save that begins.
  std::string on(const SaveBegun& event, TimePoint now);
  void on(const StateCopied& event, TimePoint now);
  void on(const SaveEnded& event);
  // The outcome of a save after which training should exit.
  enum class Leaving {
    kLeaves,   // the save is committed
    kGoesOn,   // the save failed; the next save may succeed
    kRefused,  // the state must not be committed, so no other save would succeed
  };
  Leaving leaving() const;

  // Returns a name for the restore that begins now. All ranks get the same name.
  std::string on(const RestoreBegun& event);
  void on(const RestoreEnded& event);

  // If the directory has a checkpoint that nobody has loaded, and that later saves would replace, returns its
  // step.
  std::optional<std::uint64_t> unread() const { return setting_.unread; }
  // Returns a name for something that all ranks do together after this step, such as a save. All ranks get
  // the same name. No two steps get the same name.
  std::string name_of_step(std::string_view purpose) const;
  std::int64_t steps() const { return steps_; }
  const Status& outcome() const { return outcome_; }
  std::optional<std::int64_t> last_tried() const { return last_tried_; }
  std::optional<std::int64_t> newest_committed() const { return newest_committed_; }
  bool is_refusing() const { return is_refusing_; }  // since a save was refused, none has been committed

 private:
  SaveSetting setting_;
  std::int64_t steps_ = 0;
  int restores_ = 0;

  bool is_prepared_ = false;
  bool is_memory_prepared_ = false;
  std::int64_t next_look_ = 1;
  bool is_due_by_clock_ = false;  // after this step

  bool knows_stop_ = false;
  bool has_tried_to_leave_ = false;
  bool leaves_ = false;  // after this step

  std::optional<std::int64_t> last_tried_;
  int tries_ = 0;
  TimePoint begun_;    // when the save of last_tried_ began
  Seconds held_up_{};  // how long that save stopped training
  Status outcome_;
  bool is_refusing_ = false;
  std::optional<std::int64_t> newest_committed_;
};

}  // namespace muster
