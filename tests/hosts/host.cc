#include "tests/hosts/host.h"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"

namespace muster::hosts {

namespace {

UniqueFd processes_namespace(const std::string& pid) {
  UniqueFd fd(open(fmt::format("/proc/{}/ns/pid", pid).c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(fd, "{}", std::strerror(errno));
  return fd;
}

// For future children.
void enter_processes(const UniqueFd& space) {
  CHECK(setns(space.get(), CLONE_NEWPID) == 0, "{}", std::strerror(errno));
}

// Sends its pid as the test sees it: /proc is still the test's.
[[noreturn]] void first_process(const std::string& name, const std::function<void()>& prepare, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string pid = std::filesystem::read_symlink("/proc/self");
  CHECK(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "{}", std::strerror(errno));
  CHECK(mount("proc", "/proc", "proc", 0, nullptr) == 0, "{}", std::strerror(errno));
  CHECK(sethostname(name.data(), name.size()) == 0, "{}", std::strerror(errno));
  prepare();
  // The kernel reaps orphans.
  std::signal(SIGCHLD, SIG_IGN);
  CHECK(setsid() > 0 && write(ready, pid.data(), pid.size()) > 0, "{}", std::strerror(errno));
  close(ready);
  for (;;) pause();
}

// On the current host of this process.
bool takes_connections(std::uint16_t port) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int tries = 0; tries < 1000; ++tries) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

Host::Host(std::string name, const std::function<void()>& prepare, const Host* above)
    : name_(std::move(name)), space_above_(processes_namespace("self")) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "{}", std::strerror(errno));
  const UniqueFd ready(ends[0]);
  // A nested pid namespace can only be created from within its parent namespace.
  if (above != nullptr) enter_processes(above->space_);
  const pid_t maker = ::fork();
  if (maker == 0) {
    constexpr unsigned long kOwn =
        CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_PARENT | SIGCHLD;
    const long made = syscall(SYS_clone, kOwn, nullptr, nullptr, nullptr, nullptr);
    if (made == 0) first_process(name_, prepare, ends[1]);
    CHECK(made > 0, "clone: {}", std::strerror(errno));
    _exit(0);
  }
  if (above != nullptr) enter_processes(space_above_);
  close(ends[1]);
  CHECK(maker > 0 && waitpid(maker, nullptr, 0) == maker, "{}", std::strerror(errno));
  char text[16] = {};
  CHECK(read(ready.get(), text, sizeof text - 1) > 0, "{} could not be made", name_);
  pid_ = std::atoi(text);
  leader_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  space_ = processes_namespace(std::to_string(pid_));
}

// The first process ends after all others have been reaped; the test must reap its own children.
Host::~Host() {
  const std::vector<pid_t> others = processes();
  kill(pid_, SIGKILL);
  for (const pid_t pid : others) waitpid(pid, nullptr, 0);
  waitpid(pid_, nullptr, 0);
}

pid_t Host::fork(uid_t user) const {
  enter_processes(space_);
  const pid_t pid = ::fork();
  if (pid != 0) {
    enter_processes(space_above_);
    return pid;
  }
  const bool there = setns(leader_.get(), CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS) == 0;
  const bool became = user == 0 || (setgroups(0, nullptr) == 0 && setgid(user) == 0 && setuid(user) == 0);
  CHECK(there && became, "{}", std::strerror(errno));
  return 0;
}

int Host::run(const std::vector<std::string>& words, std::string* output, uid_t user) const {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "{}", std::strerror(errno));
  const UniqueFd from(ends[0]);
  const pid_t pid = fork(user);
  if (pid == 0) {
    if (output != nullptr) dup2(ends[1], STDOUT_FILENO), dup2(ends[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  char bytes[4096];
  for (ssize_t count; output != nullptr && (count = read(from.get(), bytes, sizeof bytes)) > 0;)
    output->append(bytes, static_cast<std::size_t>(count));
  int status = 0;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "{}", std::strerror(errno));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool Host::answers(std::uint16_t port) const {
  const pid_t pid = fork();
  if (pid == 0) _exit(takes_connections(port) ? 0 : 1);
  int status = 0;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "{}", std::strerror(errno));
  return status == 0;
}

std::vector<pid_t> Host::processes() const {
  const auto space_of = [](const std::string& pid) {
    std::error_code gone;
    return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/pid", pid), gone).string();
  };
  const std::string space = space_of(std::to_string(pid_));
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid > 0 && pid != pid_ && space_of(name) == space) found.push_back(pid);
  }
  return found;
}

}  // namespace muster::hosts
