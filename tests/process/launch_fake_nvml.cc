// A fake of the NVIDIA driver's library: a machine with three GPUs, with faults from a file.
//
// Each line of the file FAKE_NVML_EVENTS is one event, "GPU TYPE DATA" in NVML's numbers. Each line of the
// file FAKE_NVML_MEMORY is a GPU with memory in use, "GPU MIB [PID MIB]": all used memory, and one process's.
// Load, temperature and power of a GPU follow from its number; its power cap throttles it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace {

constexpr unsigned kGpus = 3;
constexpr int kTimeout = 10;
constexpr auto kPause = std::chrono::milliseconds(5);
char gpus[kGpus];  // their addresses are the handles

unsigned number_of(const void* device) {
  return static_cast<unsigned>(static_cast<const char*>(device) - gpus);
}

struct EventData {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// The next event, after the first `told` ones.
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

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct MemoryLine {
  unsigned long long used_mib = 0;
  unsigned pid = 0;
  unsigned long long process_mib = 0;
};

MemoryLine memory_of(void* device) {
  const char* path = std::getenv("FAKE_NVML_MEMORY");
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) {
    MemoryLine found;
    unsigned gpu = 0;
    const int fields =
        std::sscanf(line.c_str(), "%u %llu %u %llu", &gpu, &found.used_mib, &found.pid, &found.process_mib);
    if (fields >= 2 && &gpus[gpu] == device) return found;
  }
  return {};
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
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 80ULL << 30;
  memory->used = memory_of(device).used_mib << 20;
  memory->free = memory->total - memory->used;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  const MemoryLine line = memory_of(device);
  *count = line.pid != 0 ? 1 : 0;
  if (line.pid != 0) processes[0] = {line.pid, line.process_mib << 20, 0, 0};
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned size) {
  return std::snprintf(name, size, "Fake H100") > 0 ? 0 : 1;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  rates[0] = 50 + number_of(device);
  rates[1] = 10;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = 60 + number_of(device);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 300'000 + 1000 * number_of(device);
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  *mhz = which == 1 ? 1755 : 2619;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x4;
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
