#include "runtime/rank/stacks.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <memory>
#include <semaphore.h>
#include <string_view>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"

namespace muster {
namespace {

constexpr int kMaxFrames = 64;
constexpr int kOwnFrames = 2;  // of the handler and the kernel's call to it: left out
constexpr int kMaxThreads = 512;
constexpr std::chrono::milliseconds kThreadLimit{100};
constexpr std::chrono::milliseconds kMoment{2};

// There is one request per process, because a process has one handler for a signal.
struct StackRequest {
  std::atomic<std::uintptr_t> open{0};  // the request that a thread may still answer; 0: none
  std::array<void*, kMaxFrames> frames;
  int frame_count = 0;
  sem_t answered;
};
StackRequest request;
int stack_signal = 0;  // 0: not prepared, or given up

// Records the stack of the thread that gets the signal. If a thread answers too late, or twice, its request
// is closed already, and the handler changes nothing.
void note_frames(int, siginfo_t* info, void*) {
  const int saved_error = errno;
  auto number = reinterpret_cast<std::uintptr_t>(info->si_value.sival_ptr);
  if (number != 0 && request.open.compare_exchange_strong(number, 0)) {
    request.frame_count = backtrace(request.frames.data(), kMaxFrames);
    sem_post(&request.answered);
  }
  errno = saved_error;
}

bool wait_until(TimePoint deadline) {
  const auto left = std::max<Duration>(deadline - Clock::now(), Duration::zero());
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const auto ns = until.tv_nsec + std::chrono::nanoseconds(left).count();
  until.tv_sec += ns / 1'000'000'000;
  until.tv_nsec = ns % 1'000'000'000;
  int result = 0;
  do result = sem_clockwait(&request.answered, CLOCK_MONOTONIC, &until);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

enum class Answer { kNone, kFrames, kStuck };

Answer ask(pid_t thread, TimePoint deadline) {
  static std::uintptr_t number = 0;
  request.open.store(++number);
  siginfo_t info{};
  info.si_signo = stack_signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(number);
  const bool sent = syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, stack_signal, &info) == 0;
  if (sent && wait_until(std::min(deadline, Clock::now() + kThreadLimit))) return Answer::kFrames;
  std::uintptr_t mine = number;
  if (request.open.compare_exchange_strong(mine, 0)) return Answer::kNone;
  return wait_until(deadline) ? Answer::kFrames : Answer::kStuck;
}

std::string read_line(const std::string& path) {
  std::string text = read_file(path, 16 << 10).value_or("");
  return text.substr(0, text.find('\n'));
}

bool blocks_signal(const std::string& directory) {
  const std::string status = read_file(directory + "/status", 16 << 10).value_or("");
  const std::size_t at = status.find("SigBlk:");
  if (at == std::string::npos) return false;
  const auto blocked = std::strtoull(status.c_str() + at + 7, nullptr, 16);
  return (blocked >> (stack_signal - 1) & 1) != 0;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                    std::free);
  return text ? text.get() : name;
}

// If the program was linked without -rdynamic, dladdr() does not find the names of its functions. In that
// case, this function returns the program's load address. Otherwise it returns null.
const void* nameless_program() {
  static const void* const base = [] {
    Dl_info info{};
    const bool exports = dlsym(RTLD_DEFAULT, "main") != nullptr;
    const auto* headers = reinterpret_cast<const void*>(getauxval(AT_PHDR));
    return !exports && dladdr(headers, &info) != 0 ? info.dli_fbase : nullptr;
  }();
  return base;
}

std::string describe_frame(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return fmt::format("{}", address);
  const std::string_view file(info.dli_fname);
  const auto offset = static_cast<char*>(address) - static_cast<char*>(info.dli_fbase);
  const std::string where = fmt::format("{}+{:#x}", file.substr(file.rfind('/') + 1), offset);
  if (info.dli_sname != nullptr) return fmt::format("{}  ({})", demangled(info.dli_sname), where);
  return where + (info.dli_fbase == nameless_program() ? "  (no name: link the program with -rdynamic)" : "");
}

// Returns a line with the thread's name, its state, and the kernel function that it waits in.
std::string describe_thread(const std::string& directory, std::string_view id) {
  const std::string stat = read_line(directory + "/stat");
  const std::size_t state = stat.rfind(") ");
  return fmt::format("thread {} ({}), state {}, in {}\n", id, read_line(directory + "/comm"),
                     state != std::string::npos ? stat.substr(state + 2, 1) : "?",
                     read_line(directory + "/wchan"));
}

std::string frames_of(pid_t thread, const std::string& directory, TimePoint deadline) {
  // Any thread may block the signal for a moment, for instance while it returns from the signal's handler.
  if (blocks_signal(directory)) {
    std::this_thread::sleep_for(kMoment);
    if (blocks_signal(directory)) return "    (takes no signals)\n";
  }
  switch (ask(thread, deadline)) {
    case Answer::kNone: return "    (did not answer)\n";
    case Answer::kStuck:
      stack_signal = 0;  // its handler may still write to `request`
      return "    (is stuck while it records its stack; other threads are not asked)\n";
    case Answer::kFrames: break;
  }
  std::string text;
  for (int i = kOwnFrames; i < request.frame_count; ++i)
    text += fmt::format("    {}\n", describe_frame(request.frames.at(static_cast<std::size_t>(i))));
  return text;
}

}  // namespace

bool prepare_stacks() {
  if (stack_signal != 0) return true;
  // The first call of backtrace() loads libgcc. That takes locks and memory, which a signal handler must not
  // do. So the first call is made here, outside of the signal handler.
  std::array<void*, 4> ignored;
  backtrace(ignored.data(), static_cast<int>(ignored.size()));
  struct sigaction ours{};
  ours.sa_sigaction = note_frames;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&ours.sa_mask);
  for (int signal = SIGRTMAX - 1; signal >= SIGRTMIN; --signal) {
    struct sigaction taken{};
    if (sigaction(signal, nullptr, &taken) != 0 || taken.sa_handler != SIG_DFL) continue;
    if (sem_init(&request.answered, 0, 0) != 0 || sigaction(signal, &ours, nullptr) != 0) return false;
    stack_signal = signal;
    return true;
  }
  return false;
}

std::string describe_stacks(std::chrono::milliseconds limit) {
  const TimePoint deadline = Clock::now() + limit;
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir("/proc/self/task"), closedir);
  if (!threads) return "cannot read /proc/self/task\n";
  std::string text;
  int count = 0;
  while (const dirent* entry = readdir(threads.get())) {
    const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
    if (thread == 0 || thread == gettid() || ++count > kMaxThreads) continue;
    const std::string directory = fmt::format("/proc/self/task/{}", thread);
    text += describe_thread(directory, entry->d_name);
    if (stack_signal != 0 && Clock::now() < deadline) text += frames_of(thread, directory, deadline);
  }
  return text;
}

}  // namespace muster
