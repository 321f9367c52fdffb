#include "runtime/checkpoint/commit.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

void warn_unless(std::string_view what, const Status& done) {
  if (!done) log::warning("{}: {}", what, done.error().message());
}

// Each text that word_of() returns begins with one of these words.
constexpr std::string_view kCommitted = "committed";
constexpr std::string_view kFencedWord = "fenced ";
constexpr std::string_view kRefusedWord = "refused ";
constexpr std::string_view kFailedWord = "failed ";

Expected<bool> is_committed(const CommitPlan& plan, CheckpointId id) {
  const std::string path = plan.directory.manifest_path(id);
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) return system_failure("cannot look for " + path, error.value());
  return there;
}

Expected<RankContents> write_my_file(const CommitPlan& plan, CheckpointId id, const WriteRankFile& write) {
  // Never overwrites a committed checkpoint, because a process may be loading it.
  const auto committed = is_committed(plan, id);
  if (!committed) return std::unexpected(committed.error());
  if (*committed)
    return failure(ErrorCode::kUnavailable, "{} is committed already", plan.directory.path_of(id));
  if (Status clear = check_fence(plan); !clear) return std::unexpected(clear.error());
  const std::string directory = plan.directory.path_of(id);
  // Does not make the directory above. If that one is gone, a new one would lack the attempt files.
  std::error_code error;
  std::filesystem::create_directory(directory, error);
  if (error) return system_failure("cannot create directory " + directory, error.value());
  return write(directory);
}

Expected<CheckpointManifest> manifest_of(const CommitPlan& plan, CheckpointId id,
                                         const std::vector<std::string>& words) {
  CheckpointManifest manifest{.id = id,
                              .job = plan.job,
                              .world_size = static_cast<std::int32_t>(words.size()),
                              .files = {},
                              .written_at = unix_ns() / 1'000'000'000,
                              .topology = plan.topology,
                              .metrics = plan.metrics,
                              .best_by = plan.retention.best_by};
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    const std::string where = fmt::format("rank {}", rank);
    if (!words[rank].starts_with('{')) return failure_within(where, status_of(words[rank]));
    auto contents = parse_rank_contents(words[rank]);
    if (!contents) return failure_within(where, std::move(contents));
    if (Status added = add_rank(manifest, static_cast<std::int32_t>(rank), *std::move(contents)); !added)
      return failure_within(where, std::move(added));
  }
  if (Status good = check_manifest(manifest); !good) return std::unexpected(good.error());
  return manifest;
}

// Checks that rank 0 sees the files of all ranks. On another node, the same path may lead to a local disk.
Status check_visible(const CommitPlan& plan, CheckpointId id, const std::vector<ManifestFile>& files) {
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    const std::string path = plan.directory.path_of(id) + "/" + files[rank].name;
    // Opens the file, because NFS could answer a call of stat() from its cache.
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno != ENOENT) return system_failure("cannot open " + path, errno);
    struct stat status{};
    if (!fd || fstat(fd.get(), &status) != 0 ||
        static_cast<std::uint64_t>(status.st_size) != files[rank].size_bytes) {
      return failure(
          ErrorCode::kUnavailable,
          "rank {} has written {}, but rank 0 does not see that file or its size: is {} one directory on all nodes?",
          rank, path, plan.directory.path());
    }
  }
  return {};
}

// Rank 0 calls it. It waits until all ranks have written their files, and then writes the manifest.
Status commit_manifest(const CommitPlan& plan, Meeting& meeting, CheckpointId id) {
  auto words = meeting.collect(plan.timeout);
  if (!words) return std::unexpected(words.error());
  const auto manifest = manifest_of(plan, id, *words);
  if (!manifest) return std::unexpected(manifest.error());
  if (Status visible = check_visible(plan, id, manifest->files); !visible) return visible;
  if (Status clear = check_fence(plan); !clear) return clear;
  if (Status written = write_file_durably(plan.directory.manifest_path(id), encode_manifest(*manifest));
      !written)
    return written;
  if (Status synced = sync_directory(plan.directory.path()); !synced) return synced;
  // Checks once more that no newer attempt has begun. If one has, it may not have seen this commit. Then no
  // rank is allowed to report the commit.
  return check_fence(plan);
}

// All ranks except rank 0 call it to get rank 0's decision. If rank 0 has exited and its store no longer
// exists, this function looks for the manifest. The manifest shows whether rank 0 has committed the
// checkpoint.
Status hear_decision(const CommitPlan& plan, Meeting& meeting, CheckpointId id) {
  const auto word = meeting.listen(plan.patience + plan.timeout);
  if (word) return status_of(*word);
  const Status unheard = failure(ErrorCode::kTimedOut, "rank 0 did not answer: {}", word.error().message());
  if (word.error().code() != ErrorCode::kUnavailable) return unheard;
  // Rank 0 may have exited before it synced the directories. So this rank syncs both. This has a second
  // effect: when a directory is opened, NFS asks the server and does not answer from its cache.
  if (!sync_directory(plan.directory.path_of(id))) return unheard;
  const auto committed = is_committed(plan, id);
  if (!committed || !*committed) return unheard;
  if (!sync_directory(plan.directory.path())) return unheard;
  return check_fence(plan);
}

