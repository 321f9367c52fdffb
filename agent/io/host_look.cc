#include "agent/io/host_look.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/io/shared_directory.h"
#include "agent/io/workers/program.h"
#include "common/base/clock.h"
#include "common/base/gpu_reading.h"
#include "common/base/process.h"
#include "common/base/python_torch.h"

namespace muster::agent {

namespace {

constexpr Duration kLinkLimit = std::chrono::seconds(2);

// Returns the number of free bytes in the file system that has the path. If the path does not exist, this is
// the file system where it would be created. Returns -1 if the number is unknown.
std::int64_t free_bytes(std::filesystem::path path) {
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  struct statvfs status{};
  if (path.empty() || statvfs(path.c_str(), &status) != 0) return -1;
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

// Asks this interpreter for its version of torch. The result is that of torch_in().
std::optional<std::string> torch_of(const std::string& python) {
  setenv("MUSTER_ASKED_PYTHON", python.c_str(), /*overwrite=*/1);
  setenv("MUSTER_ASKED", kAskForTorch, /*overwrite=*/1);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(R"(timeout 20 "$MUSTER_ASKED_PYTHON" -c "$MUSTER_ASKED" 2>/dev/null </dev/null)", "r"),
      [](FILE* file) { return pclose(file); });
  if (!pipe) return std::nullopt;
  char bytes[4096];
  return torch_in({bytes, fread(bytes, 1, sizeof bytes, pipe.get())});
}

// Listens on all addresses of the host, IPv4 and IPv6. Returns the port. Returns 0 if this fails.
std::int32_t listen_anywhere(UniqueFd& listener) {
  constexpr int kBacklog = 1024;
  for (const int family : {AF_INET6, AF_INET}) {  // a kernel may lack IPv6
    sockaddr_storage address{};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    listener.reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener) continue;
    const int both = 0;
    if (family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    if (bind(listener.get(), name, size) == 0 && listen(listener.get(), kBacklog) == 0 &&
        getsockname(listener.get(), name, &size) == 0)
      // The port is at the same offset for both families.
      return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  }
  return 0;
}

struct Try {
  UniqueFd socket;
  std::int64_t result = -EINVAL;  // nanoseconds, or -errno
};

Try begin_link(const std::string& address, TimePoint now, TimePoint& begun) {
  Try link;
  const std::size_t space = address.rfind(' ');
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  begun = now;
  if (space == std::string::npos ||
      getaddrinfo(address.substr(0, space).c_str(), address.substr(space + 1).c_str(), &hints, &found) != 0)
    return link;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  link.socket.reset(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool waits = link.socket && (connect(link.socket.get(), found->ai_addr, found->ai_addrlen) == 0 ||
                                     errno == EINPROGRESS);
  link.result = waits ? -EINPROGRESS : -errno;
  return link;
}

// Connects to all addresses at the same time. For each address, returns the nanoseconds that it took, or
// -errno if it failed.
std::vector<std::int64_t> try_links(const std::vector<std::string>& addresses) {
  std::vector<Try> links;
  std::vector<TimePoint> begun(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i)
    links.push_back(begin_link(addresses[i], Clock::now(), begun[i]));
  const TimePoint end = Clock::now() + kLinkLimit;
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].result != -EINPROGRESS) continue;
      waiting.push_back({links[i].socket.get(), POLLOUT, 0});
      which.push_back(i);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (waiting.empty() || left <= 0 || poll(waiting.data(), waiting.size(), static_cast<int>(left)) <= 0)
      break;
    const TimePoint now = Clock::now();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(waiting[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
      links[which[i]].result = error != 0 ? -error : std::max<std::int64_t>(1, to_ns(now - begun[which[i]]));
    }
  }
  std::vector<std::int64_t> results;
  for (const Try& link : links) results.push_back(link.result == -EINPROGRESS ? -ETIMEDOUT : link.result);
  return results;
}

std::string why_no_directory(const std::string& directory) {
  if (access(directory.c_str(), X_OK) == 0) return "";
  return fmt::format("{}: {}", directory, std::strerror(errno));
}

// Finds out whether the program can run, and which version of torch its Python has. If the program is not
// Python, this asks python3 for its version of torch.
void look_at_program(const wire::JobSpec& job, wire::HostChecked& found) {
  const auto program = find_program_of(job, search_path(own_environment(), job));
  if (!program) found.program_error = program.error().message();
  const bool runs_python = program && is_python(job.command.front());
  const std::string python = runs_python ? *program : "python3";
  const auto torch = torch_of(python);
  found.torch = torch.value_or("");
  if (runs_python && torch && torch->empty() && script_imports_torch(job.command, job.working_directory))
    found.program_error = fmt::format("{} has no torch, which the script imports", python);
}

}  // namespace

wire::HostChecked HostLook::look(const wire::CheckHost& question) {
  wire::HostChecked found;
  found.unix_ns = unix_ns();
  if (!question.addresses.empty()) {
    found.link_ns = try_links(question.addresses);
    return found;
  }
  // Gives this process the environment that the workers will have.
  for (const auto* variables : {&question.job.inherited, &question.job.environment})
    for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  found.link_port = listen_anywhere(listener_);
  found.directory_error = why_no_directory(question.job.working_directory);
  look_at_program(question.job, found);
  found.gpu_count = gpus_of_driver();
  found.log_free_bytes = free_bytes(question.job.log_directory);
  if (!question.job.checkpoint_directory.empty()) {
    found.checkpoint_free_bytes = free_bytes(question.job.checkpoint_directory);
    found.checkpoint_error =
        why_not_shared(question.job.checkpoint_directory, question.mark,
                       [](const std::string&) { return true; });  // no other file has this name
  }
  return found;
}

}  // namespace muster::agent
