#include "launcher/io/view/line_file.h"

#include <utility>

namespace muster::launcher {

LineFile::LineFile(net::LogWriter& writer, const std::string& path, const Warn& warn)
    : warn_([warn, told = told_](const std::string& what) {
        if (!std::exchange(*told, true)) warn(what + "; the job goes on without it");
      }),
      file_(writer.add(std::make_unique<net::LogParts>(path, UniqueFd(), nullptr), warn_)) {}

void LineFile::append(std::string_view lines) {
  if (file_->backlog_bytes() + lines.size() > kQueueBytes)
    return warn_("cannot write " + file_->path() + " fast enough");
  file_->put(lines);
}

}  // namespace muster::launcher
