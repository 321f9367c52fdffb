#include "agent/io/mpi/mapped_files.h"

#include <fmt/format.h>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;  // of a file in /proc
constexpr std::string_view kRemoved = " (deleted)";

void add_files_of(pid_t process, const std::function<bool(std::string_view)>& is_wanted,
                  std::set<std::string>& files) {
  const std::string maps = read_file(fmt::format("/proc/{}/maps", process), kMostBytes).value_or("");
  for (const std::string_view line : split(maps, '\n')) {
    const std::size_t start = line.find('/');  // only the path, which comes last, has a slash
    if (start == std::string_view::npos || line.ends_with(kRemoved)) continue;
    if (is_wanted(line.substr(start))) files.emplace(line.substr(start));
  }
}

}  // namespace

std::set<std::string> files_mapped_by(const std::set<pid_t>& processes,
                                      const std::function<bool(std::string_view)>& is_wanted) {
  std::set<std::string> files;
  for (const pid_t each : processes) add_files_of(each, is_wanted, files);
  return files;
}

std::set<pid_t> with_descendants(pid_t process) {
  std::set<pid_t> found;
  for (std::set<pid_t> open = {process}; !open.empty();) {
    const pid_t next = open.extract(open.begin()).value();
    if (!found.insert(next).second) continue;
    const std::string children =
        read_file(fmt::format("/proc/{0}/task/{0}/children", next), kMostBytes).value_or("");
    for (const std::string_view child : split(children, ' ')) {
      if (const auto pid = parse_number<pid_t>(child)) open.insert(*pid);
    }
  }
  return found;
}

}  // namespace muster::agent
