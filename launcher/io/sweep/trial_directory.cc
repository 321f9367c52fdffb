#include "launcher/io/sweep/trial_directory.h"

#include <filesystem>
#include <fmt/format.h>

#include "common/base/file.h"
#include "common/checkpoint/directory.h"

namespace muster::launcher::sweep {

namespace {

namespace fs = std::filesystem;

// Names the exploit whose checkpoints the directory has.
constexpr const char* kExploitFile = "exploit.json";

std::string text_of_exploit(const Exploited& exploited) {
  return nlohmann::ordered_json{
             {"from", exploited.from}, {"step", exploited.step}, {"params", point_as_json(exploited.point)}}
             .dump() +
         "\n";
}

// Links every file of a checkpoint that is committed, and all attempt files, without which none counts.
Status link_checkpoints(const std::string& from, const std::string& to) {
  std::error_code error;
  const auto link_all = [&](const fs::path& folder) {
    fs::create_directories(fs::path(to) / folder, error);
    for (fs::directory_iterator next(fs::path(from) / folder, error);
         !error && next != fs::directory_iterator(); next.increment(error)) {
      if (next->is_regular_file(error))
        fs::create_hard_link(next->path(), fs::path(to) / folder / next->path().filename(), error);
    }
  };
  const CheckpointDirectory donor(from);
  const auto committed = donor.committed();
  if (!committed) return std::unexpected(committed.error());
  // The attempt files last: a checkpoint of a newer attempt than these would not count.
  for (const CheckpointId& id : *committed) {
    if (!error) link_all(directory_name(id));
  }
  if (!error) link_all("attempts");
  return error ? system_failure("cannot link the checkpoints in " + from, error.value()) : Status();
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

Status take_over_checkpoints(const std::string& mine, const std::string& donors, const Exploited& exploited) {
  const std::string text = text_of_exploit(exploited);
  if (const auto done = read_file(mine + "/" + kExploitFile, 1 << 20); done && *done == text) return {};
  const std::string unfinished = mine + ".new";
  std::error_code error;
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  if (error) return system_failure("cannot create " + unfinished, error.value());
  if (fs::exists(donors, error)) {
    if (Status linked = link_checkpoints(donors, unfinished); !linked) return linked;
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
                               checkpoints_of(sweep_directory, start.exploited->from, given),
                               *start.exploited);
}

}  // namespace muster::launcher::sweep
