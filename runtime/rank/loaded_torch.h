// The LibTorch that this process has loaded. Its major and minor version must be those that Muster was
// compiled with. The patch release may differ: the headers of 2.12.0 and 2.12.1, and of 2.14.0 and 2.14.1,
// differ only in their version number.
//
// If the process has loaded another version, the process prints a line about that and ends with exit code 1,
// before main(). If that version lacks a data symbol, the loader (ld.so) ends the program earlier, with its
// own "undefined symbol". libmuster_nccl.so and libmuster_mpi.so, which are loaded by name, are checked here
// too.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Versions have the format of LibTorch's TORCH_ABI_VERSION. The highest byte is the major version, and the
// next two bytes are the minor version and the patch.
struct TorchVersions {
  std::uint64_t built = 0;  // the version that Muster was compiled with
  std::uint64_t other = 0;
};
bool fit(const TorchVersions& versions);
std::string text_of_torch(std::uint64_t version);  // "2.12.1"
// Returns the path of the loaded libtorch_cpu.so.
std::string path_of_torch();

// A library of Muster that is loaded by name. If it could not be loaded, `handle` is null and `error` says
// why in one line.
struct Module {
  void* handle = nullptr;
  std::string error;
};
Module load_module(const char* name);

// Each library of Muster that is compiled against LibTorch exports a function of this name. The function
// returns the version of LibTorch that the library was compiled with.
inline constexpr const char* kModuleTorchFunction = "muster_module_torch";
using ModuleTorchFunction = std::uint64_t();

}  // namespace muster
