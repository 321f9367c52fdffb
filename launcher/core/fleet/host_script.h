// Scripts for the shell of a host. They start an agent, receive an agent that is delivered, kill an agent, or
// look for leftovers.
//
// Each script is one line and contains no secrets. Between single quotes, sh, csh and fish read it in the
// same way. A delivered agent is in ~/.cache/muster/agent/DIGEST with its TLS module. A script uses the two
// files only if the user owns them and they have that digest. It computes the digest only if they have
// changed since the last check. Pure.
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

// The path of a delivered agent, within the directory that it is delivered to.
inline constexpr const char* kAgentFile = "bin/muster-agent";

// Returns a script that executes the agent. If the host does not have the agent, the script prints
// `muster-agent absent MACHINE` and exits with kAgentAbsent.
inline constexpr int kAgentAbsent = 3;
std::string start_script(const AgentPlace& place, const std::vector<std::string>& arguments);
// Like start_script(), but the script runs `command` in place of the agent. `command` must end with an exec.
// In `command`, $d is the directory of a delivered agent.
std::string where_agent_is(const AgentPlace& place, std::string_view command);
// Returns a script that reads a tar with the agent and its module from stdin. It exits with 0 if an agent
// with this digest is on the host after that, even if another launch has delivered it.
std::string delivery_script(const AgentPlace& place);
// Returns a script that kills a process. It does not kill anything if another process has the pid by now.
std::string kill_script(std::int32_t pid, std::int64_t start_ticks);

// The argv that runs the script on the host.
std::vector<std::string> host_shell(const RemoteOptions& options, const Host& host, std::string_view script);
// Returns the argv that runs the agent on the host. If --exec and --remote-agent are given, the argv runs the
// agent without a shell, because each program that is executed costs about a millisecond.
std::vector<std::string> agent_shell(const RemoteOptions& options, const Host& host, const AgentPlace& place,
                                     const std::vector<std::string>& arguments);

// Returns the argv of an rsync. It copies the directory to the same path on the host. `directory` is an
// absolute path.
std::vector<std::string> sync_command(const RemoteOptions& options, const Host& host,
                                      const std::string& directory);
struct SyncFailure {
  std::string text;      // one line, with advice
  bool is_busy = false;  // is_busy() is true for the host's shell: a retry may soon succeed
};
// `errors` is the text that rsync and the host shell have written to stderr.
SyncFailure sync_failure(const Host& host, const std::string& directory, int exit_code,
                         std::string_view errors);

// The first line that an agent prints.
struct AgentGreeting {
  std::int32_t pid = 0;
  std::int64_t start_ticks = 0;
};
std::optional<AgentGreeting> parse_greeting(std::string_view line);

// Reads a line that `agent --sweep` has printed, such as "left PID UID ERRNO NAME".
std::optional<Leftover> parse_leftover(std::string_view line);

// Returns whether the start failed because the host's sshd accepts no more connections for the moment. A new
// try may then soon succeed.
bool is_busy(int exit_code, std::string_view last_line);
// Returns how long to wait before the next try, after this many tries at a busy host. Returns nullopt if
// there should be no further try. `random` is a random number from 0 to 1. With it, launches do not all retry
// at the same time.
std::optional<Duration> pause_before_next_try(int tries, double random);
// Returns why the agent did not start. This is one line with advice. The caller adds the name of the host.
// `last_line` is the last line of the shell's stderr. It may be empty.
std::string start_failure(const RemoteOptions& options, const Host& host, const std::string& what,
                          std::string_view last_line);

}  // namespace muster::launcher
