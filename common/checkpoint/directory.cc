#include "common/checkpoint/directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include "common/base/file.h"

namespace muster {

namespace {

constexpr std::uint64_t kAttemptFileLimit = 1 << 16;
constexpr std::uint64_t kManifestLimit = 1 << 30;
constexpr const char* kPin = "/pinned";
constexpr int kClaimTries = 1000;  // each failed try means that another process succeeded
constexpr int kLockTries = 200;
constexpr auto kLockPause = std::chrono::milliseconds(5);

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// Returns the names in a directory. If there is no such directory, the result is empty.
Expected<std::vector<std::string>> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return system_failure("cannot list " + path, error.value());
  return names;
}

// Recognizes parse_manifest()'s error for a newer format.
bool is_newer_format(const Error& damage) {
  return damage.code() == ErrorCode::kInvalidArgument;
}

// Returns those of `ids` that are in the chain of attempt `from` (see candidates()). `ids` must be sorted.
// The newest one comes first in the result.
std::vector<CheckpointId> on_chain(const std::vector<AttemptRecord>& records, Attempt from,
                                   const std::vector<CheckpointId>& ids) {
  std::vector<CheckpointId> chain;
  std::uint64_t last_step = UINT64_MAX;
  for (std::optional<Attempt> attempt = from; attempt;) {
    const auto record = std::ranges::find(records, *attempt, &AttemptRecord::attempt);
    if (record == records.end()) break;
    for (auto id = ids.rbegin(); id != ids.rend(); ++id)
      if (id->attempt == *attempt && id->step <= last_step) chain.push_back(*id);
    attempt.reset();
    if (record->resume) {
      attempt = record->resume->attempt;
      last_step = record->resume->step;
    }
  }
  return chain;
}

// Returns the checkpoints that attempt `from` passed by when it resumed. They are those of the sorted `ids`
// that are in the chain of the attempt before `from`, and that are newer than the checkpoint from which
// `from` resumed. Such a checkpoint was damaged when `from` began, or a fenced attempt committed it later.
std::vector<CheckpointId> passed_by(const std::vector<AttemptRecord>& records, Attempt from,
                                    const std::vector<CheckpointId>& ids) {
  const auto record = std::ranges::find(records, from, &AttemptRecord::attempt);
  if (record == records.begin() || record == records.end() || !record->resume) return {};
  auto chain = on_chain(records, std::prev(record)->attempt, ids);
  std::erase_if(chain, [&](CheckpointId id) { return !is_newer(id, *record->resume); });
  return chain;
}

// Takes a lock, so that only one process at a time looks at the newest attempt and then claims the next
// number. Gives up if the file system has no locks, or after a second. Attempt numbers are unique even
// without the lock.
UniqueFd locked(const std::string& directory) {
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int tries = 0; fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) {
    if (tries == kLockTries) break;
    std::this_thread::sleep_for(kLockPause);
  }
  return fd;
}

}  // namespace

std::string rank_file_name(std::int32_t rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

std::string name_of(CheckpointId id) {
  return fmt::format("step {} of attempt {}", id.step, id.attempt);
}

void PassedOver::add(CheckpointId id, const std::string& why) {
  if (!groups_.empty() && groups_.back().why == why)
    groups_.back().names += ", " + name_of(id);
  else
    groups_.push_back({.names = name_of(id), .why = why});
}

Error PassedOver::none_can_be_used(const std::string& path, bool misfits) const {
  std::string tried;
  for (const Group& each : groups_)
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : "; ", each.names, each.why);
  return {
      misfits ? ErrorCode::kInvalidArgument : ErrorCode::kCorrupt,
      fmt::format(
          "{} has checkpoints and none can be used; {}, or name another directory to start anew. Tried: {}",
          path, misfits ? "go on with the program and the options that saved them" : "repair them", tried)};
}

std::string directory_name(CheckpointId id) {
  return fmt::format("step-{}.attempt-{}", id.step, id.attempt);
}

