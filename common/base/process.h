// This process and its descendants: functions that launcher and agent share.
//
// A child subreaper inherits every orphan among its descendants, including those that started a session.
// Nothing here waits. Not for use between fork and exec.
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
  std::int64_t start_ticks = 0;  // when the process started: tells it from a later one with the same pid
  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity own_identity();
// Returns nothing if this process cannot know: `process` is on another machine or in another container.
std::optional<bool> is_alive(const ProcessIdentity& process);

// From now on orphaned descendants of this process become its children.
void become_subreaper();

// Asks the scheduler for short time slices: this process runs rarely, but should then not wait for the long
// slices of other processes on a busy machine. Its children keep the default. Linux 6.12 or newer; needs no
// privilege.
void ask_for_short_slices();

// 0 if the process is gone.
pid_t parent_of(pid_t pid);
// Returns whether the process descends from one of these processes. In a container pid 1 can be one of them.
bool is_below(pid_t pid, const std::set<pid_t>& ancestors);
// Returns whether the process has been killed or is ending. True also if the process is gone. The kernel
// tells the parent only after it has freed the process's memory, which can take long on a busy machine.
bool is_exiting(pid_t pid);
// Returns the process's name in the kernel, at most 15 bytes of any value; empty if the process is gone.
std::string name_of(pid_t pid);
// Returns all children, including zombies. Fails if /proc cannot be read, say for lack of a descriptor.
Expected<std::vector<pid_t>> list_children();

// Returns whether the process was executed with this NAME=value in its environment. False if this process may
// not read that, because the process belongs to another user or is gone.
bool was_executed_with(pid_t pid, std::string_view entry);
// Returns the process's real user, who may kill it; nothing if the process is gone.
std::optional<uid_t> user_of(pid_t pid);

// A process that SIGKILL was sent to.
struct Leftover {
  std::int32_t pid = 0;
  std::string name{};
  std::int64_t uid = -1;   // -1: it is gone by now
  std::int32_t error = 0;  // errno of kill(); 0: the signal was sent, but the process is still alive
  // The node of the process, if nodes are on different hosts: a pid means nothing without its host.
  std::optional<NodeId> node{};
};
Leftover kill_leftover(pid_t pid);
// "process 4711 (sudo, uid 0) cannot be killed: Operation not permitted (errno 1)"
std::string describe(const Leftover& left);

// Opens descriptors 0 to 2 where they are closed, so that files opened later do not get these numbers and are
// not taken for output.
void open_standard_streams();

// Raises this process's soft limit of descriptors to its hard limit. Returns the old limit; restore it in
// programs that this process executes.
rlimit raise_descriptor_limit();

// Makes malloc keep freed memory for the next allocation. The ranks' output comes in pieces that malloc would
// otherwise take from the kernel and return each time, and a fresh page costs more than copying one.
void keep_freed_memory();

std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace muster
