#include "common/base/nvml.h"

#include <dlfcn.h>

namespace muster {

Nvml Nvml::load() {
  Nvml library;
  void* file = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return library;
  const auto find = [file](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
  };
  find(library.initialize, "nvmlInit_v2");
  find(library.count, "nvmlDeviceGetCount_v2");
  find(library.handle, "nvmlDeviceGetHandleByIndex_v2");
  find(library.create_set, "nvmlEventSetCreate");
  find(library.register_events, "nvmlDeviceRegisterEvents");
  find(library.wait, "nvmlEventSetWait_v2");
  find(library.memory, "nvmlDeviceGetMemoryInfo");
  find(library.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find(library.name, "nvmlDeviceGetName");
  find(library.utilization, "nvmlDeviceGetUtilizationRates");
  find(library.temperature, "nvmlDeviceGetTemperature");
  find(library.power, "nvmlDeviceGetPowerUsage");
  find(library.clock, "nvmlDeviceGetClockInfo");
  find(library.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  return library;
}

}  // namespace muster
