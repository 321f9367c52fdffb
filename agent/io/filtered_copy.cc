#include "agent/io/filtered_copy.h"

#include <algorithm>
#include <utility>

namespace muster::agent {

FilteredCopy::FilteredCopy(LogWriter& writer, const std::string& path, std::vector<std::string> texts,
                           LogWriter::Trouble trouble)
    : texts_(std::move(texts)),
      file_(writer.add(std::make_unique<LogParts>(path, UniqueFd(), nullptr), std::move(trouble))) {}

FilteredCopy::~FilteredCopy() {
  if (used_) file_->close();
}

void FilteredCopy::add(std::string_view prefix, std::string_view lines) {
  std::string kept;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, std::min(lines.find('\n'), lines.size() - 1) + 1);
    lines.remove_prefix(line.size());
    if (std::ranges::any_of(texts_, [line](const std::string& text) { return line.contains(text); }))
      kept.append(prefix).append(line);
  }
  if (kept.empty() || file_->backlog_bytes() > kQueueBytes) return;
  used_ = true;
  file_->put(kept);
}

}  // namespace muster::agent
