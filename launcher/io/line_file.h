// A file in a job's directory that takes lines as things happen: events.jsonl, launcher.log.
//
// That it cannot be opened or written, as when the disk is full, must not stop the job: it is said once, and
// what comes later is tried all the same. Blocks as files do; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher {

class LineFile {
 public:
  explicit LineFile(std::string path) : path_(std::move(path)) {}
  // Goes on at its end, or creates it; append() does that when it is first needed.
  Status open();
  // What the user should know, the first time that it fails.
  std::optional<std::string> append(std::string_view lines);

 private:
  std::string path_;
  UniqueFd fd_;
  bool told_ = false;
};

}  // namespace muster::launcher
