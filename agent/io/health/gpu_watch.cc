#include "agent/io/health/gpu_watch.h"

#include <fmt/format.h>
#include <map>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/nvml.h"
#include "common/base/quiet_thread.h"

namespace muster::agent {

namespace {

constexpr unsigned long long kDoubleBitEcc = 0x2;
constexpr unsigned long long kXid = 0x8;
constexpr unsigned kWaitMs = 1000;
constexpr std::uint64_t kXidDoubleBitEcc = 48;
constexpr std::uint64_t kXidLost = 79;

bool has_events(const Nvml& library) {
  return library.create_set != nullptr && library.register_events != nullptr && library.wait != nullptr;
}

// Registers for the events of all devices. Returns those devices for which this has worked, with their
// numbers.
std::map<Nvml::Device, unsigned> register_all(const Nvml& library, Nvml::EventSet set) {
  std::map<Nvml::Device, unsigned> devices;
  unsigned count = 0;
  if (library.count(&count) != Nvml::kSuccess) return devices;
  for (unsigned index = 0; index < count; ++index) {
    Nvml::Device device = nullptr;
    if (library.handle(index, &device) != Nvml::kSuccess) continue;
    // GPUs without ECC refuse a registration that includes ECC events.
    if (library.register_events(device, kXid | kDoubleBitEcc, set) == Nvml::kSuccess ||
        library.register_events(device, kXid, set) == Nvml::kSuccess)
      devices[device] = index;
  }
  return devices;
}

}  // namespace

GpuWatch::GpuWatch() {
  const auto body = [shared = std::weak_ptr(shared_)](const std::stop_token&) { watch(shared); };
  try {
    start_quiet_thread("muster-gpu", body).detach();
  } catch (const std::system_error& error) {
    log::error("GPU faults are not watched: {}", error.what());
  }
}

std::vector<GpuFault> GpuWatch::take() {
  const std::scoped_lock lock(shared_->mutex);
  return std::exchange(shared_->faults, {});
}

void GpuWatch::watch(const std::weak_ptr<Shared>& weak) {
  const Nvml library = Nvml::load();
  Nvml::EventSet set = nullptr;
  if (!has_events(library) || !library.begin() || library.create_set(&set) != Nvml::kSuccess)
    return log::info("GPU faults are not watched: no NVML with events");
  const std::map<Nvml::Device, unsigned> devices = register_all(library, set);
  if (devices.empty()) return log::info("GPU faults are not watched: no GPU has events");
  const auto tell = [&weak](unsigned gpu, std::uint64_t xid) {
    const auto shared = weak.lock();
    if (!shared) return;
    const std::scoped_lock lock(shared->mutex);
    shared->faults.push_back({gpu, describe_xid(xid)});
  };
  while (!weak.expired()) {
    Nvml::EventData event{};
    const int result = library.wait(set, &event, kWaitMs);
    if (result == Nvml::kTimeout) continue;
    const auto device = devices.find(event.device);
    const unsigned gpu = device != devices.end() ? device->second : devices.begin()->second;
    if (result == Nvml::kGpuIsLost) tell(gpu, kXidLost);
    if (result != Nvml::kSuccess)
      return log::error("GPU faults are not watched any more: NVML error {}", result);
    tell(gpu, event.type == kXid ? event.data : kXidDoubleBitEcc);
  }
}

}  // namespace muster::agent
