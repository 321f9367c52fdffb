#include "runtime/comm/nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

#include "common/base/check.h"

namespace muster {
namespace {

struct Plugin {
  void* handle = nullptr;
  std::string error;
};

Plugin load_plugin() {
  Plugin plugin;
#ifdef MUSTER_NCCL
  if (!gpu_visible(access("/dev/nvidiactl", F_OK) == 0, std::getenv("CUDA_VISIBLE_DEVICES"))) return plugin;
  plugin.handle = dlopen("libmuster_nccl.so", RTLD_NOW | RTLD_GLOBAL);
  if (plugin.handle == nullptr) plugin.error = dlerror();
#endif
  return plugin;
}

const Plugin& plugin() {
  static const Plugin loaded = load_plugin();
  return loaded;
}

[[gnu::constructor]] void load_before_main() {
  plugin();
}

}  // namespace

bool gpu_visible(bool driver_present, const char* cuda_visible_devices) {
  if (!driver_present) return false;
  if (cuda_visible_devices == nullptr) return true;
  const std::string_view devices = cuda_visible_devices;
  return !devices.empty() && !devices.starts_with('-') && devices != "NoDevFiles";
}

bool nccl_loaded() {
  if (!plugin().error.empty())
    throw std::runtime_error("a GPU is visible, but its libraries cannot be loaded: " + plugin().error +
                             " (to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)");
  return plugin().handle != nullptr;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request) {
  auto* function = reinterpret_cast<NcclFunction*>(dlsym(plugin().handle, kNcclFunction));
  CHECK(function != nullptr, "libmuster_nccl.so has no {}", kNcclFunction);
  function(&request);
  return request.backend;
}

}  // namespace muster
