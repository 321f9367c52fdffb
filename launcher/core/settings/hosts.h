// The hosts of a job from --hosts and --hostfile, and how the launcher starts and reaches their agents.
//
// Names are checked only here. A name that is accepted is safe in an argv or a script, and does not begin
// with a dash. Pure; the caller reads the files. An error is one line. It names the flag, the line of the
// file if there is one, the wrong text, and what was expected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster::launcher {

constexpr std::int32_t kMostLocalNodes = 4096;  // agents on one machine; each has a few threads
constexpr std::int32_t kMostSlots = 4096;       // workers on one node; agents refuse more

struct Host {
  std::string name;        // as the user gave it; an IPv6 address without brackets
  std::string user{};      // empty: none given
  std::uint16_t port = 0;  // 0: none given
  std::optional<std::int32_t> slots{};
  bool operator==(const Host&) const = default;
};

enum class BootstrapKind { kLocal, kSsh, kExec, kDocker };

// The name of a node's container.
inline std::string container_name(std::string_view job_id, std::int32_t node) {
  return "muster-" + std::string(job_id) + "-" + std::to_string(node);
}

enum class Pull { kMissing, kAlways, kNever };

struct Mount {
  std::string source;  // an absolute path, or the name of a volume
  std::string destination;
  bool read_only = false;
  bool is_volume() const { return !source.starts_with('/'); }
  bool operator==(const Mount&) const = default;
};

// The options of `docker run` that --container-arg can give, each with a value, such as "dns=10.0.0.1".
inline constexpr std::string_view kContainerArguments[] = {
    "add-host", "cap-add", "cpuset-cpus",  "device", "dns",   "group-add", "ipc",
    "label",    "runtime", "security-opt", "sysctl", "tmpfs", "ulimit"};
struct ContainerArgument {
  std::string name;
  std::string value;
  bool operator==(const ContainerArgument&) const = default;
};

struct ContainerOptions {
  std::string image{};  // empty: nodes are not containers
  Pull pull = Pull::kMissing;
  std::vector<Mount> mounts{};    // by destination; working, log and checkpoint directory too
  std::int64_t shm_bytes = 0;     // of /dev/shm; 0: half of the host's memory
  std::int64_t memory_bytes = 0;  // 0: no limit; otherwise no swap on top of it
  double cpus = 0;                // 0: no limit
  std::string gpus{};             // "all", a number, or "device=0,1"; empty: none
  std::string network{};          // empty: the job creates its own
  std::string user{};             // UID, UID:GID, or a name from the image; empty: the caller
  bool read_only = false;         // the root file system
  std::vector<ContainerArgument> arguments{};
  bool operator==(const ContainerOptions&) const = default;
};

// How the launcher starts agents on other hosts and talks to them.
struct RemoteOptions {
  BootstrapKind bootstrap = BootstrapKind::kLocal;
  std::vector<std::string> exec{};  // words of --exec; "{host}" is replaced by the host's name
  std::int32_t ssh_parallel = 32;
  std::string remote_agent{};  // path of an installed agent; empty: deliver one
  Duration connect_timeout =
      std::chrono::seconds(10);                 // from the start of a host shell to the agent's first message
  std::vector<std::string> sync{};              // directories to copy to all hosts; absolute
  std::vector<std::string> listen{};            // addresses that agents connect to; empty: this machine's
  std::string interface{};                      // NAME or CIDR between nodes; empty: detect
  std::map<std::string, std::string> passed{};  // variables of this launcher for remote workers
  ContainerOptions container{};                 // that agents run in
  bool in_containers() const { return !container.image.empty(); }
};

// Parses a list of hosts in the form [USER@]HOST[:SLOTS] or [USER@]HOST:PORT:SLOTS, separated by commas.
// n[0-3,07] stands for several names. [::1] is an IPv6 address. If a host is listed several times, it gets
// the sum of its slots, as in Open MPI. In such a sum, an entry without SLOTS counts as 1 slot. If a host is
// listed once and without SLOTS, its slots are not set. Returns the hosts in the order in which they first
// appear. At most 100,000 are allowed.
Expected<std::vector<Host>> parse_hosts(std::string_view text, std::string_view source);
// Parses the text of a hostfile. Each line has a list of hosts in the form that parse_hosts() takes, as Slurm
// and MPICH write it. After the list, a line may have slots=N and max_slots=N, as in Open MPI and DeepSpeed.
// A # begins a comment.
Expected<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view source);

// A list of names for --include or --exclude, with ranges.
struct HostNames {
  std::string source;  // for messages
  std::string list;
};
// Returns the hosts of `all` that `include` lists and `exclude` does not. They stay in the order of `all`. If
// `include` is not given, it is as if it listed all hosts. It is an error if a name is unknown, or if no host
// is left.
Expected<std::vector<Host>> choose_hosts(std::vector<Host> all, const std::optional<HostNames>& include,
                                         const std::optional<HostNames>& exclude);

// Returns the names as one list with ranges, such as "n[0-3,7],login". From this, parse_hosts() returns the
// same names.
std::string folded(const std::vector<std::string>& names);

// Returns whether a host's shell reads the word unchanged in a script (core/fleet/host_script.h).
bool fits_script(std::string_view word);

// USER@NAME, for ssh and for messages.
std::string address_of(const Host& host);

}  // namespace muster::launcher