std::optional<CheckpointId> parse_directory_name(std::string_view name) {
  std::uint64_t step = 0;
  std::uint64_t attempt = 0;
  std::string_view rest = name;
  if (!take_word(rest, "step-") || !take_number(rest, step) || !take_word(rest, ".attempt-") ||
      !take_number(rest, attempt) || !rest.empty()) {
    return std::nullopt;
  }
  const CheckpointId id{.step = step, .attempt = Attempt(attempt)};
  return directory_name(id) == name ? std::optional(id)
                                    : std::nullopt;  // rejects another spelling such as step-007
}

std::string CheckpointDirectory::path_of(CheckpointId id) const {
  return path_ + "/" + directory_name(id);
}
std::string CheckpointDirectory::manifest_path(CheckpointId id) const {
  return path_of(id) + "/manifest.json";
}
std::string CheckpointDirectory::attempt_path(Attempt attempt) const {
  return fmt::format("{}/{:06}.json", attempts_path(), attempt.value());
}
std::string CheckpointDirectory::claim_path(Attempt attempt) const {
  return fmt::format("{}/{:06}.claim", attempts_path(), attempt.value());
}

Status CheckpointDirectory::check_writable() const {
  const std::string what = fmt::format("cannot use checkpoint directory {}", path_);
  if (Status made = make_directories_durably(attempts_path()); !made)
    return failure_within(what, std::move(made));
  std::string probe = path_ + "/.probe-XXXXXX";
  UniqueFd fd(mkostemp(probe.data(), O_CLOEXEC));
  if (!fd) return system_failure(what, errno);
  unlink(probe.c_str());
  return {};
}

Expected<std::vector<Attempt>> CheckpointDirectory::recorded() const {
  return numbers_with(".json");
}
Expected<std::vector<Attempt>> CheckpointDirectory::claimed() const {
  return numbers_with(".claim");
}

Expected<std::vector<Attempt>> CheckpointDirectory::numbers_with(std::string_view ending) const {
  auto names = names_in(attempts_path());
  if (!names) return std::unexpected(names.error());
  std::vector<Attempt> numbers;
  for (const std::string& name : *names) {
    std::string_view rest = name;
    std::uint64_t number = 0;
    const bool numbered = rest.size() >= 6 && take_number(rest, number);
    const std::string_view found = rest.starts_with(".json") ? ".json" : ".claim";
    const bool known = numbered && take_word(rest, found);
    // Skips two kinds of files: temporary files from a crash in create_file_exclusively(), and hidden files
    // from NFS.
    if ((known && rest.starts_with(".tmp-")) || name.starts_with('.')) continue;
    if (!known || !rest.empty()) {
      return failure(ErrorCode::kCorrupt, "{}/{} is not a file of Muster: move it away", attempts_path(),
                     name);
    }
    if (found == ending) numbers.push_back(Attempt(number));
  }
  std::ranges::sort(numbers);
  return numbers;
}

Expected<AttemptRecord> CheckpointDirectory::read_attempt(Attempt attempt) const {
  return read_record(attempt_path(attempt), attempt);
}

Expected<AttemptRecord> CheckpointDirectory::read_record(const std::string& path, Attempt attempt) const {
  auto text = read_regular_file(path, kAttemptFileLimit);
  if (!text) return std::unexpected(text.error());
  auto record = parse_attempt_record(*text, attempt);
  if (!record) return failure_within("cannot use " + path, std::move(record));
  return record;
}

Expected<std::vector<AttemptRecord>> CheckpointDirectory::attempts() const {
  auto numbers = recorded();
  if (!numbers) return std::unexpected(numbers.error());
  std::vector<AttemptRecord> records;
  for (const Attempt number : *numbers) {
    auto record = read_attempt(number);
    if (!record) return std::unexpected(record.error());
    records.push_back(*std::move(record));
  }
  return records;
}

Expected<std::vector<CheckpointId>> CheckpointDirectory::step_directories() const {
  auto names = names_in(path_);
  if (!names) return std::unexpected(names.error());
  std::vector<CheckpointId> ids;
  for (const std::string& name : *names) {
    if (const auto id = parse_directory_name(name)) ids.push_back(*id);
  }
  std::ranges::sort(ids);
  return ids;
}

