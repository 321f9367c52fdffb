#include "agent/core/health/cgroup.h"

#include <algorithm>

#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::int64_t kNoMemoryLimit = std::int64_t{1}
                                        << 60;  // version 1 writes a number near 2^63 for "no limit"

struct Mount {
  std::string_view root;  // the part of the hierarchy that is mounted
  std::string point;
};

// Returns a path as it really is. `text` is the path as the kernel has written it: the kernel writes a blank
// or a backslash as \ooo, with octal digits.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool lists(std::string_view comma_list, std::string_view word) {
  const auto words = split(comma_list, ',');
  return std::ranges::find(words, word) != words.end();
}

// Finds the place where the hierarchy of a controller is mounted. If `controller` is empty, this is the
// hierarchy of version 2. A line of `mountinfo` has the form "36 35 98:0 ROOT POINT OPTIONS [OPTIONAL...] -
// TYPE SOURCE SUPER_OPTIONS".
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view controller) {
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto fields = split(line.substr(0, dash), ' ');
    const auto kind = split(line.substr(dash + 3), ' ');
    if (fields.size() < 6 || kind.size() < 3) continue;
    const bool wanted =
        controller.empty() ? kind[0] == "cgroup2" : kind[0] == "cgroup" && lists(kind[2], controller);
    if (wanted) return Mount{fields[3], unescape(fields[4])};
  }
  return std::nullopt;
}

std::optional<std::string> directory_of(const Mount& mount, std::string_view path) {
  const std::string_view root = mount.root == "/" ? "" : mount.root;
  const bool below = path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  // If the group is outside of the mounted part of the hierarchy, it cannot be read. Its path then contains
  // "/..", or it belongs to another container.
  if (!below || path.find("/..") != std::string_view::npos) return std::nullopt;
  const std::string_view rest = path.substr(root.size());
  return mount.point + std::string(rest == "/" ? "" : rest);
}

// Finds the directory of the process's group. A line of `process_cgroups` is like "7:memory:/a/b". For
// version 2 it is like "0::/a/b".
std::optional<std::string> find_directory(std::string_view process_cgroups, std::string_view mountinfo,
                                          std::string_view controller) {
  for (const std::string_view line : split(process_cgroups, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', std::min(line.size(), first + 1));
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool wanted = controller.empty() ? line.substr(0, first) == "0" && controllers.empty()
                                           : lists(controllers, controller);
    if (!wanted) continue;
    const auto mount = find_mount(mountinfo, controller);
    return mount ? directory_of(*mount, line.substr(second + 1)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cgroup> find_cgroup(std::string_view process_cgroups, std::string_view mountinfo,
                                  std::string_view controller) {
  if (auto directory = find_directory(process_cgroups, mountinfo, controller))
    return Cgroup{*std::move(directory), false};
  return find_unified_cgroup(process_cgroups, mountinfo);
}

std::optional<Cgroup> find_unified_cgroup(std::string_view process_cgroups, std::string_view mountinfo) {
  auto directory = find_directory(process_cgroups, mountinfo, "");
  if (!directory) return std::nullopt;
  return Cgroup{*std::move(directory), true};
}

// The result should not include kills in child groups. In cgroup version 1, the file memory.oom_control does
// not count them. In version 2, memory.events.local does not count them either, but Linux has this file only
// from 5.2 on. On an older kernel, the function reads memory.events, which does count them.
std::optional<std::int64_t> oom_kills_in(const Cgroup& group,
                                         const std::function<std::string(const std::string& path)>& read) {
  if (!group.unified) return number_of(read(group.directory + "/memory.oom_control"), "oom_kill");
  const auto local = number_of(read(group.directory + "/memory.events.local"), "oom_kill");
  return local ? local : number_of(read(group.directory + "/memory.events"), "oom_kill");
}

std::int64_t memory_limit_of(const Cgroup& group,
                             const std::function<std::string(const std::string& path)>& read) {
  std::int64_t least = kNoMemoryLimit;
  if (!group.unified) {
    least = number_of(read(group.directory + "/memory.stat"), "hierarchical_memory_limit")
                .value_or(kNoMemoryLimit);
  } else {
    // Goes from the group up through its parents. It ends at the root, which has no file memory.max.
    std::string directory = group.directory;
    for (std::string text; !(text = read(directory + "/memory.max")).empty();
         directory.resize(directory.rfind('/'))) {
      text.resize(std::min(text.size(), text.find('\n')));
      least = std::min(least, parse_number<std::int64_t>(text).value_or(kNoMemoryLimit));  // or "max"
    }
  }
  return least >= kNoMemoryLimit ? 0 : least;
}

std::optional<std::int64_t> number_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return parse_number<std::int64_t>(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

}  // namespace muster::agent
