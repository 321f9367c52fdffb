#include "agent/io/health/gpu_memory_watch.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/nvml.h"
#include "common/base/quiet_thread.h"

namespace muster::agent {

namespace {

constexpr auto kGpuLookPause = std::chrono::milliseconds(50);
constexpr unsigned kMostGpuProcesses = 1024;

bool process_lives(pid_t pid) {
  return kill(pid, 0) == 0 || errno == EPERM;
}

std::optional<GpuMemory> look_at_gpu(const Nvml& library, unsigned gpu) {
  Nvml::Device device = nullptr;
  Nvml::Memory memory{};
  if (library.handle(gpu, &device) != Nvml::kSuccess || library.memory(device, &memory) != Nvml::kSuccess)
    return std::nullopt;
  GpuMemory seen{.used_bytes = memory.used, .processes = {}};
  std::vector<Nvml::Process> processes(kMostGpuProcesses);
  unsigned count = kMostGpuProcesses;
  // Some drivers do not report the memory of each process, but only the sum over all processes.
  if (library.processes == nullptr || library.processes(device, &count, processes.data()) != Nvml::kSuccess)
    count = 0;
  processes.resize(count);
  for (const Nvml::Process& each : processes) {
    seen.processes.push_back(
        {static_cast<pid_t>(each.pid), each.used_bytes == Nvml::kNotAvailable
                                           ? std::nullopt
                                           : std::optional(std::uint64_t{each.used_bytes})});
  }
  return seen;
}

std::string held_on(const Nvml& library, const std::map<unsigned, GpuMemory>& before,
                    const KilledOnGpus& killed) {
  std::string text;
  for (const auto& [gpu, pids] : killed) {
    const auto now = look_at_gpu(library, gpu);
    if (!now) continue;  // a GPU that does not answer is not waited for
    const auto was = before.find(gpu);
    const std::uint64_t held = held_bytes(was == before.end() ? std::nullopt : std::optional(was->second),
                                          *now, pids, process_lives);
    if (held == 0) continue;
    text += fmt::format("{}{:.1f} GiB of GPU {}", text.empty() ? "" : ", ",
                        static_cast<double>(held) / (1 << 30), gpu);
  }
  return text;
}

}  // namespace

GpuMemoryWatch::GpuMemoryWatch() {
  const auto body = [shared = shared_](const std::stop_token&) { watch(shared); };
  try {
    start_quiet_thread("muster-gpumem", body).detach();
  } catch (const std::system_error& error) {
    log::error("GPU memory is not watched: {}", error.what());
    const std::scoped_lock lock(shared_->mutex);
    give_up(*shared_);
  }
}

GpuMemoryWatch::~GpuMemoryWatch() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->over = true;
  shared_->asked.notify_all();
}

void GpuMemoryWatch::expect_back_from(KilledOnGpus killed) {
  const std::scoped_lock lock(shared_->mutex);
  if (!shared_->usable || killed.empty()) return;
  shared_->killed = std::move(killed);
  shared_->held.reset();
  shared_->asked.notify_all();
}

void GpuMemoryWatch::workers_start() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->workers_started = true;
}

std::optional<std::string> GpuMemoryWatch::held() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->held;
}

void GpuMemoryWatch::give_up(Shared& shared) {
  shared.usable = false;
  shared.killed.clear();
  shared.held = "";
}

void GpuMemoryWatch::watch(const std::shared_ptr<Shared>& shared) {
  const Nvml library = Nvml::load();
  const bool usable = library.begin() && library.memory != nullptr;
  std::map<unsigned, GpuMemory> before;
  unsigned count = 0;
  if (usable && library.count(&count) == Nvml::kSuccess) {
    for (unsigned gpu = 0; gpu < count; ++gpu) {
      if (auto memory = look_at_gpu(library, gpu)) before[gpu] = *std::move(memory);
    }
  }
  std::unique_lock lock(shared->mutex);
  // If workers have started in the meantime, the numbers may include memory of the workers. So they are not
  // used.
  if (shared->workers_started) before.clear();
  if (usable) log::info("GPU memory before the first attempt: read on {} GPUs", before.size());
  if (!usable) give_up(*shared);
  for (;;) {
    shared->asked.wait(lock, [&] { return shared->over || !shared->killed.empty(); });
    if (shared->over) return;
    const KilledOnGpus killed = shared->killed;
    lock.unlock();
    const std::string held = held_on(library, before, killed);
    lock.lock();
    if (shared->killed != killed) continue;  // a new request has come meanwhile
    shared->held = held;
    if (held.empty()) shared->killed.clear();
    if (!held.empty()) shared->asked.wait_for(lock, kGpuLookPause, [&] { return shared->over; });
  }
}

}  // namespace muster::agent