Status check_formats(const std::vector<CheckpointEntry>& entries) {
  for (const CheckpointEntry& entry : entries) {
    if (!entry.damage) return {};
    if (is_newer_format(*entry.damage)) return std::unexpected(*entry.damage);
  }
  return {};
}

Expected<CheckpointManifest> CheckpointDirectory::read_manifest(CheckpointId id) const {
  const std::string path = manifest_path(id);
  auto text = read_regular_file(path, kManifestLimit);
  if (!text) return std::unexpected(text.error());
  auto manifest = parse_manifest(*text);
  if (!manifest) return failure_within("cannot use " + path, std::move(manifest));
  if (manifest->id != id)
    return failure(ErrorCode::kCorrupt, "cannot use {}: it is the manifest of {}", path,
                   directory_name(manifest->id));
  return manifest;
}

std::optional<CheckpointEntry> CheckpointDirectory::read_entry(CheckpointId id) const {
  const auto manifest = read_manifest(id);
  if (manifest) return CheckpointEntry{.id = id, .damage = {}};
  if (manifest.error().code() == ErrorCode::kNotFound) return std::nullopt;
  return CheckpointEntry{.id = id, .damage = manifest.error()};
}

Expected<std::vector<CheckpointId>> CheckpointDirectory::committed() const {
  auto ids = step_directories();
  if (!ids) return std::unexpected(ids.error());
  std::erase_if(*ids, [this](CheckpointId id) { return !read_manifest(id); });
  return ids;
}

Expected<std::vector<CheckpointEntry>> CheckpointDirectory::chain_from(
    const std::vector<AttemptRecord>& records, Attempt from) const {
  auto ids = step_directories();
  if (!ids) return std::unexpected(ids.error());
  std::vector<CheckpointEntry> chain;
  for (const CheckpointId id : on_chain(records, from, *ids))
    if (auto entry = read_entry(id)) chain.push_back(*std::move(entry));
  for (const CheckpointId id : passed_by(records, from, *ids)) {
    auto entry = read_entry(id);
    if (entry && entry->damage && entry->damage->code() == ErrorCode::kCorrupt)
      chain.push_back(*std::move(entry));
  }
  std::ranges::sort(chain, is_newer, &CheckpointEntry::id);
  return chain;
}

Expected<std::vector<CheckpointId>> CheckpointDirectory::counting(
    const std::vector<CheckpointId>& ids) const {
  auto records = attempts();
  if (!records) return std::unexpected(records.error());
  return records->empty() ? std::vector<CheckpointId>() : on_chain(*records, records->back().attempt, ids);
}

Expected<std::vector<CheckpointEntry>> CheckpointDirectory::candidates(std::optional<Attempt> from) const {
  auto records = attempts();
  if (!records) return std::unexpected(records.error());
  if (records->empty()) return std::vector<CheckpointEntry>();
  return chain_from(*records, from.value_or(records->back().attempt));
}

Expected<std::vector<CheckpointId>> CheckpointDirectory::resumable() const {
  auto entries = candidates();
  if (!entries) return std::unexpected(entries.error());
  std::vector<CheckpointId> ids;
  for (const CheckpointEntry& entry : *entries) {
    if (!entry.damage) ids.push_back(entry.id);
  }
  return ids;
}

Expected<std::vector<CheckpointId>> CheckpointDirectory::unrecorded() const {
  auto numbers = recorded();
  if (!numbers) return std::unexpected(numbers.error());
  auto ids = step_directories();
  if (!ids) return std::unexpected(ids.error());
  std::erase_if(*ids, [&](CheckpointId id) {
    return std::ranges::binary_search(*numbers, id.attempt) || !read_entry(id);
  });
  return ids;
}

