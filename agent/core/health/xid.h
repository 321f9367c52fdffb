// Says for each XID number of the NVIDIA driver whether the training's program or the GPU is at fault.
//
// Source: NVIDIA's "XID Errors" (GPU deployment documentation).
#pragma once

#include <cstdint>
#include <string>

namespace muster::agent {

enum class XidClass {
  kProgram,   // an error of the program, or the clean-up after one
  kHardware,  // the GPU, its memory or a link: the process that uses it ends with an error
  kLost,      // the GPU no longer answers: the process that uses it may hang
};

struct Xid {
  XidClass fault_class = XidClass::kHardware;
  std::string text;  // "XID 79: GPU has fallen off the bus"
};

struct GpuFault {
  unsigned gpu = 0;  // NVML's number; equal to CUDA's if all GPUs are alike
  Xid xid;
};

// Returns the meaning of an XID number. NVML reports only critical ones, so an unknown number counts as a
// hardware error.
Xid describe_xid(std::uint64_t number);

}  // namespace muster::agent
