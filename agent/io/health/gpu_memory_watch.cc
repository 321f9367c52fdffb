#include "agent/io/health/gpu_memory_watch.h"

#include <chrono>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "common/base/gpu_reading.h"
#include "common/base/log.h"
#include "common/base/nvml.h"
#include "common/base/quiet_thread.h"

namespace muster::agent {

namespace {

constexpr auto kGpuLookPause = std::chrono::milliseconds(50);

std::string held_on(const Nvml& library, const KilledOnGpus& killed) {
  std::string text;
  for (const auto& [gpu, pids] : killed) {
    const std::uint64_t held = held_bytes(processes_on_gpu(library, gpu), pids);
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
    shared_->usable = false;
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

std::optional<std::string> GpuMemoryWatch::held() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->held;
}

void GpuMemoryWatch::watch(const std::shared_ptr<Shared>& shared) {
  std::optional<Nvml> library;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->asked.wait(lock, [&] { return shared->over || !shared->killed.empty(); });
    if (shared->over) return;
    const KilledOnGpus killed = shared->killed;
    lock.unlock();
    if (!library) {
      library = Nvml::load();
      if (!library->begin()) library->processes = nullptr;
    }
    const std::string held = library->processes != nullptr ? held_on(*library, killed) : "";
    lock.lock();
    if (shared->killed != killed) continue;  // a new request has come meanwhile
    shared->held = held;
    if (held.empty()) shared->killed.clear();
    if (!held.empty()) shared->asked.wait_for(lock, kGpuLookPause, [&] { return shared->over; });
  }
}

}  // namespace muster::agent
