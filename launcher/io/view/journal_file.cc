#include "launcher/io/view/journal_file.h"

#include <utility>

#include "launcher/core/journal/journal.h"

namespace muster::launcher {

JournalFile::JournalFile(net::LogWriter& writer, const Plan& plan, Warn warn)
    : warn_(std::move(warn)),
      file_(
          writer.add(std::make_unique<net::LogParts>(plan.job.log_directory + "/journal", UniqueFd(), nullptr,
                                                     /*mode=*/0600),
                     [this](const std::string& what) {
                       ended_ = true;
                       warn_(what + "; `launch replay` will not know the whole job");
                     })) {
  put(journal_head(plan, MUSTER_VERSION));
}

void JournalFile::add(const Event& event, TimePoint at, const Decisions& decisions) {
  if (!ended_) put(journal_entry(event, at, decisions));
}

void JournalFile::put(const std::string& bytes) {
  if (file_->backlog_bytes() + bytes.size() <= kQueueBytes) return file_->put(bytes);
  ended_ = true;
  warn_(file_->path() + " does not take what is written; `launch replay` will not know the whole job");
}

}  // namespace muster::launcher
