// Functions for this process and its descendants, which the launcher and the agent share.
//
// A child subreaper becomes the parent of every orphan among its descendants, including those that started a
// session. No function blocks. Not for use between fork and exec.
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

// Identifies one process of one boot of one machine, and names the process's user.
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
// Returns whether `process` is alive. Returns nothing if this cannot be known, because `process` is on
// another machine or in another container.
std::optional<bool> is_alive(const ProcessIdentity& process);

// From now on orphaned descendants of this process become its children.
void become_subreaper();

// Asks the scheduler for short time slices. A process that runs rarely then waits less for other processes on
// a busy machine. Its children keep the default. Works from Linux 6.12 on, and needs no privilege.
void ask_for_short_slices();

// Returns 0 if the process is gone.
pid_t parent_of(pid_t pid);
// Returns whether the process descends from one of these processes. In a container pid 1 can be one of them.
bool is_below(pid_t pid, const std::set<pid_t>& ancestors);
// Returns whether the process is ending or gone. The kernel tells the parent only after it has freed the
// process's memory, which can take long on a busy machine.
bool is_exiting(pid_t pid);
// Returns the name that the kernel has for the process, at most 15 arbitrary bytes; "" if the process is
// gone.
std::string name_of(pid_t pid);
// Returns all children, including zombies. Fails if /proc cannot be read, for example for lack of a
// descriptor.
Expected<std::vector<pid_t>> list_children();

// Returns whether the process was executed with this NAME=value in its environment. Returns false if the
// environment cannot be read, because the process is another user's or is gone.
bool was_executed_with(pid_t pid, std::string_view entry);
// Returns the process's real user, who is allowed to kill it; nothing if the process is gone.
std::optional<uid_t> user_of(pid_t pid);

// A process that SIGKILL was sent to.
struct Leftover {
  std::int32_t pid = 0;
  std::string name{};
  std::int64_t uid = -1;   // -1: it is gone by now
  std::int32_t error = 0;  // errno of kill(); 0: the signal was sent, but the process is still alive
  // The node of the process. Set if nodes are on different hosts, because the pid alone would not be enough.
  std::optional<NodeId> node{};
};
Leftover kill_leftover(pid_t pid);
// Returns a text such as "process 4711 (sudo, uid 0) cannot be killed: Operation not permitted (errno 1)".
std::string describe(const Leftover& left);

// Opens /dev/null on those of the descriptors 0 to 2 that are closed. Otherwise a file opened later could get
// such a number, and output would be written to it.
void open_standard_streams();

// Raises this process's soft limit of descriptors to its hard limit. Returns the old limits; restore them in
// programs that this process executes.
rlimit raise_descriptor_limit();

// Makes malloc keep freed memory. Otherwise malloc would get memory from the kernel, and return it, for each
// piece of the ranks' output, and a new page takes longer than copying one.
void keep_freed_memory();

std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace muster