Expected<std::optional<CheckpointId>> CheckpointDirectory::newest_from(
    const std::vector<AttemptRecord>& records, std::optional<CheckpointId> known) const {
  const auto ids = step_directories();
  if (!ids) return std::unexpected(ids.error());
  PassedOver passed_over;
  const auto chain =
      records.empty() ? std::vector<CheckpointId>() : on_chain(records, records.back().attempt, *ids);
  // Manifests can be large. Reads an older one only if all newer ones are damaged.
  for (const CheckpointId id : chain) {
    if (id == known) return id;
    const auto entry = read_entry(id);
    if (!entry) continue;
    if (!entry->damage) return id;
    // The manifest is not corrupt. It has a newer format, or it cannot be read now. Resuming from an older
    // checkpoint would lose the training since that one.
    if (entry->damage->code() != ErrorCode::kCorrupt) return std::unexpected(*entry->damage);
    passed_over.add(id, entry->damage->message());
  }
  const auto lost = unrecorded();
  if (!lost) return std::unexpected(lost.error());
  for (const CheckpointId id : *lost) passed_over.add(id, kNoAttemptFile);
  if (passed_over.groups().empty()) return std::nullopt;
  return std::unexpected(passed_over.none_can_be_used(path_));
}

Expected<Attempt> CheckpointDirectory::newest_number() const {
  auto claims = claimed();
  if (!claims) return std::unexpected(claims.error());
  auto records = recorded();
  if (!records) return std::unexpected(records.error());
  return std::max(claims->empty() ? Attempt(0) : claims->back(),
                  records->empty() ? Attempt(0) : records->back());
}

// Returns a number that no attempt has used. It looks at the step directories, too: if the file of an attempt
// is lost, its number must still not be used again.
Expected<Attempt> CheckpointDirectory::unused_number() const {
  auto newest = newest_number();
  if (!newest) return std::unexpected(newest.error());
  auto ids = step_directories();
  if (!ids) return std::unexpected(ids.error());
  Attempt last = *newest;
  for (const CheckpointId& id : *ids) last = std::max(last, id.attempt);
  return std::max(last.next(), kFirstAttempt);
}

Expected<Attempt> CheckpointDirectory::claim_number(const std::string& job) const {
  for (int tries = 0; tries < kClaimTries; ++tries) {
    auto number = unused_number();
    if (!number) return number;
    const AttemptRecord owner{.attempt = *number, .job = job, .owner = own_identity(), .resume = {}};
    Status created = create_file_exclusively(claim_path(*number), encode_attempt_record(owner));
    if (created) return number;
    if (created.error().code() != ErrorCode::kFenced) return std::unexpected(created.error());
  }
  return failure(ErrorCode::kUnavailable, "other launches keep taking {} over", path_);
}

// Claims a number. If another process has the newest attempt and is alive, returns kFenced instead.
Expected<Attempt> CheckpointDirectory::claim_unused(const std::string& job) const {
  const UniqueFd lock = locked(attempts_path());
  const auto last = newest();
  if (last && last->owner != own_identity() && is_alive(last->owner).value_or(false))
    return failure(ErrorCode::kFenced, "{} is in use by {}, which is running", path_, owner_of(*last));
  return claim_number(job);
}

Expected<AttemptRecord> CheckpointDirectory::begin_attempt(const std::string& job, bool take_over) const {
  if (Status made = make_directories_durably(attempts_path()); !made) return std::unexpected(made.error());
  // First checks that the directory can be read. If it cannot, this function must not claim a number: a claim
  // ends the newest attempt's right to write, but the new attempt could not begin.
  const auto readable = attempts();
  if (!readable) return std::unexpected(readable.error());
  const auto known = newest_from(*readable);
  if (!known) return std::unexpected(known.error());
  auto number = take_over ? claim_number(job) : claim_unused(job);
  if (!number && number.error().code() == ErrorCode::kFenced) return std::unexpected(number.error());
  if (!number) return failure_within("cannot begin an attempt", std::move(number));
  auto begun = record_claimed(job, *number, *known);
  // Removes the claim. If the claim stayed, check_newest() would believe that a newer attempt has begun. Then
  // the earlier attempts, even those of this launch, could no longer write.
  if (!begun) unlink(claim_path(*number).c_str());
  return begun;
}

