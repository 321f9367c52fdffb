// Stands in for the NVIDIA driver's library: a machine with three GPUs, whose faults a file tells.
//
// Each line of the file that FAKE_NVML_EVENTS names is one event, "GPU TYPE DATA" in NVML's numbers.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace {

constexpr unsigned kGpus = 3;
constexpr int kTimeout = 10;
constexpr auto kPause = std::chrono::milliseconds(5);
char gpus[kGpus];  // their addresses are the handles

struct EventData {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// The event after the first `told`.
bool read_event(int told, EventData& event) {
  const char* path = std::getenv("FAKE_NVML_EVENTS");
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line) && !file.eof(); --told) {
    unsigned gpu = 0;
    if (told > 0 || std::sscanf(line.c_str(), "%u %llu %llu", &gpu, &event.type, &event.data) != 3) continue;
    event.device = &gpus[gpu];
    return true;
  }
  return false;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return 0;
}
int nvmlEventSetCreate(void** set) {
  *set = gpus;
  return 0;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
  return 0;
}
int nvmlEventSetWait_v2(void*, EventData* event, unsigned timeout_ms) {
  static int told = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!read_event(told, *event)) {
    if (std::chrono::steady_clock::now() >= deadline) return kTimeout;
    std::this_thread::sleep_for(kPause);
  }
  ++told;
  return 0;
}

}  // extern "C"
