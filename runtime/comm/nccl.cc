#include "runtime/comm/nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

#include "common/base/check.h"

namespace muster {
namespace {

#ifdef MUSTER_NCCL
constexpr const char* kLibrary = "libmuster_nccl.so";
#else
constexpr const char* kLibrary = nullptr;
#endif

const NcclLibrary& library() {
  static const NcclLibrary loaded = load_nccl(
      gpu_visible(access("/dev/nvidiactl", F_OK) == 0, std::getenv("CUDA_VISIBLE_DEVICES")), kLibrary);
  return loaded;
}

[[gnu::constructor]] void load_before_main() {
  library();
}

}  // namespace

bool gpu_visible(bool driver_present, const char* cuda_visible_devices) {
  if (!driver_present) return false;
  if (cuda_visible_devices == nullptr) return true;
  const std::string_view devices = cuda_visible_devices;
  return !devices.empty() && !devices.starts_with('-') && devices != "NoDevFiles";
}

NcclLibrary load_nccl(bool visible, const char* name) {
  NcclLibrary loaded;
  if (!visible) return loaded;
  if (name == nullptr) {
    loaded.error = "a GPU is visible, and Muster was built with a LibTorch without CUDA";
    return loaded;
  }
  loaded.handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (loaded.handle == nullptr)
    loaded.error = std::string("a GPU is visible, but its libraries cannot be loaded: ") + dlerror();
  return loaded;
}

bool nccl_loaded() {
  if (!library().error.empty())
    throw std::runtime_error(library().error + " (to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)");
  return library().handle != nullptr;
}

c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request) {
  auto* function = reinterpret_cast<NcclFunction*>(dlsym(library().handle, kNcclFunction));
  CHECK(function != nullptr, "libmuster_nccl.so has no {}", kNcclFunction);
  function(&request);
  return request.backend;
}

}  // namespace muster
