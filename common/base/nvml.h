// Loads the NVIDIA driver's library at run time, if it is installed. Declares the functions that Muster uses,
// because nvml.h may not be installed.
//
// The library stays loaded. A call can take seconds. If a GPU is lost, a call may never return. So make the
// calls on separate threads, and let nothing wait for these threads.
#pragma once

#include <type_traits>

namespace muster {

struct Nvml {
  using Device = void*;
  using EventSet = void*;
  struct EventData {
    Device device;
    unsigned long long type;
    unsigned long long data;
    unsigned gpu_instance;
    unsigned compute_instance;
  };
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
  struct Utilization {  // in percent, over the last 1/6 s to 1 s
    unsigned gpu;
    unsigned memory;
  };
  static constexpr int kSmClock = 1;
  static constexpr int kMemoryClock = 2;
  static constexpr int kSuccess = 0;
  static constexpr int kTimeout = 10;
  static constexpr int kGpuIsLost = 15;
  static constexpr unsigned long long kNotAvailable = ~0ULL;

  // A pointer is null if the library does not have the function.
  int (*initialize)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*create_set)(EventSet*) = nullptr;
  int (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  int (*wait)(EventSet, EventData*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*processes)(Device, unsigned*, Process*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;  // sensor 0, in degrees Celsius
  int (*power)(Device, unsigned*) = nullptr;             // mW
  int (*clock)(Device, int, unsigned*) = nullptr;        // MHz
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;

  static Nvml load();
  // Initializes the library. Returns true if it is loaded and count() and handle() can be called.
  bool begin() const {
    return initialize != nullptr && count != nullptr && handle != nullptr && initialize() == kSuccess;
  }
};

}  // namespace muster
