#include "agent/io/output/filtered_copy.h"

#include <algorithm>
#include <utility>

#include "agent/core/output/lines.h"
#include "agent/io/output/output.h"

namespace muster::agent {

FilteredCopy::FilteredCopy(File file, std::vector<std::string> texts, net::LogWriter::Trouble trouble)
    : texts_(std::move(texts)),
      writer_(file.writer),
      file_(writer_.add(std::make_unique<net::LogParts>(std::move(file.path), UniqueFd(), nullptr),
                        std::move(trouble))),
      flow_(Output::kLogQueueBytes, file.stall, Output::kLogPatience) {}

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
  if (kept.empty()) return;
  if (flow_.dropping()) {
    lost_lines_ += count_lines(kept);
    return;
  }
  used_ = true;
  file_->put(kept);
}

bool FilteredCopy::hold() {
  const TimePoint now = Clock::now();
  return flow_.hold(file_->backlog_bytes(), writer_.alive_at(now), now);
}

}  // namespace muster::agent
