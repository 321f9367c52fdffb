#include "launcher/io/sweep/trial_directory.h"

#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>

#include "common/base/file.h"
#include "common/checkpoint/directory.h"

namespace muster::launcher::sweep {

namespace {

namespace fs = std::filesystem;

// This file is in a trial's checkpoint directory, and describes the exploit that the checkpoints came from:
// the donor (another trial), the donor's step and parameters, and the number of this trial's run. A trial can
// exploit the same donor twice while the donor is still at the same step. Then the two exploits may differ
// only in the number of the run.
constexpr const char* kExploitFile = "exploit.json";

std::string text_of_exploit(const StartRun& start) {
  return nlohmann::ordered_json{{"from", start.exploited->from},
                                {"step", start.exploited->step},
                                {"params", point_as_json(start.exploited->point)},
                                {"run", start.exploit_run}}
             .dump() +
         "\n";
}

constexpr int kLinkTries = 100;  // each that fails means that the donor has removed a checkpoint meanwhile

bool is_gone(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory;
}

// Links the files of a directory, except the one called `left_out`. Other processes may remove files at the
// same time.
std::error_code link_files(const fs::path& from, const fs::path& to, std::string_view left_out = "") {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return error;
  for (fs::directory_iterator next(from, error); !error && next != fs::directory_iterator();
       next.increment(error)) {
    std::error_code ignored;
    const fs::path name = next->path().filename();
    if (name == left_out || !next->is_regular_file(ignored)) continue;
    fs::create_hard_link(next->path(), to / name, error);
    if (is_gone(error)) error.clear();
    if (error) return error;
  }
  return error;
}

// The manifest is the first file that the donor removes. So this function links the manifest last. If the
// manifest still exists at that moment, the donor had not begun to remove files, so all other files were
// linked.
std::error_code link_checkpoint(const CheckpointDirectory& donor, const CheckpointDirectory& mine,
                                CheckpointId id) {
  const fs::path manifest = donor.manifest_path(id);
  std::error_code error = link_files(donor.path_of(id), mine.path_of(id), manifest.filename().native());
  if (!error) fs::create_hard_link(manifest, mine.manifest_path(id), error);
  std::error_code ignored;
  if (is_gone(error)) fs::remove_all(mine.path_of(id), ignored);
  return error;
}

// Links the newest checkpoint that counts. A checkpoint counts only if the directory has the file of its
// attempt. So this also links the attempt files, but only after the checkpoint. If the attempt files were
// linked first, the donor could begin a new attempt after that. Then the newest checkpoint could belong to
// the new attempt, and the file of the new attempt would be missing.
Status link_newest_checkpoint(const std::string& from, const std::string& to) {
  const CheckpointDirectory donor(from);
  std::error_code error;
  for (int tries = 0; tries < kLinkTries; ++tries) {
    const auto all = donor.step_directories();
    if (!all) return std::unexpected(all.error());
    const auto ids = donor.resumable();
    if (!ids) return std::unexpected(ids.error());
    if (all->empty()) break;
    if (ids->empty()) continue;  // a newer one may have come since the directory was listed
    error = link_checkpoint(donor, CheckpointDirectory(to), ids->front());
    if (!is_gone(error)) break;
  }
  if (!error) error = link_files(from + "/attempts", to + "/attempts");
  return error ? system_failure("cannot link the checkpoints in " + from, error.value()) : Status();
}

bool is_own_file(const std::string& name) {
  return name != "attempts" && name != "index.json" && name != kExploitFile && !name.starts_with('.') &&
         !parse_directory_name(name);
}

// Some programs have a checkpoint format of their own. Their files are copied and not linked. If they were
// linked, a program that writes into such a file would also change the file of the other trial.
Status copy_own_files(const std::string& from, const std::string& to) {
  std::error_code error;
  for (fs::directory_iterator next(from, error); !error && next != fs::directory_iterator();
       next.increment(error)) {
    const fs::path name = next->path().filename();
    if (!is_own_file(name)) continue;
    fs::copy(next->path(), to / name, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    if (is_gone(error)) error.clear();
    if (error) break;
  }
  return error ? system_failure("cannot copy the checkpoints in " + from, error.value()) : Status();
}

}  // namespace

std::string trial_directory(const std::string& sweep_directory, std::int32_t trial) {
  return fmt::format("{}/trials/{:04}", sweep_directory, trial);
}

std::string checkpoints_of(const std::string& sweep_directory, std::int32_t trial, const std::string& given) {
  if (given.empty()) return trial_directory(sweep_directory, trial) + "/checkpoints";
  return fmt::format("{}/{:04}", given, trial);
}

Status make_trial_directory(const std::string& directory, const Point& point) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return system_failure("cannot create " + directory, error.value());
  const std::string path = directory + "/params.json";
  const std::string text = point_as_json(point).dump(2) + "\n";
  if (const auto present = read_file(path, text.size() + 1); present && *present == text) return {};
  const std::string unfinished = path + ".new";
  UniqueFd file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return system_failure("cannot create " + unfinished, errno);
  if (Status written = write_all(file.get(), text, unfinished); !written) return written;
  if (rename(unfinished.c_str(), path.c_str()) != 0) return system_failure("cannot create " + path, errno);
  return {};
}

Status take_over_checkpoints(const std::string& mine, const std::string& donors, const StartRun& start) {
  const std::string text = text_of_exploit(start);
  if (const auto done = read_file(mine + "/" + kExploitFile, 1 << 20); done && *done == text) return {};
  const std::string unfinished = mine + ".new";
  std::error_code error;
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  if (error) return system_failure("cannot create " + unfinished, error.value());
  if (fs::exists(donors, error)) {
    if (Status linked = link_newest_checkpoint(donors, unfinished); !linked) return linked;
    if (Status copied = copy_own_files(donors, unfinished); !copied) return copied;
  }
  if (Status written = write_file_durably(unfinished + "/" + kExploitFile, text); !written) return written;
  fs::remove_all(mine, error);
  fs::rename(unfinished, mine, error);
  return error ? system_failure("cannot create " + mine, error.value()) : Status();
}

Status prepare_trial(const std::string& sweep_directory, const std::string& given, const StartRun& start) {
  const std::string directory = trial_directory(sweep_directory, start.trial);
  if (Status made = make_trial_directory(directory, start.point); !made || !start.exploited) return made;
  return take_over_checkpoints(checkpoints_of(sweep_directory, start.trial, given),
                               checkpoints_of(sweep_directory, start.exploited->from, given), start);
}

}  // namespace muster::launcher::sweep
