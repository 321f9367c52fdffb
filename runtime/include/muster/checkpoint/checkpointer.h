// Saves a training every so many steps and puts it back after a crash: sharded over the ranks, asynchronous,
// old or new but never mixed.
//
//   muster::Checkpointer checkpoints(job, {.every = 100});
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(10)) { ...; checkpoints.step(state); }
//   checkpoints.save(state);  // the last step
//
// A save copies the state, then a thread writes while training goes on. One that fails (disk full, a rank
// that is gone, parameters that are not finite) warns and costs nothing but itself. All ranks call the same
// functions at the same steps, from the training thread. Without a directory it only counts steps.
//
// Memory: each rank keeps room for a copy of its share of the state, which is made with the first step.
// restore() reads into the state itself, and needs 64 MiB more.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <muster/checkpoint/train_state.h>
#include <muster/comm/group.h>
#include <muster/rank/progress.h>
#include <stdexcept>
#include <string>

namespace muster {

struct CheckpointerOptions {
  std::int64_t every = 100;  // steps from one save to the next; 0: by time alone
  // Steps from one copy in the agent's memory to the next; 0: none. restore(), in the job's next attempt too,
  // takes the newest that all ranks have, if it is newer than what is on the disk, without reading that. For
  // one Checkpointer of the program, under `launch --memory-tier`; without it, or where its room does not do,
  // a warning says so once an attempt.
  std::int64_t memory_every = 0;
  std::string directory{};  // empty: job.checkpoint_dir()
  int keep = 3;             // newest checkpoints that stay on the disk
  // Beside them: those of every n-th step (0: none for that), and the best ones by a metric that report() is
  // told. What `launch ckpt pin` has pinned stays as well.
  std::int64_t keep_every = 0;
  int keep_best = 0;
  std::string best_by{};
  enum class Best { kLeast, kGreatest };
  Best best = Best::kGreatest;
  // Saves after so much time, too. Rank 0's clock counts.
  std::chrono::milliseconds every_time{0};
  // Saves as often as costs the least time in all, by Young's formula: sqrt(2 x what a save holds training up
  // x the time between failures). That is mean_time_to_failure of a node, by the number of nodes, mended by
  // how often this job has been restarted.
  bool every_auto = false;
  std::chrono::seconds mean_time_to_failure = std::chrono::hours(24 * 30);
  // The most memory that a rank takes for the copy that is written while training goes on; it takes no more
  // than its share of the state has. Where that is larger, training waits while it is written in pieces.
  std::uint64_t staging_bytes = std::uint64_t{16} << 30;
  // For the slowest rank to write its file.
  std::chrono::milliseconds commit_timeout = std::chrono::minutes(5);
  // For rank 0 to write its own file before that begins, and for any rank to read what it restores.
  std::chrono::milliseconds patience = std::chrono::minutes(30);
  // restore() only, beside a training that goes on: the directory is not taken over, nothing is written, and
  // the agent is told of no step.
  bool read_only = false;
  // Begins at step 0 although the directory has checkpoints, which are removed as new ones come. restore()
  // then loads what this job itself has saved, so that a restart of it goes on.
  bool start_over = false;
  // A state whose parameters have a NaN or an infinity is not committed, so that the last good checkpoint
  // stays; a warning says so once. It is looked for in the copy that is written, beside the training.
  bool check_finite = true;
  // What must be equal on all ranks (values of optimizers, and parameters, 1 MiB of whole ones and of slices
  // at each save) is compared, among ranks that have the same of it. A state in which it differs is not
  // committed; a warning says so once.
  bool check_replicas = true;
};

struct RestoreOptions {
  // False: what the checkpoint has not stays as it is in the program, and restore() prints what that is, and
  // what is left over in the checkpoint.
  bool strict = true;
  bool convert = false;  // elements of another type are converted to the program's
  // What names begin with in the program, and in the checkpoint: {{"model.encoder.", "model.backbone."}}.
  std::map<std::string, std::string> rename{};
};

// A newer attempt has taken the checkpoint directory over; the message says which job on which host. Stop:
// nothing more is saved.
class FencedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Checkpointer {
 public:
  // std::invalid_argument names the option, std::runtime_error the directory that cannot be used. Outside a
  // launcher, or in another directory than the launcher's, this takes the directory over as a new attempt,
  // unless it is read_only; it is refused while another job's rank 0 that uses it lives on this machine,
  // where it is not one directory on all nodes, and while another Checkpointer of this job writes into it.
  // Of a group that is not the whole job, its members save and restore what they train; it needs a directory
  // of its own, and cannot use the agents' memory.
  explicit Checkpointer(const Group& group, CheckpointerOptions options = {});
  ~Checkpointer();  // finishes the save that is under way; what goes wrong is printed

  // Loads the newest checkpoint that is complete, undamaged and fits on all ranks, says on stderr which it
  // had to pass over, and returns its step; it may be of more, fewer or other ranks. 0, with the state
  // untouched, if the directory has none. std::runtime_error if it has some but none can be used: where the
  // bytes of the last one tried turned out to be damaged, the state is in parts that one's.
  std::int64_t restore(TrainState& state, const RestoreOptions& options = {});

  // After each training step. Counts it, tells the agent, and saves every `every` steps. std::logic_error if
  // the directory has a checkpoint to resume from, and there was neither restore() nor start_over: what was
  // saved would be lost. FencedError if the save before has met a newer attempt: on all ranks at the same
  // step, the next one that saves. After a notice of preemption all ranks agree on a step, save it, wait for
  // its commit and throw Preempted, or std::runtime_error where it may not be committed as it is.
  void step(TrainState& state);
  std::int64_t steps() const;  // done so far, those before a restore included

  // Saves the current step, unless that has been saved, and waits until it is committed or has failed. False
  // if it failed: the next call tries again. FencedError and std::logic_error as in step(), the latter also
  // if it is read_only.
  bool save(TrainState& state);
  // Rank 0's is written into the checkpoints that follow, which are ranked by it (.best_by).
  // std::invalid_argument if it is not finite.
  void report(const std::string& metric, double value);
  // Waits for the save that is under way. False if it failed. What the checkpoint lets go is removed behind
  // it.
  bool wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
