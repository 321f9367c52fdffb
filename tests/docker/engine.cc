#include "tests/docker/engine.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "tests/chaos/machine.h"
#include "tests/docker/control_groups.h"
#include "tests/docker/image.h"
#include "tests/hosts/lab.h"

namespace muster::docker {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Debian's programs: the test's own PATH may find another docker first.
constexpr const char* kPath = "/usr/sbin:/usr/bin:/sbin:/bin";

std::string text_of(const std::string& path) {
  return read_file(path, 16 << 20).value_or("");
}

// The address of docker0. Containers send it the DNS queries that dockerd cannot answer.
constexpr const char* kBridge = "172.17.0.1";

// The address pool for networks other than docker0: small enough that a test can exhaust it.
constexpr const char* kNetworks = "172.24.0.0/13";
constexpr int kNetworkBits = 16;

// Runs as a process on the host: a DNS server that answers every query with "no such name".
[[noreturn]] void no_such_name() {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {}, .sin_zero = {}};
  inet_pton(AF_INET, kBridge, &address.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // IP_FREEBIND: the bridge does not exist yet. Containers ignore answers from another address.
  const int yes = 1;
  setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) _exit(1);
  for (;;) {
    unsigned char message[1500];
    socklen_t size = sizeof address;
    const ssize_t count =
        recvfrom(fd, message, sizeof message, 0, reinterpret_cast<sockaddr*>(&address), &size);
    if (count < 12) continue;
    // RFC 1035, 4.1.1: a response with code 3, name error.
    message[2] |= 0x80;
    message[3] = 0x83;
    sendto(fd, message, static_cast<std::size_t>(count), 0, reinterpret_cast<const sockaddr*>(&address),
           size);
  }
}

}  // namespace

std::string why_no_engine() {
  if (const std::string why = hosts::why_no_lab(); !why.empty()) return why;
  for (const char* program :
       {"dockerd", "docker", "containerd", "runc", "iptables", "mmdebstrap", "docker-registry"}) {
    const auto folders = split(kPath, ':');
    const auto has = [&](std::string_view folder) {
      return access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0;
    };
    if (std::ranges::none_of(folders, has))
      return fmt::format("{} is missing: ./dev test clusters installs it", program);
  }
  return chaos::why_no_control_group("pids");
}

Engine::Engine(const hosts::Host& host, std::string directory)
    : host_(host), directory_(std::move(directory)), group_(new_group_name()) {
  remove_groups_of_the_dead();
  CHECK(fs::create_directory(directory_) && fs::create_directory(home()), "{}", directory_);
  CHECK(host_.run({"test", "!", "-e", "/run/containerd/containerd.sock"}) == 0,
        "{} has a containerd: an Engine needs a /run of its own", host_.name());
  const nlohmann::json settings{
      {"data-root", directory_ + "/data"},
      {"exec-root", directory_ + "/exec"},
      {"pidfile", directory_ + "/dockerd.pid"},
      {"hosts", nlohmann::json::array({"unix://" + socket()})},
      {"cgroup-parent", "/" + group_},
      {"exec-opts", nlohmann::json::array({"native.cgroupdriver=cgroupfs"})},
      {"live-restore", false},
      {"userland-proxy", false},
      // no_such_name() listens at this address.
      {"bip", fmt::format("{}/16", kBridge)},
      {"dns", nlohmann::json::array({kBridge})},
      {"default-address-pools", nlohmann::json::array({{{"base", kNetworks}, {"size", kNetworkBits}}})},
      // The default is in /etc/docker.
      {"deprecated-key-path", directory_ + "/key.json"}};
  std::ofstream(directory_ + "/daemon.json") << settings.dump(2) << "\n";
  names_ = host_.fork();
  if (names_ == 0) no_such_name();
  start();
}

Engine::~Engine() {
  ::kill(names_, SIGKILL);
  waitpid(names_, nullptr, 0);
  end_processes();
  unmount();
  remove_groups(group_);
}

