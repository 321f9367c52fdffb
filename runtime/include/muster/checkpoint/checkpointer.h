// Saves a training at regular intervals and restores it after a crash. Each rank writes its share of a
// checkpoint, while training continues. At any time the directory has the old or the new checkpoint, never a
// mixture.
//
//   muster::Checkpointer checkpoints(job, {.every = 100});
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(10)) { ...; checkpoints.step(state); }
//   checkpoints.save(state);  // the last step
//
// A save copies the state. Then a thread writes the copy while training continues. If a save fails, for
// example because the disk is full, because a rank is lost, or because parameters are not finite, the
// Checkpointer only prints a warning. All ranks must call the same functions at the same steps, from the
// training thread. Without a directory a Checkpointer only counts steps.
//
// For the copy of its share of the state, each rank keeps a buffer, which is allocated at the first step.
// restore() reads into the state itself, and needs another 64 MiB.
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
  std::int64_t every = 100;  // steps between two saves; 0: only by time
  // The number of steps between two copies of the state to the agent's memory. 0: there are no copies.
  // If all ranks have a copy that is newer than the checkpoints on disk, restore() loads these copies and
  // reads no checkpoint. The copies outlive a restart of the job.
  // Only one Checkpointer of the program can use the agent's memory, and the job must run under
  // `launch --memory-tier`. Without that flag, or if the memory is too small, a Checkpointer makes no copies
  // and warns once.
  std::int64_t memory_every = 0;
  std::string directory{};  // empty: job.checkpoint_dir()
  int keep = 3;             // number of newest checkpoints that stay on disk
  // Besides the newest checkpoints, the directory keeps:
  // - those whose step is a multiple of `keep_every` (0: none),
  // - the best `keep_best` ones by the metric `best_by`, which the program gives to report(),
  // - those pinned with `launch ckpt pin`.
  std::int64_t keep_every = 0;
  int keep_best = 0;
  std::string best_by{};
  enum class Best { kLeast, kGreatest };
  Best best = Best::kGreatest;
  // Also saves when this time has passed since the last save, by the clock of rank 0. 0: only the number of
  // steps decides.
  std::chrono::milliseconds every_time{0};
  // Chooses the interval between two saves that costs the least time in total, by Young's formula:
  // `sqrt(2 * d * f)`. d is the time that a save delays training. f is the time between failures:
  // mean_time_to_failure (of one node) divided by the number of nodes, adjusted by this job's restarts.
  bool every_auto = false;
  std::chrono::seconds mean_time_to_failure = std::chrono::hours(24 * 30);
  // The limit for the memory that holds a rank's copy of its share of the state. If the share is within the
  // limit, it is written while training continues. If it is larger, it is written in pieces, and training
  // waits.
  std::uint64_t staging_bytes = std::uint64_t{16} << 30;
  // When rank 0 has written its own file, it waits at most this long for the files of the other ranks.
  std::chrono::milliseconds commit_timeout = std::chrono::minutes(5);
  // At a save, the other ranks wait at most this long for rank 0 to write its own file. restore() waits at
  // most this long for each rank to read its state.
  std::chrono::milliseconds patience = std::chrono::minutes(30);
  // Set it to true to restore() from the directory of a training that still runs. The Checkpointer then does
  // not take over the directory, writes nothing, and reports no step to the agent.
  bool read_only = false;
  // true: the training starts at step 0 even if the directory has checkpoints, and these are removed as the
  // job saves new ones. restore() loads only what this job has saved. So a job that is restarted still
  // resumes.
  bool start_over = false;
  // If the parameters contain NaN or infinity, the state is not committed, and the last good checkpoint stays
  // the newest one. The first time, a warning is printed. The check runs on the copy that is written, in
  // parallel with training.
  bool check_finite = true;
  // At each save, compares the values that must be equal on all ranks that have them: optimizer values, 1 MiB
  // of whole parameters, and 1 MiB of slices. Each save compares another part of the parameters. If ranks
  // differ, the state is not committed, and the first time a warning is printed.
  bool check_replicas = true;
};

struct RestoreOptions {
  // false: if a part of the state is not in the checkpoint, it keeps the program's values. restore() then
  // prints what the checkpoint lacks, and what it has that the program does not use.
  bool strict = true;
  bool convert = false;  // convert tensors of another type to the program's
  // Use this if the program's names differ from the checkpoint's. Each entry replaces a prefix of a name in
  // the program by the prefix in the checkpoint, such as {{"model.encoder.", "model.backbone."}}.
  std::map<std::string, std::string> rename{};
};

// A newer attempt has taken over the checkpoint directory. The message names the attempt's job and host.
// Nothing more will be saved, so the program should stop.
class FencedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// These statements always hold:
// - At most one save is in progress. The next save waits for it, so the copy of the state never changes while
//   it is being written.
// - While a save is in progress, only the writing thread exchanges messages with the other ranks about the
//   save. The training thread reads the outcome after the writing thread has finished.
// - A checkpoint is committed when rank 0 renames its manifest, after all ranks have written and synced their
//   files. Until then restore() ignores it.
// - All ranks take part in every exchange of a save, even a rank that has failed. So all ranks take the same
//   decisions at the same step.
class Checkpointer {
 public:
  // Throws std::invalid_argument, which names an option that cannot be used. Throws std::runtime_error, which
  // names the directory, if the directory cannot be used, for example in these cases:
  // - Rank 0 of another job on this machine uses the directory.
  // - The nodes see different directories.
  // - Another Checkpointer of this job writes to the directory.
  // The launcher's directory belongs to the launcher's attempt. The constructor takes over any other
  // directory as a new attempt, unless read_only is set.
  // If the group is not the whole job, the members save and restore what they train. They need a directory of
  // their own, and cannot use the agents' memory.
  explicit Checkpointer(const Group& group, CheckpointerOptions options = {});
  ~Checkpointer();  // finishes the save in progress; prints errors

  // Loads the newest checkpoint that is complete, undamaged and fits on all ranks, and returns its step. Any
  // number of ranks can have written it. Lists on stderr the checkpoints that it had to skip. Returns 0 and
  // leaves the state unchanged if the directory has no checkpoint. Throws std::runtime_error if there are
  // checkpoints but none is usable. If the last one that it tried was damaged, the state then contains parts
  // of that checkpoint.
  std::int64_t restore(TrainState& state, const RestoreOptions& options = {});

  // Call it after each training step. It counts the step and reports it to the agent. It saves when the
  // number of steps is a multiple of `every`.
  // - Throws std::logic_error if the directory has a checkpoint to resume from, and the program has neither
  //   called restore() nor set start_over: new saves would replace that checkpoint.
  // - If a save finds that a newer attempt has taken over the directory, the next call that saves throws
  //   FencedError on all ranks.
  // - After a notice of preemption all ranks agree on a step, save it, wait for its commit and throw
  //   Preempted. If check_finite or check_replicas forbids the commit, all ranks throw std::runtime_error.
  void step(TrainState& state);
  std::int64_t steps() const;  // steps done, including those before a restore

  // Saves the current step, unless it has been saved, and waits until it is committed or has failed. Returns
  // false if it failed; the next call tries again. Throws FencedError and std::logic_error as step() does.
  // Also throws std::logic_error if read_only is set.
  bool save(TrainState& state);
  // Writes rank 0's value into the following checkpoints. keep_best compares them by the metric `best_by`.
  // After NaN or infinity the following checkpoints do not have the metric, so none of them is the best.
  void report(const std::string& metric, double value);
  // Waits for the save in progress. Returns false if it failed. Old checkpoints are removed afterwards, in
  // the background.
  bool wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
