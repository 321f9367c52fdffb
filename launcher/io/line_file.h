// A file in a job's directory that takes lines as things happen: events.jsonl, launcher.log.
//
// That it cannot be opened or written, as when the disk is full, must not stop the job: it is said once, and
// what comes later is tried all the same. Blocks as files do; one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher {

class LineFile {
 public:
  // Goes on at its end, or creates it.
  explicit LineFile(std::string path);
  const Status& opened() const { return opened_; }
  // What the user should know, the first time that it fails.
  std::optional<std::string> append(std::string_view lines);

 private:
  std::string path_;
  UniqueFd fd_;
  Status opened_;
  bool told_ = false;
};

}  // namespace muster::launcher
