#include "agent/io/health/nvml.h"

#include <dlfcn.h>

namespace muster::agent {

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
  return library;
}

}  // namespace muster::agent
