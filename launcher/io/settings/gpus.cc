#include "launcher/io/settings/gpus.h"

#include <algorithm>
#include <dlfcn.h>
#include <fmt/core.h>

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

}  // namespace

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
