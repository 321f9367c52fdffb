#include "runtime/rank/warm/template.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <linux/sched.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "common/base/process.h"
#include "common/base/settle.h"
#include "common/base/template_socket.h"
#include "common/base/text.h"
#include "runtime/rank/warm/fork_safety.h"
#include "runtime/rank/warm/leave.h"

namespace muster::warm {
namespace {

using Kind = TemplateAnswer::Kind;
constexpr int kExitNotSettled = 127;
constexpr std::size_t kNameBytes = 16;  // the kernel's limit for a thread's name

struct Template {
  int socket;
  pid_t agent;
  std::array<char, kNameBytes> name{};  // the thread's name when the process was executed
  std::vector<int> files;
  ForkHooks hooks;
};

[[noreturn]] void refuse(int socket, std::string why) {
  (void)send_template_message(socket, encode(TemplateAnswer{Kind::kRefused, std::move(why)}), {});
  _exit(0);
}

// Returns the process that created the socket's other end. If the socket has no other end, returns 0.
pid_t peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

// Does the same as fork(), with one difference: the parent of the child is the parent of this process. glibc
// cannot do that. The other work of glibc's fork() is not needed:
// - The kernel sets the thread's cached id here.
// - The locks of malloc and stdio are free, because there is only one thread.
// - pthread_atfork's handlers do not run.
// Uses clone, because clone3 rejects SIGCHLD with CLONE_PARENT, and without SIGCHLD a debugger takes the
// child for a thread.
pid_t fork_sibling(int& pidfd) {
  int* tid = nullptr;
  void* robust = nullptr;
  std::size_t robust_size = 0;
  if (prctl(PR_GET_TID_ADDRESS, &tid) < 0 || syscall(SYS_get_robust_list, 0, &robust, &robust_size) < 0)
    return -1;
  constexpr unsigned long kFlags =
      CLONE_PARENT | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#ifdef __x86_64__
  const long pid = syscall(SYS_clone, kFlags, nullptr, &pidfd, tid, nullptr);
#else
  const long pid = syscall(SYS_clone, kFlags, nullptr, &pidfd, nullptr, tid);
#endif
  if (pid == 0) syscall(SYS_set_robust_list, robust, robust_size);
  return static_cast<pid_t>(pid);
}

void apply(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      unsetenv(entry.c_str());
    } else {
      setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
    }
  }
}

void become_worker(const Template& self, const ForkOrder& order, const std::vector<UniqueFd>& streams) {
  const char* failed = settle({self.agent, {streams[0].get(), streams[1].get(), streams[2].get()}});
  if (failed == nullptr && self.hooks.in_child != nullptr) self.hooks.in_child();
  for (const int fd : self.files) {
    if (failed == nullptr && !reopen(fd)) failed = "reopen a file";
  }
  if (failed != nullptr) {
    dprintf(STDERR_FILENO, "muster: cannot %s: %s\n", failed, std::strerror(errno));
    _exit(kExitNotSettled);
  }
  leave_torch_behind();
  close(self.socket);
  apply(order.environment);
  prctl(PR_SET_NAME, self.name.data());
}

// Forks a worker as the message says. In the worker, returns the order that the message contains. In the
// template, returns nothing.
std::optional<ForkOrder> fork_one(const Template& self, const TemplateMessage& message) {
  auto order = decode_fork_order(message.text);
  if (!order || message.fds.size() != std::size_t{3}) _exit(1);
  if (self.hooks.before != nullptr) self.hooks.before();
  int pidfd = -1;
  const pid_t pid = fork_sibling(pidfd);
  const int error = errno;
  if (pid == 0) {
    become_worker(self, *order, message.fds);
    return *std::move(order);
  }
  if (self.hooks.in_parent != nullptr) self.hooks.in_parent();
  const UniqueFd owned(pidfd);
  const Status told =
      pid < 0 ? send_template_message(
                    self.socket,
                    encode(TemplateAnswer{Kind::kFailed, fmt::format("fork: {}", std::strerror(error))}), {})
              : send_template_message(self.socket, encode(TemplateAnswer{Kind::kForked}), {pidfd});
  if (!told) _exit(0);
  return std::nullopt;
}

// Returns a description of this process. If no agent uses the socket, or if this process is not a child of
// the agent, ends the process.
Template recognise(int socket, const ForkHooks& hooks) {
  const pid_t agent = peer_of(socket);
  if (agent == 0) {
    // This process is neither a template nor a rank. If it trained, it would be one more process next to the
    // workers.
    std::fprintf(stderr, "muster: %s is set, but no agent uses its socket\n", kTemplateVariable);
    _exit(0);
  }
  if (getppid() != agent) refuse(socket, "init() was called in a child of the program");
  Template self{.socket = socket, .agent = agent, .files = {}, .hooks = hooks};
  prctl(PR_GET_NAME, self.name.data());
  return self;
}

}  // namespace

Serving serve_as_template(const ForkHooks& hooks, std::vector<std::string>* arguments) {
  const char* const variable = std::getenv(kTemplateVariable);
  if (variable == nullptr) return Serving::kNoTemplate;
  Template self = recognise(parse_number<int>(variable).value_or(-1), hooks);
  unsetenv(kTemplateVariable);
  open_standard_streams();  // otherwise a worker's files, when they arrive, could get 0, 1 or 2
  std::fflush(nullptr);     // otherwise each worker would print the buffered text
  std::cout.flush();
  std::clog.flush();
  ForkSafety safety = check_fork_safety(self.socket);
  if (!safety.unsafe.empty()) refuse(self.socket, std::move(safety.unsafe));
  self.files = std::move(safety.files);
  const char* const version = arguments != nullptr ? kTakesArguments : kTemplateVersion;
  if (!send_template_message(self.socket, encode(TemplateAnswer{Kind::kReady, version}), {})) _exit(0);
  prctl(PR_SET_NAME, "muster-template");  // this name tells observers that it is ready
  for (;;) {
    const auto message = receive_template_message(self.socket, -1);
    if (!message) _exit(0);
    const auto order = fork_one(self, *message);
    if (!order) continue;
    if (arguments == nullptr || !order->arguments) return Serving::kForked;
    *arguments = *order->arguments;
    return Serving::kForkedWithArguments;
  }
}

}  // namespace muster::warm
