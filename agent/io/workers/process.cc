#include "agent/io/workers/process.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/process.h"
#include "common/base/process_limits.h"
#include "common/base/settle.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr const char* kOomScore = "/proc/self/oom_score_adj";
// Some writes would otherwise kill the agent with one of these signals: a write to a pipe without a reader,
// and a write to a log file that has reached the user's limit for file sizes. Such a write must only fail.
constexpr int kIgnored[] = {SIGPIPE, SIGXFSZ};
constexpr int kOwnOomScore = -900;  // not -1000: an agent that uses up all memory can be killed

// Descriptors with low numbers. The agent puts the streams of a worker there. So the child copies only this
// part of the descriptor table. To copy the whole table took 0.1 ms for each of 256 workers.
struct Stage {
  int null;
  std::array<int, 3> streams;
};

const Stage& stage() {
  static const Stage made = [] {
    const auto open_null = [] { return open("/dev/null", O_RDWR | O_CLOEXEC); };
    Stage opened{open_null(), {open_null(), open_null(), open_null()}};
    CHECK(opened.streams[2] >= 0, "no descriptor is left: {}", std::strerror(errno));
    return opened;
  }();
  return made;
}

void put_on_stage(const std::array<int, 3>& streams) {
  for (std::size_t i = 0; i < streams.size(); ++i) dup3(streams[i], stage().streams[i], O_CLOEXEC);
}

// The descriptor table gets this size at the start. Otherwise the kernel would enlarge it several times (at
// 64, 256, 512 ...). In a process with two threads, it would have to wait each time until no core uses the
// old table. This made a start of 64 workers 20 ms longer.
constexpr int kTableSize = 4096;

// Returns the OOM score that a worker sets for itself. It is empty if the agent has not changed its own
// score.
std::array<char, 16>& worker_oom_score() {
  static std::array<char, 16> text{};
  return text;
}

struct Child {
  // If this is not 0, the child shares the agent's table of descriptors. It then makes its own copy, of the
  // descriptors below this number only. If it is 0, the child already has a copy.
  int shared_descriptors_from;
  Place place;
  const char* working_directory;
  rlimit descriptor_limit;
  int kept_fd;
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* failed = nullptr;
  int error = 0;
};

// Resets those properties of the process that execve() leaves unchanged. Returns null if all went well.
// Otherwise returns in words which step failed, and errno has the error.
const char* begin_anew(const Child& child) {
  for (const int signal : kIgnored) std::signal(signal, SIG_DFL);  // settle_signals() has reset the others
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (chdir(child.working_directory) < 0) return "change to the working directory";
  if (setrlimit(RLIMIT_NOFILE, &child.descriptor_limit) < 0) return "set the limit of descriptors";
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (worker_oom_score()[0] != '\0') {
    // No privilege is needed to raise the score.
    const int file = open(kOomScore, O_WRONLY | O_CLOEXEC);
    if (write(file, worker_oom_score().data(), std::strlen(worker_oom_score().data())) < 0)
      return "set its OOM score";
    close(file);
  }
  if (child.kept_fd >= 0 && fcntl(child.kept_fd, F_SETFD, 0) < 0) return "keep a descriptor";
  return nullptr;
}

// This function runs in the agent's memory while the agent waits. So it must not write to anything except
// `child`.
int become(void* argument) {
  auto& child = *static_cast<Child*>(argument);
  if (child.shared_descriptors_from > 0 &&
      close_range(static_cast<unsigned>(child.shared_descriptors_from), ~0U, CLOSE_RANGE_UNSHARE) < 0)
    child.failed = "have descriptors of its own";
  if (child.failed == nullptr) child.failed = settle(child.place);
  if (child.failed == nullptr) child.failed = begin_anew(child);
  if (child.failed == nullptr) {
    execve(child.program, child.arguments, child.environment);
    child.failed = "execute";
  }
  child.error = errno;
  _exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

ErrorCode code_of(const Child& child) {
  if (std::strcmp(child.failed, "execute") != 0) return ErrorCode::kInternal;
  return child.error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermission;
}

}  // namespace