Expected<AttemptRecord> CheckpointDirectory::record_claimed(const std::string& job, Attempt number,
                                                            const std::optional<CheckpointId>& known) const {
  // The order of these steps matters. A writer commits its checkpoint, and then looks for a newer number.
  // This function has claimed its number, and now looks for the newest commit. If both happen at the same
  // time, this function sees the commit, or the writer sees the new number, or both.
  auto before = attempts();
  if (!before) return std::unexpected(before.error());
  std::erase_if(*before, [&](const AttemptRecord& record) { return record.attempt > number; });
  auto resume = newest_from(*before, known);
  if (!resume) return std::unexpected(resume.error());
  AttemptRecord record{.attempt = number, .job = job, .owner = own_identity(), .resume = *resume};
  Status created = create_file_exclusively(attempt_path(number), encode_attempt_record(record));
  if (!created) return failure_within("cannot begin an attempt", std::move(created));
  return record;
}

Expected<AttemptRecord> CheckpointDirectory::read_begun(Attempt attempt) const {
  auto record = read_attempt(attempt);
  if (record) return record;
  // An attempt first claims its number and then writes its record. If there is no record yet, the claim also
  // names the job and its host.
  auto claim = read_record(claim_path(attempt), attempt);
  return claim ? std::move(claim) : std::move(record);
}

std::optional<AttemptRecord> CheckpointDirectory::newest() const {
  const auto number = newest_number();
  if (!number || *number == Attempt(0)) return std::nullopt;
  auto record = read_begun(*number);
  return record ? std::optional(*std::move(record)) : std::nullopt;
}

Status CheckpointDirectory::check_newest(Attempt mine) const {
  auto newest = newest_number();
  if (!newest) return failure_within("cannot look for a newer attempt", std::move(newest));
  if (*newest == mine) return {};
  if (*newest < mine) {
    // On a network file system a list may be old. A name that this attempt has made is looked up anew.
    const bool is_there =
        access(attempt_path(mine).c_str(), F_OK) == 0 || access(claim_path(mine).c_str(), F_OK) == 0;
    if (is_there) return {};
    return failure(
        ErrorCode::kNotFound,
        "the checkpoint directory {} is gone (moved or removed during the training): there is no {} in it",
        path_, attempt_path(mine).substr(path_.size() + 1));
  }
  // There is an attempt with a higher number, so `mine` is fenced, whatever the other attempt's file says.
  // That file is read to name the other job in the message, and for nothing else.
  const auto taker = read_begun(*newest);
  return failure(ErrorCode::kFenced, "attempt {}{} has taken over checkpoint directory {} from attempt {}",
                 *newest,
                 taker ? fmt::format(" of job '{}' on host {}", taker->job, taker->owner.host)
                       : fmt::format(" (its file cannot be read: {})", taker.error().message()),
                 path_, mine);
}

bool CheckpointDirectory::is_pinned(CheckpointId id) const {
  // If an error hides whether there is a pin, the checkpoint counts as pinned.
  return access((path_of(id) + kPin).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

Status CheckpointDirectory::pin(CheckpointId id) const {
  if (access(manifest_path(id).c_str(), F_OK) != 0)
    return system_failure("cannot pin " + path_of(id) + ": its manifest", errno);
  if (Status written = write_file_durably(path_of(id) + kPin, ""); !written) return written;
  // The writer of the checkpoint may have been killed before it synced the parent directory. So this
  // directory is synced, too.
  return sync_directory(path_);
}

Status CheckpointDirectory::unpin(CheckpointId id) const {
  if (unlink((path_of(id) + kPin).c_str()) != 0 && errno != ENOENT)
    return system_failure("cannot unpin " + path_of(id), errno);
  return sync_directory(path_of(id));
}

Status CheckpointDirectory::sync(CheckpointId id) const {
  if (Status synced = sync_directory(path_of(id)); !synced) return synced;
  return sync_directory(path_);
}

Status CheckpointDirectory::remove(CheckpointId id) const {
  const std::string directory = path_of(id);
  if (is_pinned(id)) return failure(ErrorCode::kPermission, "{} is pinned: unpin it first", directory);
  if (unlink(manifest_path(id).c_str()) == 0) {
    if (Status synced = sync_directory(directory); !synced) return synced;
  } else if (errno != ENOENT && errno != EISDIR) {  // remove_all() removes a directory
    return system_failure("cannot remove " + manifest_path(id), errno);
  }
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  if (error) return system_failure("cannot remove " + directory, error.value());
  return {};
}

}  // namespace muster
