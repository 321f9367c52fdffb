// The hosts of a job, as --hosts and --hostfile name them, and how their agents are started and spoken to.
//
// Names are checked here once: what is taken can stand in an argv or a script, and does not begin with a
// dash. Pure; files are read by the caller. Every error is one line: which flag (and line), what stands
// there, and what was expected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "launcher/core/settings/containers.h"

namespace muster::launcher {

constexpr std::int32_t kMostLocalNodes = 4096;  // agents of one machine, of a few threads each
constexpr std::int32_t kMostSlots = 4096;       // workers of one node; an agent takes no more

struct Host {
  std::string name;        // as the user gave it; an IPv6 address without brackets
  std::string user{};      // empty: none given
  std::uint16_t port = 0;  // 0: none given
  std::optional<std::int32_t> slots{};
  bool operator==(const Host&) const = default;
};

enum class BootstrapKind { kLocal, kSsh, kExec, kDocker };

// How agents on other hosts are started and spoken to.
struct RemoteOptions {
  BootstrapKind bootstrap = BootstrapKind::kLocal;
  std::vector<std::string> exec{};  // words of --exec; "{host}" within one stands for the host's name
  std::int32_t ssh_parallel = 32;
  std::string remote_agent{};  // path of an agent that is there already; empty: it is delivered
  Duration connect_timeout = std::chrono::seconds(10);  // from the start of a host shell to its agent's word
  std::vector<std::string> sync{};                      // directories that are copied to all hosts; absolute
  std::vector<std::string> listen{};            // addresses for agents to connect to; empty: all in use
  std::string interface{};                      // NAME or CIDR between nodes; empty: found out
  std::map<std::string, std::string> passed{};  // environment of this launcher that remote workers get
  ContainerOptions container{};                 // in which agents run
  bool in_containers() const { return !container.image.empty(); }
};

// [USER@]HOST[:SLOTS] or [USER@]HOST:PORT:SLOTS, separated by commas; n[0-3,07] stands for several names,
// [::1] is an IPv6 address. A host that stands there several times is one, with the sum of its slots (1 where
// none are given), as in Open MPI. In the order of their first mention; 100,000 at most.
Expected<std::vector<Host>> parse_hosts(std::string_view text, std::string_view source);
// The same one list a line, as Slurm and MPICH write it, or with slots=N and max_slots=N behind it, as Open
// MPI and DeepSpeed do. # begins a comment.
Expected<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view source);

// A list of names for --include or --exclude, with ranges.
struct HostNames {
  std::string source;  // for messages
  std::string list;
};
// Those of `all`, in their order, that are included (without such a list all are) and not excluded. Errors:
// a name that is none of them; none is left.
Expected<std::vector<Host>> choose_hosts(std::vector<Host> all, const std::optional<HostNames>& include,
                                         const std::optional<HostNames>& exclude);

// The names as one list with ranges, "n[0-3,7],login", from which parse_hosts() makes the same names.
std::string folded(const std::vector<std::string>& names);

// Whether a word means itself in a script that a host's shell reads (core/fleet/host_script.h).
bool fits_script(std::string_view word);

// As ssh takes it and people read it: USER@NAME.
std::string address_of(const Host& host);

}  // namespace muster::launcher
