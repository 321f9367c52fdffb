// This process and those below it, as launcher and agent both need them.
//
// A child subreaper inherits every orphan below it, those with a session of their own included. Nothing here
// waits. Not between fork and exec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster {

// A process of one machine, between two of its starts, and whose it is.
struct ProcessIdentity {
  std::string host{};
  std::string user{};
  std::string boot_id{};
  std::string pid_namespace{};
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;  // when the process started; another one with its pid has another
  bool operator==(const ProcessIdentity&) const = default;
};
ProcessIdentity own_identity();
// Nothing where this process cannot know: it is another machine's, or another container's.
std::optional<bool> is_alive(const ProcessIdentity& process);

// From now on orphans below this process become its children.
void become_subreaper();

// This process runs little, but when it has something to do it should not wait for the long slices of a busy
// machine's other processes. Its children have the usual ones. Linux 6.12 and newer; no privilege is needed.
void ask_for_short_slices();

// 0 if the process is gone.
pid_t parent_of(pid_t pid);
// Whether it is on its way out: killed, or over. Until its parent is told, its memory is given back, which
// may take long on a busy machine. True also if it is gone.
bool is_exiting(pid_t pid);
// As the kernel keeps it, of 15 bytes at most, whichever; empty if the process is gone.
std::string name_of(pid_t pid);
// All children, zombies included. Fails if /proc cannot be read, for want of a descriptor perhaps.
Expected<std::vector<pid_t>> list_children();

// Whether the process was executed with this NAME=value in its environment. False if nobody may look: it is
// another user's, or gone.
bool was_executed_with(pid_t pid, std::string_view entry);
// The process's real user, by whom it may be killed; nothing if it is gone.
std::optional<uid_t> user_of(pid_t pid);

// A process that was sent SIGKILL, and who it is.
struct Leftover {
  std::int32_t pid = 0;
  std::string name{};
  std::int64_t uid = -1;   // -1: it is gone by now
  std::int32_t error = 0;  // errno of kill(); 0: it was sent, and the process lives on
  // Whose it is, where nodes have hosts of their own: a pid means nothing without its host.
  std::optional<NodeId> node{};
};
Leftover kill_leftover(pid_t pid);
// "process 4711 (sudo, uid 0) cannot be killed: Operation not permitted (errno 1)"
std::string describe(const Leftover& left);

// Descriptors 0 to 2 are taken from here on: what is opened later must not land there and be taken for
// output.
void open_standard_streams();

// Lets this process have as many descriptors as it may. What it might have before, which is what those that
// it executes should get.
rlimit raise_descriptor_limit();

// Memory that is given back is kept for what is taken next. The ranks' output comes and goes in pieces for
// which malloc would turn to the kernel each time: a fresh page costs more than copying one.
void keep_freed_memory();

std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace muster