std::map<std::string, std::string> Engine::environment() const {
  return {{"DOCKER_HOST", "unix://" + socket()}, {"HOME", home()}};
}

void Engine::listen_as_default() const {
  CHECK(host_.run({"ln", "-s", socket(), "/run/docker.sock"}) == 0);
}

void Engine::admit(uid_t user) const {
  CHECK(chown(socket().c_str(), user, static_cast<gid_t>(-1)) == 0, "{}", std::strerror(errno));
}

std::string Engine::log() const {
  return text_of(directory_ + "/log");
}

std::vector<std::string> Engine::command(const std::vector<std::string>& words) const {
  std::vector<std::string> all{"env", "-i", fmt::format("PATH={}", kPath)};
  for (const auto& [name, value] : environment()) all.push_back(fmt::format("{}={}", name, value));
  all.push_back("docker");
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

int Engine::docker(const std::vector<std::string>& words, std::string* output) const {
  return host_.run(command(words), output);
}

std::string Engine::printed_by(const std::vector<std::string>& words) const {
  const std::string errors = directory_ + "/errors";
  std::vector<std::string> all = command(words);
  all.insert(all.begin(), {"sh", "-c", "exec \"$@\" 2>" + errors, "sh"});
  std::string output;
  const int code = host_.run(all, &output);
  CHECK(code == 0, "docker {}: {} {}", fmt::join(words, " "), output, text_of(errors));
  while (output.ends_with('\n')) output.pop_back();
  return output;
}

void Engine::load(const std::string& image) const {
  // The host may not see the cache's directory.
  const std::string path = base_image(image);
  const std::string seen = directory_ + "/image.tar";
  fs::copy_file(path, seen);
  printed_by({"import", "--change", "CMD [\"/bin/bash\"]", "--change",
              "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", seen, image});
  fs::remove(seen);
}

std::vector<std::string> Engine::list(const std::vector<std::string>& words) const {
  std::vector<std::string> found;
  const std::string text = printed_by(words);
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) found.emplace_back(line);
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> Engine::containers() const {
  return list({"ps", "--all", "--format", "{{.Names}}"});
}

std::vector<std::string> Engine::networks() const {
  return list({"network", "ls", "--filter", "type=custom", "--format", "{{.Name}}"});
}

std::vector<std::string> Engine::volumes() const {
  return list({"volume", "ls", "--format", "{{.Name}}"});
}

std::vector<pid_t> Engine::processes(const std::string& container) const {
  if (container.empty()) return processes_in(group_);
  return processes_in(group_ + "/" + printed_by({"inspect", "--format", "{{.Id}}", container}));
}

// dockerd, containerd and its shims, which have this engine's directory in their command lines.
std::vector<pid_t> Engine::daemons() const {
  std::vector<pid_t> found = host_.processes();
  std::erase_if(found, [&](pid_t pid) {
    const std::string command = text_of(fmt::format("/proc/{}/cmdline", pid));
    return command.find(directory_ + "/exec/") == std::string::npos &&
           command.find(directory_ + "/daemon.json") == std::string::npos;
  });
  return found;
}

bool Engine::answers() const {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  CHECK(socket().size() < sizeof address.sun_path, "{} is too long for a socket", socket());
  std::strcpy(address.sun_path, socket().c_str());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
  const std::string_view request = "GET /_ping HTTP/1.0\r\n\r\n";
  char answer[16] = {};
  return send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0 &&
         read(fd.get(), answer, sizeof answer - 1) > 0 && std::strstr(answer, " 200") != nullptr;
}

void Engine::start() {
  CHECK(dockerd_ == 0, "dockerd runs");
  dockerd_ = host_.fork();
  if (dockerd_ == 0) {
    clearenv();
    setenv("PATH", kPath, 1);
    setsid();
    dup2(open((directory_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execlp("dockerd", "dockerd", "--config-file", (directory_ + "/daemon.json").c_str(), nullptr);
    _exit(127);
  }
  for (int tries = 0; tries < 3000 && !answers(); ++tries) {
    CHECK(waitpid(dockerd_, nullptr, WNOHANG) == 0, "dockerd has ended: {}", log());
    std::this_thread::sleep_for(20ms);
  }
  CHECK(answers(), "dockerd does not answer: {}", log());
}

void Engine::stop() {
  end_dockerd(SIGTERM);
}

void Engine::kill() {
  end_dockerd(SIGKILL);
}

// dockerd 20.10 panics at its next start if it was ended while it removed a network: libnetwork's
// reservePools finds a network without addresses.
void Engine::wait_for_networks_at_rest() const {
  constexpr auto kAtRest = 200ms;
  const fs::path networks = directory_ + "/data/network/files/local-kv.db";
  const auto is_written = [&] {
    std::error_code error;
    const auto written = fs::last_write_time(networks, error);
    return !error && fs::file_time_type::clock::now() - written < kAtRest;
  };
  for (int tries = 0; tries < 500 && is_written(); ++tries) std::this_thread::sleep_for(10ms);
}

void Engine::end_dockerd(int signal) {
  CHECK(dockerd_ > 0, "dockerd does not run");
  wait_for_networks_at_rest();
  ::kill(dockerd_, signal);
  waitpid(std::exchange(dockerd_, 0), nullptr, 0);
}

void Engine::end_processes() {
  if (dockerd_ > 0) kill();
  const auto nothing_left = [this] {
    thaw(group_);
    std::vector<pid_t> all = daemons();
    for (const pid_t pid : processes()) all.push_back(pid);
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
    return all.empty();
  };
  for (int tries = 0; !nothing_left(); ++tries) {
    CHECK(tries < 1000, "processes of the engine do not end");
    std::this_thread::sleep_for(10ms);
  }
}

// Runs on the host, since the test has other mounts.
void Engine::unmount() const {
  const pid_t pid = host_.fork();
  if (pid == 0) {
    std::vector<std::string> points;
    std::ifstream mounts("/proc/self/mounts");
    for (std::string device, point, rest; mounts >> device >> point && std::getline(mounts, rest);) {
      if (point.starts_with(directory_ + "/")) points.push_back(point);
    }
    for (const std::string& point : points) umount2(point.c_str(), MNT_DETACH);
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
}

std::string Engine::inspected(const std::string& container, const std::string& format) const {
  std::string text;
  if (docker({"inspect", "--format", format, container}, &text) != 0) return "";
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// False if the container does not run or ends meanwhile: nsenter may notice the end before dockerd.
bool Engine::change_filter_inside(const std::string& container, const std::vector<std::string>& rule) const {
  const std::string pid = inspected(container, "{{.State.Pid}}");
  if (pid.empty() || pid == "0") return false;
  std::vector<std::string> words{"nsenter", "-t", pid, "-n", "iptables", "-w", "-t", "raw"};
  words.insert(words.end(), rule.begin(), rule.end());
  std::string said;
  const bool done = host_.run(words, &said) == 0;
  CHECK(done || said.contains("cannot open"), "{}", said);
  return done;
}

bool Engine::cut_one_way(const std::string& container, Direction direction) const {
  // Both rules drop incoming packets: a rule for outgoing packets would give the sender an error.
  if (direction == Direction::kHeard)
    return change_filter_inside(container, {"-A", "PREROUTING", "!", "-i", "lo", "-j", "DROP"});
  const std::string addresses =
      inspected(container, "{{range .NetworkSettings.Networks}}{{println .IPAddress}}{{end}}");
  if (addresses.empty()) return false;
  for (const std::string_view address : split(addresses, '\n'))
    CHECK(host_.run({"iptables", "-w", "-t", "raw", "-A", "PREROUTING", "-s", std::string(address), "-j",
                     "DROP"}) == 0);
  return true;
}

void Engine::heal() const {
  CHECK(host_.run({"iptables", "-w", "-t", "raw", "-F", "PREROUTING"}) == 0);
  for (const std::string& id : list({"ps", "--quiet"})) change_filter_inside(id, {"-F", "PREROUTING"});
}

}  // namespace muster::docker
