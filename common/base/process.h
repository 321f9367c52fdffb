// Functions for this process and its descendants. Both the launcher and the agent use them.
//
// A child subreaper becomes the parent of every descendant that has lost its parent, even of one that has
// started a session of its own. No function blocks. Do not use them between fork and exec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster {

// Identifies a process: on which machine it runs, and in which boot of that machine. Also has the name of its
// user.
struct ProcessIdentity {
  std::string host{};
  std::string user{};
  std::string boot_id{};
  std::string pid_namespace{};
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;  // when it started; differs if the pid is reused
  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity own_identity();
// Returns whether `process` is alive. Returns nothing if this process cannot know it, because `process` is on
// another machine or in another container.
std::optional<bool> is_alive(const ProcessIdentity& process);

// From now on, if a descendant of this process loses its parent, it becomes a child of this process.
void become_subreaper();

// Asks the scheduler for short time slices. On a busy machine, a process that runs rarely then waits less for
// other processes. Children of this process keep the default. This works from Linux 6.12 on, and needs no
// privilege.
void ask_for_short_slices();

// Returns 0 if the process is gone.
pid_t parent_of(pid_t pid);
// Returns whether the process descends from one of these processes. In a container pid 1 can be one of them.
bool is_below(pid_t pid, const std::set<pid_t>& ancestors);
// Returns whether the process is ending or has ended. The kernel first frees the memory of a process that
// ends, and only then tells its parent. On a busy machine this can take long.
bool is_exiting(pid_t pid);
// Returns the name that the kernel has for the process. It can have any bytes, at most 15. Returns "" if the
// process is gone.
std::string name_of(pid_t pid);
// Returns all children, including zombies. Fails if /proc cannot be read, for example because no descriptor
// is free.
Expected<std::vector<pid_t>> list_children();

// Returns the variables with which the process was executed: entries such as "HOME=/root", each with a '\0'
// at its end. Returns an empty text if they cannot be read.
std::string environment_of(pid_t pid);
// Returns whether this NAME=value was in the environment of the process when it was executed. If the
// environment cannot be read, returns false. This is so if the process is another user's, or if it is gone.
bool was_executed_with(pid_t pid, std::string_view entry);
// Returns the real user of the process. This user is allowed to kill it. Returns nothing if the process is
// gone.
std::optional<uid_t> user_of(pid_t pid);

// A process that SIGKILL was sent to.
struct Leftover {
  std::int32_t pid = 0;
  std::string name{};
  std::int64_t uid = -1;   // -1: it is gone by now
  std::int32_t error = 0;  // errno of kill(); 0: the signal was sent, but the process is still alive
  // The node of the process. It is set only if the job's nodes are on different hosts, because a pid alone
  // would not be enough there.
  std::optional<NodeId> node{};
};
Leftover kill_leftover(pid_t pid);
// Describes a leftover, for example as "process 4711 (sudo, uid 0) cannot be killed: Operation not permitted
// (errno 1)".
std::string describe(const Leftover& left);

// Opens /dev/null on each of the descriptors 0 to 2 that is closed. Otherwise a file that is opened later
// could get one of these numbers, and output would be written into it.
void open_standard_streams();

// Raises this process's soft limit of descriptors to its hard limit. Returns the limits from before. Give
// these to programs that this process executes.
rlimit raise_descriptor_limit();

// Makes malloc keep freed memory. Otherwise malloc would get memory from the kernel for each piece of the
// ranks' output, and give it back. That is slow: a new page takes longer than copying a page.
void keep_freed_memory();

std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace muster
