#include "launcher/io/view/journal_file.h"

#include <utility>

#include "launcher/core/journal/journal.h"

namespace muster::launcher {

namespace {

constexpr const char* kConsequence = "; `launch replay` will lack the rest of the job";

}  // namespace

JournalFile::JournalFile(const asio::any_io_executor& executor, net::LogWriter& writer, const About& job,
                         Warn warn, std::size_t long_bytes)
    : writer_(writer),
      path_(job.plan.job.log_directory + "/journal"),
      job_(job),
      warn_(std::move(warn)),
      long_bytes_(long_bytes),
      flush_(executor) {
  begin();
}

void JournalFile::begin() {
  auto parts = std::make_unique<net::LogParts>(path_, UniqueFd(), nullptr);
  parts->set_mode(0600);
  parts->set_aside();
  file_ = writer_.add(
      std::move(parts),
      [ended = ended_, warn = warn_](const std::string& what) {
        if (!std::exchange(*ended, true)) warn(what + kConsequence);
      },
      net::LogWriter::AfterTrouble::kStop);
  bytes_ = 0;
}

void JournalFile::put_head() {
  put(journal_head(job_.plan, job_.version));
}

void JournalFile::add(const Controller& self, const Event& event, TimePoint at, const Decisions& decisions) {
  if (*ended_) return;
  if (entries_.empty()) {
    flush_.expires_after(kDelay);
    flush_.async_wait([this, ended = ended_](const boost::system::error_code& error) {
      if (!error && !*ended) flush();
    });
  }
  entries_.push_back({event, at, decisions});
  if (bytes_ < long_bytes_) return;
  // journal_state() is the state after this event. So the event still belongs into the old file.
  flush();
  file_->close();
  begin();
  put_head();
  put(journal_state(self));
}

void JournalFile::flush() {
  if (bytes_ == 0) put_head();
  for (const Entry& each : std::exchange(entries_, {}))
    put(journal_entry(each.event, each.at, each.decisions));
}

void JournalFile::put(const std::string& bytes) {
  if (*ended_) return;
  bytes_ += bytes.size();
  if (bytes.empty()) {
    *ended_ = true;
    return warn_(path_ + " ends where a record would be too long" + kConsequence);
  }
  if (file_->backlog_bytes() + bytes.size() <= kQueueBytes) return file_->put(bytes);
  *ended_ = true;
  warn_("cannot write " + path_ + " fast enough" + kConsequence);
}

}  // namespace muster::launcher
