#include "agent/io/job_users.h"

#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/process.h"

namespace muster::agent {

namespace {

constexpr Duration kPause = std::chrono::seconds(1);  // others could keep this agent busy

// Its real or its effective user; a socket belongs to the effective one.
bool runs_as(pid_t pid, uid_t user) {
  const std::string status = read_file(fmt::format("/proc/{}/status", pid), 64 << 10).value_or("");
  const std::size_t line = status.find("\nUid:");
  unsigned real = 0;
  unsigned effective = 0;
  return line != std::string::npos &&
         std::sscanf(status.c_str() + line, "\nUid: %u %u", &real, &effective) == 2 &&
         (real == user || effective == user);
}

bool finds(uid_t user) {
  std::set<pid_t> ancestors{getpid()};
  if (getppid() > 1) ancestors.insert(getppid());
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return false;
  bool found = false;
  while (const dirent* entry = found ? nullptr : readdir(processes)) {
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    found = pid > 0 && runs_as(pid, user) && is_below(pid, ancestors);
  }
  closedir(processes);
  return found;
}

}  // namespace

bool is_below(pid_t pid, const std::set<pid_t>& ancestors) {
  for (pid_t next = parent_of(pid); next > 0; next = parent_of(next)) {
    if (ancestors.contains(next)) return true;
  }
  return false;
}

bool JobUsers::has(uid_t user) {
  if (known_.contains(user)) return true;
  const TimePoint now = Clock::now();
  const auto before = looked_for_.find(user);
  if (before != looked_for_.end() && now - before->second < kPause) return false;
  if (!finds(user)) {
    looked_for_[user] = now;
    return false;
  }
  known_.insert(user);
  return true;
}

}  // namespace muster::agent
