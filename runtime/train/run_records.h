// Writes a training's numbers to files: TensorBoard's event files, metrics.jsonl and metrics.csv.
//
// - Writes each row or record at once, without a buffer in this process.
// - mark() returns the lengths of the files, for a checkpoint. go_on_from() cuts the files back to these
//   lengths, so that steps that a training repeats are logged only once.
// - If the directory has files that this training does not continue, the first write moves these files to
//   DIRECTORY/before-N. A later training that continues the files moves them back.
// - Each process writes its own event file, whose name contains the name of the run.
// - The first error is logged and ends the writing, but not the training.
// Only one thread uses the records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/event_records.h"
#include "common/base/file.h"

namespace muster {

class RunRecords {
 public:
  struct Formats {
    bool tensorboard = true;
    bool jsonl = true;
    bool csv = true;
  };
  RunRecords(std::string directory, Formats formats) : directory_(std::move(directory)), formats_(formats) {}

  void add_scalars(std::int64_t step, const event_records::Scalars& values);
  void add_histogram(std::int64_t step, const std::string& tag, std::span<const double> values);
  void add_image(std::int64_t step, const std::string& tag, event_records::Size size,
                 std::string_view pixels);
  void add_text(std::int64_t step, const std::string& tag, const std::string& text);
  void add_settings(const event_records::Settings& values, const event_records::Scalars& metrics);

  // Returns the mark as JSON text.
  std::string mark() const;
  // Call it to continue a run whose mark() was saved. The files continue from this mark when the next row is
  // written. If this process has written rows before go_on_from(), these rows do not belong to the run, and
  // are removed. Returns kCorrupt if `mark` is not a text that mark() has returned.
  Status go_on_from(const std::string& mark);
  // Returns true if Muster itself writes a member of this name into the rows of metrics.jsonl. A program
  // cannot use such a name as a tag.
  static bool is_column(std::string_view tag) { return tag == "step" || tag == "time" || tag == "hparams"; }

 private:
  struct Mark {
    std::map<std::string, std::uint64_t> sizes;  // by name
    std::int64_t newest_step = -1;
    std::string run;  // the same in all processes that continue one another
  };
  struct File {
    std::string name;
    UniqueFd fd{};
    std::uint64_t size = 0;
  };
  static constexpr std::string_view kEvents = "events.out.tfevents.";
  static constexpr std::string_view kRun = ".muster-";  // precedes the run's name at a file name's end
  void begin();
  Status prepare();
  Status cut();
  Status find_marked();
  bool has_marked(const std::string& directory) const;
  Status bring_back(const std::string& aside) const;
  Status remove(const std::string& name) const;
  std::string place_aside(int number) const;  // from 1 on
  Status move_aside(const std::vector<std::string>& names) const;
  Expected<std::vector<std::string>> found() const;
  Status open(File& file) const;
  void write(File& file, std::string_view bytes);
  void fail(const Error& error);

  std::string directory_;
  Formats formats_;
  bool begun_ = false;
  bool failed_ = false;
  Mark mark_;                             // until begin(): the mark that the records continue from
  std::vector<std::string> made_before_;  // files that this process made before go_on_from()
  File events_{};
  File jsonl_{.name = "metrics.jsonl"};
  File csv_{.name = "metrics.csv"};
};

}  // namespace muster
