#include "launcher/io/settings/gpus.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <dlfcn.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/gpu_reading.h"
#include "common/base/machine.h"
#include "common/base/text.h"

namespace muster::launcher {

namespace {

// Reads the list in the same way as CUDA. The list ends at the first entry that does not name a device.
std::int32_t visible_count(std::string_view list, std::int32_t present) {
  std::int32_t count = 0;
  for (const std::string_view entry : split(list, ',')) {
    const auto index = parse_number<int>(entry);
    if (entry.empty() || (index && (*index < 0 || *index >= present))) break;
    ++count;
  }
  return std::min(count, present);
}

// Returns the user of a process. Returns nothing if the process is this user's, or cannot be seen from here.
std::optional<std::string> other_user_of(std::int32_t pid) {
  struct stat facts{};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &facts) != 0)
    return kill(pid, 0) != 0 && errno == EPERM ? std::optional<std::string>("another user") : std::nullopt;
  if (facts.st_uid == geteuid()) return std::nullopt;
  const passwd* const entry = getpwuid(facts.st_uid);
  return entry != nullptr ? entry->pw_name : fmt::format("user {}", facts.st_uid);
}

std::optional<GpuInUse> in_use_by_others(const GpuReading& reading) {
  GpuInUse found{.gpu = static_cast<std::int32_t>(reading.index), .pid = 0, .user = "", .mebibyte_count = 0};
  std::uint64_t held_bytes = 0;
  for (const GpuReading::Process& process : reading.processes) {
    const auto user = other_user_of(process.pid);
    const std::uint64_t bytes = process.memory_bytes.value_or(0);
    if (!user || bytes == 0) continue;
    held_bytes += bytes;
    if (const std::uint64_t count = bytes >> 20; count >= found.mebibyte_count) {
      found.pid = process.pid;
      found.user = *user;
      found.mebibyte_count = count;
    }
  }
  const bool is_filled = reading.memory_total_bytes > 0 && held_bytes > reading.memory_total_bytes / 2;
  return is_filled ? std::optional(found) : std::nullopt;
}

}  // namespace

std::optional<std::vector<GpuInUse>> gpus_in_use() {
  static const Nvml library = Nvml::load();
  static const bool begun = library.begin();
  if (!begun) return std::nullopt;
  const std::vector<GpuReading> readings = read_gpu_memory(library);
  if (readings.empty()) return std::nullopt;
  std::vector<GpuInUse> found;
  for (const GpuReading& reading : readings) {
    if (auto gpu = in_use_by_others(reading)) found.push_back(*std::move(gpu));
  }
  return found;
}

GpuCount count_gpus(const std::optional<std::string>& visible) {
  if (!may_have_nvidia_driver()) return {0, "no /dev/nvidiactl: the NVIDIA driver is not loaded"};
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {0, "libnvidia-ml.so.1 not found: the NVIDIA driver is not installed"};
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto get_count = reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"));
  if (initialize == nullptr || get_count == nullptr) return {0, "libnvidia-ml.so.1 lacks nvmlInit_v2"};
  // The library stays loaded and initialized: unloading it costs more than it saves.
  unsigned present = 0;
  if (const int code = initialize(); code != 0) return {0, fmt::format("NVML reports error {}", code)};
  if (const int code = get_count(&present); code != 0) return {0, fmt::format("NVML reports error {}", code)};
  if (present == 0) return {0, "NVML reports no GPU"};
  if (!visible) return {static_cast<std::int32_t>(present), ""};
  const std::int32_t count = visible_count(*visible, static_cast<std::int32_t>(present));
  return {count, count > 0 ? "" : fmt::format("CUDA_VISIBLE_DEVICES is \"{}\"", *visible)};
}

}  // namespace muster::launcher
