// Scripts for a host's shell: to start an agent, to receive a delivered one, to kill one, to look for
// leftovers.
//
// Each script is one line, without secrets, that sh, csh and fish read alike between single quotes. A
// delivered agent is in ~/.cache/muster/agent/DIGEST with its TLS module. A script uses the two files only if
// the user owns them and they have that digest. It computes the digest only if they have changed since the
// last check. Pure.
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

// The agent's place on a host.
struct AgentPlace {
  std::string path;    // --remote-agent; empty for a delivered agent
  std::string digest;  // of a delivered agent: SHA-256 of agent and module, concatenated, in hexadecimal
  std::string module;  // file of the TLS module; of a delivered agent: relative to its directory
};

// Path within the directory of a delivered agent.
inline constexpr const char* kAgentFile = "bin/agent";

// The script executes the agent. If the host lacks the agent, the script prints `muster-agent absent MACHINE`
// and exits with kAgentAbsent.
inline constexpr int kAgentAbsent = 3;
std::string start_script(const AgentPlace& place, const std::vector<std::string>& arguments);
// Like start_script(), but the script runs `command` in place of the agent. `command` must end in an exec; in
// it, $d is the directory of a delivered agent.
std::string where_agent_is(const AgentPlace& place, std::string_view command);
// The script reads a tar of agent and module from stdin. It exits with 0 once an agent of this digest is on
// the host, even if another launch delivered it.
std::string delivery_script(const AgentPlace& place);
// The script kills a process, unless another process has its pid by now.
std::string kill_script(std::int32_t pid, std::int64_t start_ticks);

// The argv that runs the script on the host.
std::vector<std::string> host_shell(const RemoteOptions& options, const Host& host, std::string_view script);
// Returns the argv that runs the agent on the host. If --exec and --remote-agent are given, it uses no shell,
// because each executed program costs about a millisecond.
std::vector<std::string> agent_shell(const RemoteOptions& options, const Host& host, const AgentPlace& place,
                                     const std::vector<std::string>& arguments);

// The argv of an rsync that copies the directory, an absolute path, to the same path on the host.
std::vector<std::string> sync_command(const RemoteOptions& options, const Host& host,
                                      const std::string& directory);
struct SyncFailure {
  std::string text;      // one line, with advice
  bool is_busy = false;  // is_busy() is true for the host's shell: a retry may soon succeed
};
// `errors`: what rsync and the host shell wrote to stderr.
SyncFailure sync_failure(const Host& host, const std::string& directory, int exit_code,
                         std::string_view errors);

// The first line that an agent prints.
struct AgentGreeting {
  std::int32_t pid = 0;
  std::int64_t start_ticks = 0;
};
std::optional<AgentGreeting> parse_greeting(std::string_view line);

// A line of `agent --sweep`: "left PID UID ERRNO NAME".
std::optional<Leftover> parse_leftover(std::string_view line);

// Whether a retry may soon succeed: the host's sshd accepts no more connections for the moment.
bool is_busy(int exit_code, std::string_view last_line);
// How long to wait after this many tries at a busy host; nullopt: give up. `random`: from 0 to 1, so that
// launches do not all retry at the same time.
std::optional<Duration> pause_before_next_try(int tries, double random);
// Why the agent did not start, in one line, with advice; the caller adds the host's name. `last_line`: of the
// shell's stderr, may be empty.
std::string start_failure(const RemoteOptions& options, const Host& host, const std::string& what,
                          std::string_view last_line);

}  // namespace muster::launcher
