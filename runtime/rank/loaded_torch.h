// The LibTorch that this process has loaded, which must be the one that Muster was compiled with, up to the
// patch release: the headers of 2.12.0 and 2.12.1, and of 2.14.0 and 2.14.1, differ in nothing but their
// number.
//
// A program that has loaded another one says so in one line and ends with exit code 1, before main(). Where
// data symbols of LibTorch are missing, the loader (ld.so) ends the program before that, with its own
// "undefined symbol". libmuster_nccl.so and libmuster_mpi.so, which are loaded by name, are asked here too.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Versions are in the format of LibTorch's TORCH_ABI_VERSION: the highest three bytes are major, minor,
// patch.
struct TorchVersions {
  std::uint64_t built = 0;  // Muster was compiled with it
  std::uint64_t other = 0;
};
bool fit(const TorchVersions& versions);
std::string text_of_torch(std::uint64_t version);  // "2.12.1"
// Of the libtorch_cpu.so that is loaded.
std::string path_of_torch();

// A library of Muster's that is loaded by its name, or one line that says why it is not.
struct Module {
  void* handle = nullptr;
  std::string error;
};
Module load_module(const char* name);

// Each of these libraries has a function of this name: the version that the library was compiled with.
inline constexpr const char* kModuleTorchFunction = "muster_module_torch";
using ModuleTorchFunction = std::uint64_t();

}  // namespace muster
