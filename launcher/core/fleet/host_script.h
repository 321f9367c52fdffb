// What is asked of a host's shell: to start an agent, to take one in, to kill one, to look for what one left.
//
// Each script is one line that sh, csh and fish read alike between single quotes. It holds no secret. An
// agent that was delivered lies in ~/.cache/muster/agent/DIGEST with its TLS module, and is used only if both
// are the user's own and have that digest, or have not changed since they had it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/process.h"
#include "launcher/core/settings/hosts.h"

namespace muster::launcher {

// Where a host has its agent.
struct AgentPlace {
  std::string path;    // --remote-agent; or empty, and then
  std::string digest;  // SHA-256 of agent and module, one after the other, in hexadecimal digits
  std::string module;  // file of the TLS module; within the directory of a delivered agent
};

// Within the directory of a delivered agent.
inline constexpr const char* kAgentFile = "bin/agent";

// Executes the agent; or says `muster-agent absent MACHINE` and exits with kAgentAbsent.
inline constexpr int kAgentAbsent = 3;
std::string start_script(const AgentPlace& place, const std::vector<std::string>& arguments);
// The same around another command, which ends in an exec; $d is the directory of a delivered agent.
std::string where_agent_is(const AgentPlace& place, std::string_view command);
// Takes a tar of the two files from stdin. Exits with 0 when an agent of this digest is there, whoever
// brought it.
std::string delivery_script(const AgentPlace& place);
// Kills a process, unless its pid is another one's by now.
std::string kill_script(std::int32_t pid, std::int64_t start_ticks);

// The argv that runs the script on the host.
std::vector<std::string> host_shell(const RemoteOptions& options, const Host& host, std::string_view script);
// The argv that runs the agent there: without a shell where --exec takes words and --remote-agent says where
// the agent is, because each program that is executed costs a start about a millisecond.
std::vector<std::string> agent_shell(const RemoteOptions& options, const Host& host, const AgentPlace& place,
                                     const std::vector<std::string>& arguments);

// The argv of an rsync that copies the directory, an absolute path, to the same place on the host.
std::vector<std::string> sync_command(const RemoteOptions& options, const Host& host,
                                      const std::string& directory);
struct SyncFailure {
  std::string text;      // one line, with what to do
  bool is_busy = false;  // is_busy() of the host's shell
};
// `errors`: what rsync and the host shell wrote to stderr.
SyncFailure sync_failure(const Host& host, const std::string& directory, int exit_code,
                         std::string_view errors);

// What an agent says of itself before it is spoken to.
struct AgentGreeting {
  std::int32_t pid = 0;
  std::int64_t start_ticks = 0;
};
std::optional<AgentGreeting> parse_greeting(std::string_view line);

// A line of `agent --sweep`: "left PID UID ERRNO NAME".
std::optional<Leftover> parse_leftover(std::string_view line);

// Whether the same may succeed a moment later: the host's sshd takes no more connections just now.
bool is_busy(int exit_code, std::string_view last_line);
// How long to wait after so many tries at a host that is busy, or nothing: no more. `random`: from 0 to 1, so
// that not all try again at the same time.
std::optional<Duration> pause_before_next_try(int tries, double random);
// Why no agent came, in one line, with what to do; who tells it names the host. `last_line`: of the shell's
// stderr, perhaps empty.
std::string start_failure(const RemoteOptions& options, const Host& host, const std::string& what,
                          std::string_view last_line);

}  // namespace muster::launcher
