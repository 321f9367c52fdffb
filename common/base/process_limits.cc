#include "common/base/process_limits.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster {

namespace {

// If at least this many more processes are allowed, the limit was not the reason for the failure. Other
// processes may have ended since the failure, but hardly so many.
constexpr std::uint64_t kNear = 1000;

std::optional<std::uint64_t> number_in(const std::string& path) {
  auto text = read_file(path, 64);
  if (!text) return std::nullopt;
  while (text->ends_with('\n')) text->pop_back();
  return parse_number<std::uint64_t>(*text);
}

// Adds the limits of this process's control group and of its parent groups. The limits are in files of cgroup
// version 2, or of the pids controller of version 1. If a file has "max", there is no limit.
void add_cgroup_limits(std::vector<ProcessLimit>& limits) {
  const std::string groups = read_file("/proc/self/cgroup", 1 << 16).value_or("");
  for (const std::string_view line : split(groups, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3 || !(fields[1].empty() || fields[1] == "pids")) continue;
    const std::string root = fields[1].empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    for (std::filesystem::path group(fields[2]);; group = group.parent_path()) {
      const std::string directory = root + (group == group.root_path() ? "" : group.string());
      if (const auto limit = number_in(directory + "/pids.max"))
        limits.push_back(
            {directory + "/pids.max", *limit, number_in(directory + "/pids.current").value_or(0)});
      if (group == group.parent_path()) break;
    }
  }
}

// Returns the number after `key`, such as "Uid:", in the text of /proc/PID/status.
std::optional<std::uint64_t> status_number(std::string_view status, std::string_view key) {
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("\t "), rest.size()));
    return parse_number<std::uint64_t>(rest.substr(0, rest.find_first_of("\t ")));
  }
  return std::nullopt;
}

// Counts the threads of the user, but only those in this PID namespace. The kernel's own count also has those
// in other namespaces.
std::uint64_t count_threads_of(uid_t user) {
  std::uint64_t count = 0;
  std::error_code error;
  std::filesystem::directory_iterator next("/proc", error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    const std::string name = next->path().filename();
    if (!parse_number<std::uint32_t>(name)) continue;
    const auto status = read_file(next->path() / "status", 1 << 14);
    if (!status || status_number(*status, "Uid:") != user) continue;
    count += status_number(*status, "Threads:").value_or(1);
  }
  return count;
}

// Returns the number of threads on the machine, from /proc/loadavg. For example, "0.20 0.18 0.12 1/80 11206"
// means that there are 80 threads.
std::uint64_t count_all_threads() {
  const std::string load = read_file("/proc/loadavg", 256).value_or("");
  const auto fields = split(load, ' ');
  if (fields.size() < 4) return 0;
  return parse_number<std::uint64_t>(fields[3].substr(fields[3].find('/') + 1)).value_or(0);
}

}  // namespace

std::vector<ProcessLimit> process_limits() {
  std::vector<ProcessLimit> limits;
  add_cgroup_limits(limits);
  rlimit own{};
  getrlimit(RLIMIT_NPROC, &own);
  if (getuid() != 0 && own.rlim_cur != RLIM_INFINITY)
    limits.push_back({"RLIMIT_NPROC (ulimit -u)", own.rlim_cur, count_threads_of(getuid())});
  const std::uint64_t all = count_all_threads();
  for (const char* name : {"pid_max", "threads-max"}) {
    if (const auto limit = number_in(fmt::format("/proc/sys/kernel/{}", name)))
      limits.push_back({fmt::format("kernel.{}", name), *limit, all});
  }
  return limits;
}

std::string nearest_process_limit(int error_number) {
  if (error_number != EAGAIN) return "";
  const std::vector<ProcessLimit> limits = process_limits();
  const auto nearest = std::ranges::min_element(limits, {}, &ProcessLimit::left);
  if (nearest == limits.end() || nearest->left() > kNear) return "";
  return fmt::format(" ({} is {}, with {} processes and threads in use)", nearest->name, nearest->limit,
                     nearest->used);
}

}  // namespace muster
