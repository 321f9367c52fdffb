// Ends a training whose metric gets no better: Lightning's EarlyStopping, over all ranks.
//
//   muster::EarlyStopping early_stopping(job, {.patience = 3});
//   muster::Checkpointer checkpoints(job, {.every = loader.batches_per_epoch(), .keep_best = 1,
//                                          .best_by = "loss", .best = Best::kLeast});
//   state.add("early_stopping", early_stopping);
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(100)) {
//     ...
//     if (loader.batch() + 1 == loader.batches_per_epoch()) {
//       if (early_stopping.step(validation_loss.compute())) break;
//       checkpoints.report("loss", early_stopping.last());
//     }
//     checkpoints.step(state);  // behind it, so that what is saved has counted the epoch
//   }
//   muster::load_model(net, job.checkpoint_dir(), {.best = true});
//
// The epoch that stops it is never the best. For one thread; the group, or the job, stays while it lives.
#pragma once

#include <cstdint>
#include <muster/comm/group.h>
#include <string>

namespace muster {

class LoadedState;
class SavedState;

struct EarlyStoppingOptions {
  enum class Mode { kMin, kMax };  // the least value is the best, or the greatest
  Mode mode = Mode::kMin;
  std::int64_t patience = 3;  // so many epochs, one after the other, without an improvement stop it
  double min_delta = 0;       // an improvement is more than this
  bool check_finite = true;   // NaN or an infinity stops it
};

class EarlyStopping {
 public:
  explicit EarlyStopping(Group group, const EarlyStoppingOptions& options = {});

  // After each epoch, on all ranks: the same value, as metrics give it, or each rank's own, of which the mean
  // counts. True: stop, and rank 0 says why, once.
  bool step(double value);

  bool should_stop() const { return !reason_.empty(); }
  const std::string& reason() const { return reason_; }  // empty: it goes on
  double last() const { return last_; }                  // that all have agreed on
  double best() const { return best_; }
  std::int64_t best_epoch() const { return best_epoch_; }  // from 0; -1: none yet
  std::int64_t epochs() const { return epochs_; }

  // For TrainState.
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
};

}  // namespace muster
