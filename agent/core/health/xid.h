// What the NVIDIA driver's XID numbers mean for a training: its program's error, or the GPU's.
//
// From NVIDIA's "XID Errors" (GPU deployment documentation). Values only.
#pragma once

#include <cstdint>
#include <string>

namespace muster::agent {

enum class XidClass {
  kProgram,   // the program did something wrong, or is being cleaned up after
  kHardware,  // the GPU, its memory or a link: the process that uses it ends with an error
  kLost,      // the GPU does not answer any more: the process that uses it may hang
};

struct Xid {
  XidClass fault_class = XidClass::kHardware;
  std::string text;  // "XID 79: GPU has fallen off the bus"
};

struct GpuFault {
  unsigned gpu = 0;  // NVML's number: that of CUDA too if all GPUs are alike
  Xid xid;
};

// An unknown number is taken for the hardware's: it was reported as critical.
Xid describe_xid(std::uint64_t number);

}  // namespace muster::agent
