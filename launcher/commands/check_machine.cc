// The checks that any job needs: sockets, descriptors, processes, memory, disk.
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/file.h"
#include "launcher/commands/checks.h"
#include "launcher/io/fleet/local_bootstrap.h"

namespace muster::launcher {

namespace {

using enum Finding::Result;

std::optional<Space> space_of(const std::string& path) {
  struct statvfs status{};
  if (statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return Space{status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize};
}

// Returns the path if it exists. Otherwise returns the nearest parent that exists.
std::string existing_part_of(std::filesystem::path path) {
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

}  // namespace

Demand demand_of(const Plan& plan) {
  Demand demand{.nodes = static_cast<std::int32_t>(plan.nodes.size()) + plan.spare_nodes,
                .workers = plan.world_size()};
  for (const NodePlan& node : plan.nodes)
    demand.workers_per_node = std::max(demand.workers_per_node, node.worker_count);
  return demand;
}

Finding check_agent() {
  const auto program = LocalBootstrap::find_agent_program();
  if (program) return {kOk, "agent", *program};
  return {kFail, "agent", program.error().message(), "install launch and muster-agent into one directory"};
}

Finding check_loopback() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (listener && caller && bind(listener.get(), name, size) == 0 && listen(listener.get(), 1) == 0 &&
      getsockname(listener.get(), name, &size) == 0 && connect(caller.get(), name, size) == 0)
    return {kOk, "ports",
            fmt::format("127.0.0.1 accepts connections (tried port {})", ntohs(address.sin_port))};
  return {kFail, "ports", fmt::format("127.0.0.1 accepts no connections: {}", std::strerror(errno)),
          "bring the loopback interface up (ip link set lo up), or look for a firewall"};
}

Finding check_hostname(const Surroundings& here) {
  addrinfo* found = nullptr;
  const int code = getaddrinfo(here.hostname.c_str(), nullptr, nullptr, &found);
  if (code == 0) {
    freeaddrinfo(found);
    return {kOk, "host name", fmt::format("{} has an address", here.hostname)};
  }
  return {kWarn, "host name", fmt::format("{} has no address: {}", here.hostname, gai_strerror(code)),
          "add it to /etc/hosts, or set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"};
}

Finding check_descriptors(const Demand& demand) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return judge_descriptors(limit.rlim_max, demand);  // agents raise their limit to the hard limit
}

Finding check_processes(const Demand& demand) {
  return judge_processes(process_limits(), demand);
}

Finding check_shared_memory(const Demand& demand) {
  return judge_shared_memory(space_of("/dev/shm"), demand);
}

Finding check_disk(std::string name, const std::string& directory, std::uint64_t wanted_bytes) {
  const std::string existing = existing_part_of(directory);
  const auto space = space_of(existing);
  if (!space)
    return {kFail, std::move(name), fmt::format("{}: {}", existing, std::strerror(errno)),
            "name another directory"};
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    return {kFail, std::move(name), fmt::format("no permission to write to {}", existing),
            "name another directory"};
  return judge_disk(std::move(name), existing, *space, wanted_bytes);
}

}  // namespace muster::launcher
