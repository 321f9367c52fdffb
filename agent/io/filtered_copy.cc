#include "agent/io/filtered_copy.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace muster::agent {

FilteredCopy::FilteredCopy(std::string path, std::vector<std::string> texts, Notice notice)
    : path_(std::move(path)), texts_(std::move(texts)), notice_(std::move(notice)) {}

void FilteredCopy::add(std::string_view prefix, std::string_view lines) {
  std::string kept;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, std::min(lines.find('\n'), lines.size() - 1) + 1);
    lines.remove_prefix(line.size());
    if (std::ranges::any_of(texts_, [line](const std::string& text) { return line.contains(text); }))
      kept.append(prefix).append(line);
  }
  if (kept.empty() || failed_) return;
  if (!file_) file_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const Status written =
      file_ ? write_all(file_.get(), kept, path_) : system_failure("cannot write " + path_, errno);
  failed_ = !written;
  if (failed_) notice_(written.error().message());
}

}  // namespace muster::agent
