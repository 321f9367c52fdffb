#include "agent/io/health/local_vitals.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <utility>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxMountinfoBytes = 4 << 20;

constexpr std::size_t kMaxUsageBytes = 4096;
constexpr std::int64_t kSecond = 1'000'000'000;

struct ProcessUsage {
  std::int64_t cpu_ns = 0;        // in user and kernel mode, of all its threads, since its start
  std::int64_t age_ns = 0;        // since its start
  std::int64_t memory_bytes = 0;  // resident
};

// Returns nothing if the process is gone.
std::optional<ProcessUsage> usage_of(pid_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), kMaxUsageBytes);
  if (!stat) return std::nullopt;
  // proc(5) counts the fields from 1. The name (field 2) can contain anything, so the code looks for the end
  // of the name. The field after the name is the 3rd one.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat->size()) return std::nullopt;
  const auto fields = split(std::string_view(*stat).substr(name_end + 2), ' ');
  const auto field = [&fields](std::size_t number) {
    return number - 3 < fields.size() ? parse_number<std::int64_t>(fields[number - 3]).value_or(0) : 0;
  };
  const std::int64_t tick_ns = kSecond / sysconf(_SC_CLK_TCK);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::int64_t started_ns = field(22) * tick_ns;
  return ProcessUsage{.cpu_ns = (field(14) + field(15)) * tick_ns,
                      .age_ns = std::max<std::int64_t>(now.tv_sec * kSecond + now.tv_nsec - started_ns, 1),
                      .memory_bytes = field(24) * sysconf(_SC_PAGESIZE)};
}

// Returns the text of /proc/self/mountinfo. The file is read once, even if the agent serves many jobs. The
// agent needs the mounts of control groups from it, and these mounts stay the same.
const std::string& own_mountinfo() {
  static const std::string text = read_file("/proc/self/mountinfo", kMaxMountinfoBytes).value_or("");
  return text;
}

}  // namespace

LocalVitals::LocalVitals() : mountinfo_(own_mountinfo()) {}

std::map<Rank, ProcessState> LocalVitals::look(const std::map<Rank, std::int32_t>& pids) {
  attempt_->memory.look(pids);
  return attempt_->states.look(pids);
}

std::vector<GpuFault> LocalVitals::take_gpu_faults() {
  // This is logged only when the workers run. The first line of the agent's log starts the thread that writes
  // the log, and that would delay the start of the workers.
  if (std::exchange(lacks_driver_, false))
    log::info("GPU faults are not watched: no NVIDIA driver is loaded");
  return gpus_ != nullptr ? gpus_->take() : std::vector<GpuFault>();
}

std::optional<std::string> LocalVitals::held_gpu_memory() {
  return gpu_memory_ != nullptr ? gpu_memory_->held() : "";
}

std::vector<wire::RankUsage> LocalVitals::usage(const std::map<Rank, WorkerHealth::Worker>& workers) {
  if (gpus_ != nullptr && gpu_readings_ == nullptr) gpu_readings_ = std::make_unique<GpuReadings>();
  const std::vector<GpuReading> gpus =
      gpu_readings_ != nullptr ? gpu_readings_->newest() : std::vector<GpuReading>();
  std::vector<wire::RankUsage> all;
  for (const auto& [rank, worker] : workers) {
    const auto process = usage_of(worker.pid);
    if (!process) continue;
    wire::RankUsage& usage = all.emplace_back(wire::RankUsage{.rank = rank,
                                                              .cpu_ns = process->cpu_ns,
                                                              .age_ns = process->age_ns,
                                                              .memory_bytes = process->memory_bytes});
    if (!worker.gpu) continue;
    usage.gpu = static_cast<std::int32_t>(*worker.gpu);
    const auto gpu = std::ranges::find(gpus, *worker.gpu, &GpuReading::index);
    if (gpu == gpus.end()) continue;
    usage.gpu_percent = gpu->utilization_percent.value_or(-1);
    usage.gpu_memory_bytes = static_cast<std::int64_t>(gpu->memory_used_bytes);
    usage.gpu_memory_total_bytes = static_cast<std::int64_t>(gpu->memory_total_bytes);
    usage.gpu_celsius = gpu->temperature_celsius.value_or(-1);
    usage.gpu_watts = static_cast<std::int32_t>(gpu->power_watts.value_or(-1));
  }
  return all;
}

void LocalVitals::watch_gpus() {
  if (gpus_ != nullptr) return;
  lacks_driver_ = !may_have_nvidia_driver();
  if (lacks_driver_) return;
  gpus_ = std::make_unique<GpuWatch>();
  gpu_memory_ = std::make_unique<GpuMemoryWatch>();
}

void LocalVitals::attempt_opens() {
  attempt_.emplace(ProcessStates(mountinfo_), MemoryWatch(mountinfo_));
}

void LocalVitals::worker_ended(wire::WorkerExited& exited, std::optional<std::uint32_t> gpu) {
  if (gpu && exited.signal != 0) killed_on_gpus_[*gpu].push_back(exited.pid);
  if (exited.signal == SIGKILL) attempt_->memory.add_evidence(exited.pid, exited);
}

void LocalVitals::attempt_is_over() {
  if (gpu_memory_ != nullptr) gpu_memory_->expect_back_from(std::exchange(killed_on_gpus_, {}));
  attempt_.reset();
}

}  // namespace muster::agent
