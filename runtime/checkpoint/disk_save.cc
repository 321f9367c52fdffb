#include "runtime/checkpoint/disk_save.h"

#include <c10/core/DeviceGuard.h>
#include <chrono>
#include <muster/rank/section.h>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "runtime/checkpoint/rank_file_writing.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"

namespace muster {

void tell_failed_saves(FailedSaves& failed) {
  if (const auto line = failed.end()) log::warning("{}", *line);
}

void DiskSave::end(Status an_outcome, TimePoint now) {
  outcome = std::move(an_outcome);
  ended_at = now;
  if (outcome) {
    if (leads) tell_failed_saves(*failed);
    if (leads_job) reports_of(job).send("committed", step);
  } else if (outcome.error().code() == ErrorCode::kFenced) {
    if (leads_job) reports_of(job).send("fenced", step, outcome.error().message());
  } else if (leads) {
    warn_of_failure();
  }
}

// Returns the message of the error, but without the name of this checkpoint. So if two saves fail for the
// same cause, their texts are equal.
std::string DiskSave::cause() const {
  std::string text = outcome.error().message();
  const std::string own = directory_name({.step = static_cast<std::uint64_t>(step), .attempt = plan.attempt});
  for (std::size_t at = 0; (at = text.find(own, at)) != std::string::npos;)
    text.replace(at, own.size(), "step-*");
  return text;
}

void DiskSave::warn_of_failure() const {
  const std::string newest = newest_on_disk
                                 ? fmt::format("the newest one is that of step {}", *newest_on_disk)
                                 : "there is none yet";
  const std::string& why = outcome.error().message();
  if (outcome.error().code() != ErrorCode::kCorrupt) {
    if (failed->repeats(cause())) return;
    tell_failed_saves(*failed);
    failed->begin(step, cause());
    log::warning("the checkpoint of step {} failed: {}; training goes on, {}", step, why, newest);
  } else if (!is_refusal_known) {
    log::warning("the checkpoint of step {} is not committed: {}; {}, and no other follows while that is so",
                 step, why, newest);
  }
}

DiskWriter::DiskWriter(const Job& job, std::uint64_t staging_bytes)
    : job_(job), staging_(staging_bytes, [device = job.device()](std::uint64_t size_bytes) {
        auto memory = allocate_staging(size_bytes);
        if (memory && device.is_cuda()) {
          // Makes this rank's GPU the current device. The writing thread can run this code, and on that
          // thread the current device would otherwise be the first GPU.
          const c10::DeviceGuard guard(device);
          lock_pages(*memory);
        }
        return memory;
      }) {}

void DiskWriter::reserve(std::uint64_t file_bytes) {
  try {
    done_ = thread_.submit([this, file_bytes] { (void)staging_.reserve(file_bytes); });
  } catch (const std::system_error&) {  // begin() tries to start the thread again
  }
}

void DiskWriter::begin(std::unique_ptr<DiskSave> save, RankFile file) {
  save_ = std::move(save);
  const std::int64_t step = save_->step;
  const std::uint64_t file_bytes = file.layout.size_bytes;
  const Status reserved = staging_.reserve(file_bytes);
  if (reserved) {
    staging_.begin(file_bytes, job_.local_world_size());
    save_->file = std::move(file.layout);
  } else {
    save_->file = std::unexpected(reserved.error());
  }
  try {
    done_ = thread_.submit([this, mine = save_.get()] { write(*mine); });
  } catch (...) {
    save_->file =
        failure(ErrorCode::kUnavailable, "cannot start the writing thread: {}", current_exception_text());
    write(*save_);
    return;
  }
  if (reserved) copy(file.source, step, file_bytes);
}

// Copies the state while write() writes the file. If the copy fails, write() ends the save, and training goes
// on.
void DiskWriter::copy(RankFileSource& source, std::int64_t step, std::uint64_t file_bytes) {
  const Status copied = without_throwing([&]() -> Status {
    stage_rank_file(source, staging_);
    return {};
  });
  if (!copied) {
    log::warning("rank {} cannot copy its share of the checkpoint of step {}: {}", job_.rank(), step,
                 copied.error().message());
    staging_.abandon();
  }
  if (staging_.waited() > std::chrono::nanoseconds() && !std::exchange(has_told_wait_, true))
    log::warning(
        "rank {} waited {:.1f} s for the disk: its share of a checkpoint, {} MiB, is larger than .staging_bytes, "
        "{} MiB",
        job_.rank(), Seconds(staging_.waited()).count(), file_bytes >> 20, staging_.capacity() >> 20);
}

bool DiskWriter::has_ended() const {
  if (save_ == nullptr) return false;
  return !done_.valid() || done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::unique_ptr<DiskSave> DiskWriter::take() {
  if (done_.valid()) {
    const auto waiting = section("checkpoint commit");
    std::exchange(done_, {}).get();
  }
  return std::exchange(save_, nullptr);
}

void DiskWriter::write(DiskSave& save) {
  const Traced committing(TraceTrack::kWriting, "commit", "step", save.step);
  // If the store no longer exists, commit_checkpoint() throws. So exceptions are caught here.
  Status done = without_throwing([&] {
    return commit_checkpoint(save.plan, *save.meeting, static_cast<std::uint64_t>(save.step),
                             [&](const std::string& directory) { return write_file(save, directory); });
  });
  staging_.abandon();  // so that the training thread does not wait for room any more
  const bool removes = done && save.leads;
  save.end(std::move(done), Clock::now());
  if (removes) remove_old_behind(save);
}

Expected<RankContents> DiskWriter::write_file(DiskSave& save, const std::string& directory) {
  const Traced writing(TraceTrack::kWriting, "write");
  if (!save.file) return std::unexpected(save.file.error());
  RankContents contents = std::move(save.file->contents);
  auto written = write_rank_file(directory, contents.files.front().name, save.file->size_bytes, staging_,
                                 disk_, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
                                   return check_all_finite(*save.file, offset, bytes);
                                 });
  if (!written) return std::unexpected(written.error());
  contents.files.front() = *std::move(written);
  if (Status whole = check_groups(); !whole) return std::unexpected(whole.error());
  return contents;
}

// Freeing gigabytes on a disk takes a tenth of a second or more. A separate task does it, because the
// training thread may be waiting for the task that commits.
void DiskWriter::remove_old_behind(const DiskSave& save) {
  const auto warn = [](const Error& why) { log::warning("an old checkpoint stays: {}", why.message()); };
  auto old = old_ones(save.plan, static_cast<std::uint64_t>(save.step));
  if (!old) return warn(old.error());
  if (old->empty()) return;
  (void)thread_.submit([directory = save.plan.directory, old = *std::move(old), warn] {
    if (const Status removed = remove_all(directory, old); !removed) warn(removed.error());
  });
}

}  // namespace muster
