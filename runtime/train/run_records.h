// The files in which a training's numbers are kept: TensorBoard's, metrics.jsonl, and metrics.csv.
//
// They are appended to, whole rows and records at once, past no buffer of this process. mark() says how long
// they are, for a checkpoint; go_on_from() takes them back to that length, so that what a training does again
// is there once. Files that it does not go on from are moved to DIRECTORY/before-N when the first row comes,
// and come back from there for who goes on from them later. Each process has an event file of its own, which
// has the run's name in its own: those of other writers are left alone. One thread. Errors are told once, and
// lose rows, not trainings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"
#include "runtime/train/event_records.h"

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

  // JSON. Changes nothing.
  std::string mark() const;
  // What mark() has said; kCorrupt if it has not. Takes effect with the next row; rows that are here already
  // are no part of what it goes on from, and go.
  Status go_on_from(const std::string& mark);
  // metrics.jsonl has a member of this name in its rows: it cannot be a tag.
  static bool is_column(std::string_view tag) { return tag == "step" || tag == "time" || tag == "hparams"; }

 private:
  struct Mark {
    std::map<std::string, std::uint64_t> sizes;  // by name
    std::int64_t newest_step = -1;
    std::string run;  // the same of all processes that go on from one another
  };
  struct File {
    std::string name;
    UniqueFd fd{};
    std::uint64_t size = 0;
  };
  static constexpr std::string_view kEvents = "events.out.tfevents.";
  static constexpr std::string_view kRun = ".muster-";  // before the run's name, at the end
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
  Mark mark_;                             // while it has not begun: that of which it goes on
  std::vector<std::string> made_before_;  // of this process, before it was told from what it goes on
  File events_{};
  File jsonl_{.name = "metrics.jsonl"};
  File csv_{.name = "metrics.csv"};
};

}  // namespace muster
