#include "runtime/checkpoint/beginning.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/ranges.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/log.h"
#include "runtime/comm/job_state.h"

namespace muster {

namespace {

// How long rank 0 waits for the other ranks. The other ranks wait twice as long for rank 0.
constexpr auto kBeginTimeout = std::chrono::minutes(5);

bool same_directory(const std::string& left, const std::string& right) {
  std::error_code ignored;
  return left == right || std::filesystem::equivalent(left, right, ignored);
}

struct Found : Beginning {
  std::string record;  // the text of the attempt's file
};

// Returns how long ago the attempt's file was written. Returns 0 if the time is unknown, or if it is in the
// future by this machine's clock.
Seconds age_of(const CheckpointDirectory& directory, Attempt attempt) {
  std::error_code error;
  const auto begun = std::filesystem::last_write_time(directory.attempt_path(attempt), error);
  if (error) return Seconds(0);
  return std::max(Seconds(std::filesystem::file_time_type::clock::now() - begun), Seconds(0));
}

// Begins an attempt in the directory. If the launcher has restarted the job, the new attempt takes the
// directory over from the job's previous attempt. In any other case, this rank checks whether the directory's
// previous owner still runs. If it cannot find that out, it prints a warning.
Expected<AttemptRecord> begin_attempt(const Job& job, const CheckpointDirectory& directory) {
  const auto last = directory.newest();
  const bool goes_on = job.restart_count() > 0 && last && last->job == job.job_id();
  auto begun = directory.begin_attempt(job.job_id(), /*take_over=*/goes_on);
  if (begun && last && !goes_on && !is_alive(last->owner))
    log::warning("{} is taken over from {} on host {}: if that job still runs, it will stop",
                 directory.path(), last->job.empty() ? "a program" : "job " + last->job, last->owner.host);
  return begun;
}

Expected<AttemptRecord> begin_or_join_attempt(const Job& job, const CheckpointDirectory& directory,
                                              const std::vector<AttemptRecord>& attempts) {
  // The launcher may have begun an attempt in this directory. If so, this rank uses that attempt.
  if (!job.checkpoint_dir().empty() && same_directory(job.checkpoint_dir(), directory.path())) {
    for (const AttemptRecord& record : attempts)
      if (record.attempt == Attempt(job.attempt())) return record;
  }
  return begin_attempt(job, directory);
}

Expected<Found> begin(const Job& job, const CheckpointDirectory& directory) {
  if (Status usable = directory.check_writable(); !usable) return std::unexpected(usable.error());
  const auto attempts = directory.attempts();
  if (!attempts) return std::unexpected(attempts.error());
  const auto record = begin_or_join_attempt(job, directory, *attempts);
  if (!record) return std::unexpected(record.error());
  Found result{{.attempt = record->attempt, .resumable = {}, .of_this_job = {record->attempt}}, {}};
  if (record->resume) result.resumable = record->resume->step;
  for (const AttemptRecord& earlier : *attempts)
    if (job.restart_count() > 0 && earlier.job == record->job) result.of_this_job.push_back(earlier.attempt);
  result.job_age = age_of(directory, std::ranges::min(result.of_this_job));
  result.record = encode_attempt_record(*record);
  return result;
}

// Checks that this rank and rank 0 see the same directory. Returns "" if this rank sees the file of the
// attempt as rank 0 does. Otherwise returns a text that says what is wrong.
std::string check_same(const CheckpointDirectory& directory, Attempt attempt, const std::string& record) {
  if (Status usable = directory.check_writable(); !usable) return usable.error().message();
  const auto seen = directory.attempts();
  if (!seen) return seen.error().message();
  const auto mine = std::ranges::find(*seen, attempt, &AttemptRecord::attempt);
  if (mine != seen->end() && encode_attempt_record(*mine) == record) return "";
  return fmt::format("{} is not the same directory here as on rank 0's node: all nodes must share it",
                     directory.path());
}

std::mutex uses_mutex;
std::set<std::pair<const void*, std::string>> uses;

}  // namespace

Beginning begin_together(const Job& job, const CheckpointDirectory& directory, Meeting& meeting) {
  using nlohmann::json;
  const auto say = [&](const json& what) {
    meeting.announce(what.dump(-1, ' ', false, json::error_handler_t::replace));
  };
  if (meeting.rank() == 0) {
    auto found = without_throwing([&] { return begin(job, directory); });
    if (!found) {
      say({{"cannot", found.error().message()}});
      // In these two cases, a restart would not help: the directory would still belong to a running job
      // (kFenced), or the files would still have a format that is too new (kInvalidArgument).
      const ErrorCode code = found.error().code();
      throw CheckpointError(found.error().message(),
                            {.final = code == ErrorCode::kFenced || code == ErrorCode::kInvalidArgument});
    }
    json said{{"attempt", found->attempt.value()}, {"record", found->record}};
    if (found->resumable) said["resumable"] = *found->resumable;
    say(said);
    meeting.give("");
    const auto words = meeting.collect(kBeginTimeout);
    std::string cannot = words ? "" : words.error().message();
    for (std::size_t rank = 0; words && rank < words->size() && cannot.empty(); ++rank)
      if (!(*words)[rank].empty()) cannot = fmt::format("rank {}: {}", rank, (*words)[rank]);
    say({{"cannot", cannot}});
    if (!cannot.empty()) throw CheckpointError(cannot, {});
    return *std::move(found);
  }
  const auto hear = [&] {
    const auto word = meeting.listen(2 * kBeginTimeout);
    if (!word)
      throw std::runtime_error("checkpoints: rank 0 does not say which attempt this is: " +
                               word.error().message());
    auto said = json::parse(*word);
    if (const std::string cannot = said.value("cannot", ""); !cannot.empty())
      throw CheckpointError(cannot, {.told = true});
    return said;
  };
  const json said = hear();
  Beginning told{
      .attempt = Attempt(said.at("attempt").get<std::uint64_t>()), .resumable = {}, .of_this_job = {}};
  if (said.contains("resumable")) told.resumable = said["resumable"].get<std::uint64_t>();
  meeting.give(check_same(directory, told.attempt, said.at("record")));
  hear();
  return told;
}

DirectoryUse::DirectoryUse(const Job& job, const std::string& directory) : use_(&reports_of(job), {}) {
  std::error_code ignored;
  const auto whole = std::filesystem::weakly_canonical(directory, ignored);
  use_.second = whole.empty() ? directory : whole.string();
  const std::lock_guard lock(uses_mutex);
  if (!uses.insert(use_).second)
    throw std::invalid_argument(fmt::format(
        "Checkpointer: another one of this job writes into {}: give each a directory of its own", directory));
}
DirectoryUse::~DirectoryUse() {
  const std::lock_guard lock(uses_mutex);
  uses.erase(use_);
}

}  // namespace muster
