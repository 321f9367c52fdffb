// Decides when a training saves: after which steps to the disk, after which steps to the node's memory, when
// it tries a failed save again, and after which step it leaves because its machine is needed.
//
// Pure: no torch, no clock, no threads, no I/O. The Checkpointer tells the policy what has happened; the
// answers say what to do and why. Times are passed in. The policies of all ranks hear the same events at the
// same steps, so they decide alike without talking; rank 0's clock reaches the others as an event. Use a
// policy on the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster {

// Returns the expected time between two failures of a training that failed `failures` times in `observed`,
// and was expected to fail once in `expected`: the mean of a Poisson process, given these observations.
Seconds mean_time_between_failures(Seconds expected, int failures, Seconds observed);

// Decides how long rank 0 waits between two saves: a fixed time, or the time that costs the training least.
//
// Invariants: `last_save_` is when the newest save began, or the first look if there was no save. The
// interval is compared with the time since then. `held_up_` and `until_committed_` are measured at the newest
// save that was committed.
class SaveInterval {
 public:
  // `fixed`: the interval. None: Young's formula, for a training that fails once in `between_failures`.
  SaveInterval(std::optional<Seconds> fixed, Seconds between_failures)
      : fixed_(fixed), between_failures_(between_failures) {}

  struct Look {
    bool saves = false;
    std::int64_t next_step = 0;  // look again after this step
  };
  Look look(std::int64_t step, TimePoint now);

  // A save that began at `when` stopped training for `held_up`, and was committed `until_committed` after
  // `when`.
  void saved(TimePoint when, Seconds held_up, Seconds until_committed);

  Seconds interval() const;
  // Returns the formula with its numbers. Returns none if the interval is fixed, or if it differs by less
  // than a quarter from the interval in the last explanation.
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

// Counts saves that fail one after the other: the user is told a cause once, until it changes.
class FailedSaves {
 public:
  // Call it when a save has failed. Returns true if the cause is that of the save before it: nothing is told.
  bool repeats(const std::string& cause);
  // Call it when the save of this step has failed for a new cause, which the user is told.
  void begin(std::int64_t step, std::string cause);
  // Call it when the last cause is over. Returns a line about its saves, if the user was not told of each.
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
  std::optional<std::uint64_t> unread = std::nullopt;   // the step that the directory could resume from
};

struct SaveDecision {
  enum class Action { kNothing, kSave, kHoldInMemory, kPrepareMemory };
  Action action = Action::kNothing;
  std::string_view reason = "nothing is due";
  bool leaves = false;  // once the save is committed
  bool operator==(const SaveDecision&) const = default;
};

// Events.
struct StepDone {
  bool is_preemption_noticed = false;
};
struct StopHeard {
  std::optional<std::int64_t> step = std::nullopt;  // all ranks stop after this step; none: not agreed yet
};
struct ClockHeard {
  SaveInterval::Look look;  // rank 0's
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
// - `last_tried_` is the step of the save that began last, or the step restored from the disk. `tries_`
//   counts the saves of that step. Restores, step and tries together name a save: the name is the same on all
//   ranks, and no other save has it.
// - `outcome_` is the outcome of the save that ended last; success before the first save and after a restore.
//   At most one save is between SaveBegun and SaveEnded.
// - `newest_committed_` is the newest step that is on the disk for sure.
// - `next_look_` is the same on all ranks, and greater than the step of the last look.
// - A training tries once to save and leave. After a failure it goes on until the launcher stops it.
class SavePolicy {
 public:
  explicit SavePolicy(SaveSetting setting = {}) : setting_(std::move(setting)) {}

  // The Checkpointer answers these questions, in this order, before it calls after_step().
  struct Questions {
    bool stop = false;     // after which step do all ranks stop? The answer is StopHeard
    bool prepare = false;  // what the first save needs can be got ready now; no answer
    bool clock = false;    // is a save due by rank 0's clock? Rank 0 asks look(); the answer is ClockHeard
  };
  Questions on(const StepDone& event);
  struct StopNews {
    bool is_new = false;     // the step was agreed now
    bool is_missed = false;  // this rank has done more steps than it should have
  };
  StopNews on(const StopHeard& event);
  // Rank 0 asks its clock after this step, and tells all ranks the answer, itself included.
  SaveInterval::Look look(TimePoint now) { return setting_.interval->look(steps_, now); }
  std::optional<std::string> explain_interval() { return setting_.interval->explanation(); }
  void on(const ClockHeard& event);
  SaveDecision after_step();

  // Call it when the program asks to save the current step, while no save is under way.
  SaveDecision on_request() const;

  // Returns the name of the save that begins.
  std::string on(const SaveBegun& event, TimePoint now);
  void on(const StateCopied& event, TimePoint now);
  void on(const SaveEnded& event);
  // How the save that was to be the last has ended.
  enum class Leaving {
    kLeaves,   // the save is committed
    kGoesOn,   // the save failed; the next save may succeed
    kRefused,  // the state may not be committed, so no other save would succeed
  };
  Leaving leaving() const;

  // Returns the name of the restore that begins.
  std::string on(const RestoreBegun& event);
  void on(const RestoreEnded& event);

  // Returns the step of a checkpoint that nobody has loaded, and that later saves would replace.
  std::optional<std::uint64_t> unread() const { return setting_.unread; }
  // Returns a name for what all ranks do together after this step. All ranks get the same name, and no other
  // step has it.
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
  TimePoint begun_;    // of the save of last_tried_
  Seconds held_up_{};  // training, by that save
  Status outcome_;
  bool is_refusing_ = false;
  std::optional<std::int64_t> newest_committed_;
};

}  // namespace muster