void settle_signals() {
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  for (const int signal : kIgnored) std::signal(signal, SIG_IGN);
}

rlimit prepare_descriptors() {
  const rlimit before = raise_descriptor_limit();
  stage();
  close(fcntl(stage().null, F_DUPFD_CLOEXEC, kTableSize - 1));  // fails, harmlessly, if fewer are allowed
  return before;
}

void lower_oom_score() {
  const std::string before = read_file(kOomScore, 16).value_or("");
  const auto score = parse_number<int>(std::string_view(before).substr(0, before.find('\n')));
  if (!score) return;
  // If root has set a score, a lower one needs the capability CAP_SYS_RESOURCE. If the wanted score is
  // refused, this loop tries 0.
  for (const int wanted : {kOwnOomScore, 0}) {
    const UniqueFd file(open(kOomScore, O_WRONLY | O_CLOEXEC));
    if (*score <= wanted || !file || !write_all(file.get(), std::to_string(wanted), kOomScore)) continue;
    before.copy(worker_oom_score().data(), worker_oom_score().size() - 1);
    return;
  }
}

Expected<Process> spawn(const Command& command) {
  const std::vector<char*> arguments = pointers(command.arguments);
  const std::vector<char*> environment = pointers(command.environment);
  const bool staged = command.kept_fd < 0;
  if (staged) put_on_stage(command.streams);
  Child child{staged ? stage().streams.back() + 1 : 0,
              {getpid(), staged ? stage().streams : command.streams},
              command.working_directory.c_str(),
              command.descriptor_limit,
              command.kept_fd,
              command.program.c_str(),
              arguments.data(),
              environment.data()};
  // The child shares the agent's memory. It must not run the agent's signal handlers there, so all signals
  // are blocked in it until begin_anew().
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  alignas(16) static std::byte stack[64 << 10];
  int pidfd = -1;
  const int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD | (staged ? CLONE_FILES : 0);
  const int pid = clone(become, stack + sizeof stack, flags, &child, &pidfd);
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // Closes the agent's own copies of the worker's ends of the pipes. Otherwise a pipe would not end with its
  // worker.
  put_on_stage({stage().null, stage().null, stage().null});
  if (pid < 0)
    return failure(ErrorCode::kInternal, "cannot start a process{}: {}", nearest_process_limit(error),
                   std::strerror(error));
  Process process{pid, UniqueFd(pidfd)};
  if (child.failed == nullptr) return process;
  (void)reap(process.pidfd.get());
  // The file may be a script whose first line is not like #!/bin/sh. A shell would run such a script, but
  // execve() does not. So the message explains what the script lacks.
  const bool no_format = child.error == ENOEXEC;
  return failure(code_of(child), "cannot {} {}: {}{}", child.failed, command.program,
                 std::strerror(child.error),
                 no_format ? " (a script's first line must be like #!/bin/sh; "
                             "a program must be built for this kind of machine)"
                           : "");
}

std::optional<Ending> reap(int pidfd) {
  siginfo_t info{};
  rusage usage{};
  long result = 0;
  // The C library's waitid() does not return the resource usage of the process. So this function makes the
  // system call itself.
  do result = syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED, &usage);
  while (result < 0 && errno == EINTR);
  if (result < 0 && errno == EAGAIN) return std::nullopt;
  CHECK(result == 0, "waitid: {}", std::strerror(errno));
  Ending ending{.core_dumped = info.si_code == CLD_DUMPED,
                .peak_memory_bytes = std::int64_t{usage.ru_maxrss} * 1024};
  (info.si_code == CLD_EXITED ? ending.exit_code : ending.signal) = info.si_status;
  return ending;
}

}  // namespace muster::agent
