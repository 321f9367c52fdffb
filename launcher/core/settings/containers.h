// Containers as nodes: the values of --image and the flags that need it. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

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

// One --container-arg: an option of `docker run`, and its value.
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

}  // namespace muster::launcher
