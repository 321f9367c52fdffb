// Ends a training whose metric stops improving: Lightning's EarlyStopping, over all ranks.
//
//   muster::EarlyStopping early_stopping(job, {.patience = 3});
//   muster::Checkpointer checkpoints(job, {.every = loader.batches_per_epoch(), .keep_best = 1,
//                                          .best_by = "loss", .best = Best::kLeast});
//   state.add("early_stopping", early_stopping);
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(100)) {
//     if (early_stopping.should_stop()) break;  // now, or before a restart
//     ...
//     if (loader.batch() + 1 == loader.batches_per_epoch()) {
//       early_stopping.step(validation_loss.compute());
//       checkpoints.report("loss", early_stopping.last());
//     }
//     checkpoints.step(state);  // at the end: the saved state then includes this epoch
//   }
//   muster::load_model(net, job.checkpoint_dir(), {.best = true});
//
// Only one thread may use an EarlyStopping.
#pragma once

#include <cstdint>
#include <muster/comm/group.h>
#include <string>

namespace muster {

class LoadedState;
class SavedState;

struct EarlyStoppingOptions {
  enum class Mode { kMin, kMax };  // whether the smallest or the largest value is the best
  Mode mode = Mode::kMin;
  std::int64_t patience = 3;  // stop after this many epochs in a row without an improvement
  double min_delta = 0;       // an improvement must be larger than this
  bool check_finite = true;   // stop at NaN or infinity
};

class EarlyStopping {
 public:
  explicit EarlyStopping(Group group, const EarlyStoppingOptions& options = {});

  // Call step() on all ranks after each epoch. Muster's metrics return the same value on all ranks. If the
  // ranks pass different values, their mean counts. Returns should_stop(); rank 0 reports the reason once.
  bool step(double value);

  // Returns true if the training should stop. It also returns true after a restore from a checkpoint that was
  // saved after the training had stopped. Ask before each step, and not only after step(): a training that is
  // started again would otherwise train another epoch each time.
  bool should_stop() const { return !reason_.empty(); }
  const std::string& reason() const { return reason_; }  // empty: continue
  double last() const { return last_; }                  // the value that all ranks agreed on
  double best() const { return best_; }
  std::int64_t best_epoch() const { return best_epoch_; }  // from 0; -1: no epoch yet
  std::int64_t epochs() const { return epochs_; }

  // TrainState calls these.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  Group group_;
  EarlyStoppingOptions options_;
  double last_ = 0;
  double best_;
  std::int64_t best_epoch_ = -1;
  std::int64_t epochs_ = 0;
  std::int64_t wait_count_ = 0;
  std::string reason_;
  bool had_stopped_ = false;  // before the restore; false once step() has warned of it
};

}  // namespace muster
