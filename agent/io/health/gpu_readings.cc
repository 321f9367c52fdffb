#include "agent/io/health/gpu_readings.h"

#include <stop_token>
#include <system_error>

#include "common/base/log.h"
#include "common/base/quiet_thread.h"

namespace muster::agent {

GpuReadings::GpuReadings() {
  const auto body = [shared = shared_](const std::stop_token&) { read(shared); };
  try {
    start_quiet_thread("muster-gputop", body).detach();
  } catch (const std::system_error& error) {
    log::error("cannot read the state of GPUs: {}", error.what());
  }
}

GpuReadings::~GpuReadings() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->over = true;
  shared_->asked.notify_all();
}

std::vector<GpuReading> GpuReadings::newest() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->is_asked = true;
  shared_->asked.notify_all();
  return shared_->readings;
}

void GpuReadings::read(const std::shared_ptr<Shared>& shared) {
  const Nvml library = Nvml::load();
  if (!library.begin()) return;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->asked.wait(lock, [&] { return shared->over || shared->is_asked; });
    if (shared->over) return;
    shared->is_asked = false;
    lock.unlock();
    std::vector<GpuReading> readings = read_gpus(library);
    lock.lock();
    shared->readings = std::move(readings);
  }
}

}  // namespace muster::agent
