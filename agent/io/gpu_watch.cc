#include "agent/io/gpu_watch.h"

#include <csignal>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>
#include <pthread.h>
#include <thread>
#include <utility>

#include "common/base/log.h"

namespace muster::agent {

namespace {

// Of nvml.h, which is not needed to build.
using Device = void*;
using EventSet = void*;
struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr unsigned long long kDoubleBitEcc = 0x2;
constexpr unsigned long long kXid = 0x8;
constexpr int kSuccess = 0;
constexpr int kTimeout = 10;
constexpr int kGpuIsLost = 15;
constexpr unsigned kWaitMs = 1000;
constexpr std::uint64_t kXidDoubleBitEcc = 48;
constexpr std::uint64_t kXidLost = 79;

struct Library {
  int (*initialize)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*create_set)(EventSet*) = nullptr;
  int (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  int (*wait)(EventSet, EventData*, unsigned) = nullptr;
};

// Stays loaded. Empty functions if it cannot be used.
Library load() {
  Library library;
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
  return library;
}

bool usable(const Library& library) {
  return library.initialize != nullptr && library.count != nullptr && library.handle != nullptr &&
         library.create_set != nullptr && library.register_events != nullptr && library.wait != nullptr;
}

// The devices whose events the set has, with their numbers.
std::map<Device, unsigned> register_all(const Library& library, EventSet set) {
  std::map<Device, unsigned> devices;
  unsigned count = 0;
  if (library.count(&count) != kSuccess) return devices;
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    if (library.handle(index, &device) != kSuccess) continue;
    // Cards without ECC refuse both together.
    if (library.register_events(device, kXid | kDoubleBitEcc, set) == kSuccess ||
        library.register_events(device, kXid, set) == kSuccess)
      devices[device] = index;
  }
  return devices;
}

}  // namespace

GpuWatch::GpuWatch() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shared = std::weak_ptr(shared_)] { watch(shared); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::vector<GpuFault> GpuWatch::take() {
  const std::scoped_lock lock(shared_->mutex);
  return std::exchange(shared_->faults, {});
}

void GpuWatch::watch(const std::weak_ptr<Shared>& weak) {
  pthread_setname_np(pthread_self(), "muster-gpu");
  const Library library = load();
  EventSet set = nullptr;
  if (!usable(library) || library.initialize() != kSuccess || library.create_set(&set) != kSuccess)
    return log::info("GPU faults are not watched: no NVML with events");
  const std::map<Device, unsigned> devices = register_all(library, set);
  if (devices.empty()) return log::info("GPU faults are not watched: no GPU has events");
  const auto tell = [&weak](unsigned gpu, std::uint64_t xid) {
    const auto shared = weak.lock();
    if (!shared) return;
    const std::scoped_lock lock(shared->mutex);
    shared->faults.push_back({gpu, describe_xid(xid)});
  };
  while (!weak.expired()) {
    EventData event{};
    const int result = library.wait(set, &event, kWaitMs);
    if (result == kTimeout) continue;
    const auto device = devices.find(event.device);
    const unsigned gpu = device != devices.end() ? device->second : devices.begin()->second;
    if (result == kGpuIsLost) tell(gpu, kXidLost);
    if (result != kSuccess) return log::error("GPU faults are not watched any more: NVML error {}", result);
    tell(gpu, event.type == kXid ? event.data : kXidDoubleBitEcc);
  }
}

}  // namespace muster::agent
