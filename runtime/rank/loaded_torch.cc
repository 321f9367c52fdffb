#include "runtime/rank/loaded_torch.h"

#include <cstdio>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "runtime/rank/uncaught.h"
#include "runtime/torch_versions.h"

// Every version of libtorch_cpu that Muster compiles with has this function. The compiled models of
// AOTInductor call it.
extern "C" std::uint64_t aoti_torch_abi_version();

namespace muster {
namespace {

std::string file_of(void* symbol) {
  Dl_info found{};
  return dladdr(symbol, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "?";
}

// Runs before the constructors of static objects, which could call functions that the loaded LibTorch lacks.
[[gnu::constructor(101)]] void refuse_another_torch() {
  const TorchVersions versions{.built = compat::kTorchVersion, .other = aoti_torch_abi_version()};
  if (fit(versions)) return;
  const std::string message = fmt::format(
      "this program was built with LibTorch {0}, but has loaded LibTorch {1} from {2}: "
      "point LD_LIBRARY_PATH to {0}, or build Muster and this program with {1}",
      text_of_torch(versions.built), text_of_torch(versions.other), path_of_torch());
  std::fprintf(stderr, "muster: %s\n", message.c_str());
  write_error_file(message, {.final = true});
  _exit(1);
}

}  // namespace

bool fit(const TorchVersions& versions) {
  constexpr int kBitsBelowMinor = 48;
  return versions.built >> kBitsBelowMinor == versions.other >> kBitsBelowMinor;
}

std::string text_of_torch(std::uint64_t version) {
  return fmt::format("{}.{}.{}", version >> 56 & 0xff, version >> 48 & 0xff, version >> 40 & 0xff);
}

std::string path_of_torch() {
  return file_of(reinterpret_cast<void*>(&aoti_torch_abi_version));
}

Module load_module(const char* name) {
  // RTLD_GLOBAL is needed here: Open MPI's modules use symbols of Open MPI, and LibTorch uses symbols of
  // CUDA.
  Module loaded{.handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL), .error = {}};
  if (loaded.handle == nullptr) {
    loaded.error = dlerror();
    if (loaded.error.contains("undefined symbol"))
      loaded.error += fmt::format(
          " (its Muster or LibTorch differs from this program's, which was built with LibTorch {})",
          text_of_torch(compat::kTorchVersion));
    return loaded;
  }
  auto* const built_with = reinterpret_cast<ModuleTorchFunction*>(dlsym(loaded.handle, kModuleTorchFunction));
  if (built_with == nullptr)
    return {.handle = nullptr, .error = fmt::format("{} belongs to another version of Muster", name)};
  const TorchVersions versions{.built = compat::kTorchVersion, .other = built_with()};
  if (!fit(versions))
    return {.handle = nullptr,
            .error = fmt::format("{} was built with LibTorch {}, but this program with {}: "
                                 "use both from the same installation of Muster",
                                 file_of(reinterpret_cast<void*>(built_with)), text_of_torch(versions.other),
                                 text_of_torch(versions.built))};
  return loaded;
}

}  // namespace muster
