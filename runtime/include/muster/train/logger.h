// Keeps a training's numbers for people: TensorBoard's event files, metrics.jsonl and metrics.csv, in one
// directory.
//
//   muster::Logger logger(job, "runs/1");
//   state.add("logger", logger);
//   checkpoints.restore(state);
//   for (auto& batch : loader.epochs(10)) {
//     ...
//     logger.add_scalar("loss", loss.item<double>(), checkpoints.steps() + 1);
//     checkpoints.step(state);  // behind it, so that what is saved has the row
//   }
//
// The methods are SummaryWriter's. The group's first rank writes, at once and without a buffer; the calls of
// the others do nothing, but where all ranks' values are reduced. A training that goes on from a checkpoint
// cuts what was written behind it, so that steps which are made again are there once, and what this process
// has written before the restore; one that goes on from none leaves what it finds in before-1, before-2 and
// so on. Files of other writers in the directory stay as they are. What cannot be written is told once, and
// the training goes on. For the training thread; the group, or the job, stays while it lives.
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

  // The directory is made with the first row.
  Logger(Group group, const std::string& directory, const LoggerOptions& options = {});
  Logger(Logger&&) noexcept;
  ~Logger();

  // A tag is not "step", "time" or "hparams", the members of each row of metrics.jsonl;
  // std::invalid_argument on all ranks, unless there is none.
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  // Collective: of all ranks' values.
  void add_scalar(const std::string& tag, double value, std::int64_t step, ReduceOp op);
  // Lightning's: several, which are one row.
  void log_metrics(const std::map<std::string, double>& metrics, std::int64_t step);
  // Of all elements, of any shape and device. TensorBoard alone.
  void add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step);
  // [1 or 3, height, width] or [height, width], bytes or floating-point numbers from 0 to 1; else
  // std::invalid_argument. TensorBoard alone.
  void add_image(const std::string& tag, const at::Tensor& image, std::int64_t step);
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  // With metrics by which TensorBoard compares trainings of other hyper-parameters; they are scalars too.
  void add_hparams(const std::map<std::string, HParam>& hparams,
                   const std::map<std::string, double>& metrics = {});

  // For TrainState.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  void require_tag(const std::string& tag) const;

  Group group_;
  bool has_columns_;
  std::unique_ptr<RunRecords> records_;  // null on ranks that do not write
};

}  // namespace muster