// Removes the files of a failed save, before any rank can try again. But if the checkpoint has a manifest,
// its files stay, even if something failed after the manifest was written. A newer attempt may already have
// resumed from this checkpoint.
Status remove_failed(const CommitPlan& plan, CheckpointId id) {
  std::error_code error;
  // If a directory cannot be examined, it cannot be removed either. This is not returned as an error, because
  // the save has already failed for the same reason.
  if (!std::filesystem::exists(plan.directory.path_of(id), error) || error) return {};
  const auto committed = is_committed(plan, id);
  return !committed || *committed ? Status() : plan.directory.remove(id);
}

// Returns why the save failed. If the directory is gone, that is the reason, whatever the save met first.
Status reason_of(Status failed, const CommitPlan& plan) {
  Status clear = check_fence(plan);
  const bool is_gone = !clear && clear.error().code() == ErrorCode::kNotFound;
  return is_gone ? std::move(clear) : std::move(failed);
}

}  // namespace

Status status_of(const std::string& word) {
  if (word == kCommitted) return {};
  if (word.starts_with(kFencedWord))
    return failure(ErrorCode::kFenced, "{}", word.substr(kFencedWord.size()));
  if (word.starts_with(kRefusedWord))
    return failure(ErrorCode::kCorrupt, "{}", word.substr(kRefusedWord.size()));
  return failure(ErrorCode::kUnavailable, "{}", word.substr(std::min(word.size(), kFailedWord.size())));
}

std::string word_of(const Status& status) {
  if (status) return std::string(kCommitted);
  const ErrorCode code = status.error().code();
  const std::string_view word = code == ErrorCode::kFenced    ? kFencedWord
                                : code == ErrorCode::kCorrupt ? kRefusedWord
                                                              : kFailedWord;
  return std::string(word) + status.error().message();
}

Status check_fence(const CommitPlan& plan) {
  Status clear = plan.directory.check_newest(plan.attempt);
  // For the callers, kCorrupt means that the state must not be committed. But here it means that a file in
  // the directory is damaged. A later save can still succeed, so this function returns kUnavailable.
  if (!clear && clear.error().code() == ErrorCode::kCorrupt)
    return failure(ErrorCode::kUnavailable, "{}", clear.error().message());
  return clear;
}

Status commit_checkpoint(const CommitPlan& plan, Meeting& meeting, std::uint64_t step,
                         const WriteRankFile& write) {
  const CheckpointId id{.step = step, .attempt = plan.attempt};
  // From here on, this function catches all exceptions. If a rank threw one, the other ranks would wait,
  // because each rank must report its result to rank 0, and rank 0 must announce its decision.
  const auto mine = without_throwing([&]() -> Expected<std::string> {
    const auto written = write_my_file(plan, id, write);
    if (!written) return std::unexpected(written.error());
    return encode_rank_contents(*written);
  });
  meeting.give(mine ? *mine : word_of(Status(std::unexpected(mine.error()))));
  if (meeting.rank() != 0) return hear_decision(plan, meeting, id);
  Status committed = without_throwing([&] { return commit_manifest(plan, meeting, id); });
  if (!committed) {
    warn_unless("the files of a failed checkpoint stay",
                without_throwing([&] { return remove_failed(plan, id); }));
    committed = without_throwing([&] { return reason_of(committed, plan); });
  }
  const std::string word = word_of(committed);
  meeting.announce(word);
  return status_of(word);
}

Expected<std::vector<CheckpointId>> old_ones(const CommitPlan& plan, std::uint64_t newest) {
  return without_throwing([&]() -> Expected<std::vector<CheckpointId>> {
    const auto catalog = read_catalog(plan.directory);
    if (!catalog) return std::unexpected(catalog.error());
    const auto attempts = plan.directory.attempts();
    if (!attempts) return std::unexpected(attempts.error());
    RetentionPlan retention = plan.retention;
    retention.newest = {.step = newest, .attempt = plan.attempt};
    return to_remove(known_of(*catalog), *attempts, retention);
  });
}

Status remove_all(const CheckpointDirectory& directory, const std::vector<CheckpointId>& ids) {
  Status result;
  for (const CheckpointId& id : ids) {
    if (Status removed = without_throwing([&] { return directory.remove(id); }); !removed)
      result = std::move(removed);
  }
  return result;
}

}  // namespace muster
