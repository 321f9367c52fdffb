// Writes a training's numbers for people to read: TensorBoard's event files, metrics.jsonl and metrics.csv,
// in one directory.
//
//   muster::Logger logger(job, "runs/1");
//   state.add("logger", logger);
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(10)) {
//     ...
//     logger.add_scalar("loss", loss.item<double>(), checkpoints.steps() + 1);
//     checkpoints.step(state);  // after the row, so that the saved state includes it
//   }
//
// The methods are SummaryWriter's. The group's first rank writes, at once and unbuffered. On other ranks
// calls do nothing, except those that reduce values over all ranks.
// - A training that resumes from a checkpoint removes two kinds of rows: those written after the checkpoint,
//   so that repeated steps appear once, and those that this process wrote before the restore.
// - A training that starts without a checkpoint moves existing files to before-1, before-2 and so on. Files
//   of other programs in the directory stay.
// - A failure to write is reported once, and the training continues.
// - In a trial of a sweep (the environment has MUSTER_TRIAL), the first rank also reports the scalars to the
//   sweep, like muster::report() (rank/progress.h).
// Only the training thread may use a Logger.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <memory>
#include <muster/comm/collectives.h>
#include <muster/comm/group.h>
#include <string>
#include <variant>

namespace muster {

class LoadedState;
class RunRecords;
class SavedState;

struct LoggerOptions {
  bool tensorboard = true;
  bool jsonl = true;
  bool csv = true;
};

class Logger {
 public:
  using HParam = std::variant<bool, std::int64_t, double, std::string>;

  // The directory is created with the first row.
  Logger(Group group, const std::string& directory, const LoggerOptions& options = {});
  Logger(Logger&&) noexcept;
  ~Logger();

  // The names "step", "time" and "hparams" have a meaning of their own in metrics.jsonl. If this file is
  // written and `tag` is one of these names, all ranks throw std::invalid_argument.
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  // Collective. Reduces the values of all ranks with `op`, and writes the result.
  void add_scalar(const std::string& tag, double value, std::int64_t step, ReduceOp op);
  // Writes several values as one row, as Lightning's function of this name does.
  void log_metrics(const std::map<std::string, double>& metrics, std::int64_t step);
  // Writes the histogram of all elements of a tensor, to TensorBoard only. The tensor can have any shape and
  // be on any device.
  void add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step);
  // Writes an image to TensorBoard only. Its shape is [1 or 3, height, width] or [height, width]. Its values
  // are uint8, or floating-point numbers from 0 to 1. For any other image, throws std::invalid_argument.
  void add_image(const std::string& tag, const at::Tensor& image, std::int64_t step);
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  // `metrics` has the scalars that TensorBoard uses to compare hyperparameters.
  void add_hparams(const std::map<std::string, HParam>& hparams,
                   const std::map<std::string, double>& metrics = {});

  // TrainState calls these.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  void require_tag(const std::string& tag) const;

  Group group_;
  bool has_columns_;
  std::unique_ptr<RunRecords> records_;  // null on ranks that do not write
};

}  // namespace muster
