#include "runtime/comm/nccl/backend.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/wire/nccl_variables.h"
#include "runtime/comm/nccl/failure.h"

namespace muster {
namespace {

#ifdef MUSTER_NCCL
constexpr const char* kLibrary = "libmuster_nccl.so";
#else
constexpr const char* kLibrary = nullptr;
#endif

const Module& library() {
  static const Module loaded = load_nccl(
      gpu_visible(access("/dev/nvidiactl", F_OK) == 0, std::getenv("CUDA_VISIBLE_DEVICES")), kLibrary);
  return loaded;
}

[[gnu::constructor]] void load_before_main() {
  library();
}

}  // namespace

bool gpu_visible(bool driver_present, const char* cuda_visible_devices) {
  if (!driver_present) return false;
  if (cuda_visible_devices == nullptr) return true;
  const std::string_view devices = cuda_visible_devices;
  return !devices.empty() && !devices.starts_with('-') && devices != "NoDevFiles";
}

Module load_nccl(bool visible, const char* name) {
  Module loaded;
  if (!visible) return loaded;
  if (name == nullptr) {
    loaded.error = "a GPU is visible, but Muster was built with a LibTorch without CUDA";
    return loaded;
  }
  // An installed library knows no folder of LibTorch. If this fails, the next load says why.
  dlopen((std::filesystem::path(path_of_torch()).parent_path() / "libtorch_cuda.so").c_str(),
         RTLD_NOW | RTLD_GLOBAL);
  loaded = load_module(name);
  if (loaded.handle == nullptr)
    loaded.error = "a GPU is visible, but its libraries cannot be loaded: " + loaded.error;
  return loaded;
}

bool nccl_loaded() {
  if (!library().error.empty())
    throw std::runtime_error(library().error + " (to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)");
  return library().handle != nullptr;
}

std::string refusal_of_nccl(const NcclOptions& options) {
  for (const auto& [name, value] : {std::pair("min_ctas", options.min_ctas), {"max_ctas", options.max_ctas}})
    if (value && *value < 1) return fmt::format("nccl: {} is {}; it must be 1 or more", name, *value);
  if (options.min_ctas && options.max_ctas && *options.min_ctas > *options.max_ctas)
    return fmt::format("nccl: min_ctas is {}, above max_ctas, which is {}", *options.min_ctas,
                       *options.max_ctas);
  return {};
}

std::string text_of(const NcclOptions& options) {
  std::vector<std::string> said;
  if (options.high_priority_stream) said.emplace_back("high_priority_stream");
  if (options.blocking) said.push_back(fmt::format("blocking {}", *options.blocking));
  if (options.min_ctas) said.push_back(fmt::format("min_ctas {}", *options.min_ctas));
  if (options.max_ctas) said.push_back(fmt::format("max_ctas {}", *options.max_ctas));
  if (!options.net_name.empty()) said.push_back(fmt::format("net_name '{}'", options.net_name));
  if (options.split) said.emplace_back("split");
  return fmt::format("{{{}}}", fmt::join(said, ", "));
}

namespace {

template <class Function>
Function* function_of_library(const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library().handle, name));
  CHECK(function != nullptr, "libmuster_nccl.so has no {}", name);
  return function;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request) {
  request.on_timeout = tell_entered;
  function_of_library<NcclFunction>(kNcclFunction)(&request);
  return request.backend;
}

std::string nccl_record() {
  std::string record;
  if (library().handle != nullptr) function_of_library<NcclRecordFunction>(kNcclRecordFunction)(&record);
  return record;
}

bool nccl_ends_groups(const char* value, const char* chosen) {
  if (value == nullptr || *value == '\0') return true;
  if (chosen == nullptr) return false;
  const auto names = split(chosen, ',');
  return std::ranges::find(names, wire::kNcclErrorHandling) != names.end();
}

void let_nccl_end_groups() {
  constexpr const char* kCleanUpOnly = "2";  // c10d::ErrorHandlingMode
  if (library().handle != nullptr &&
      nccl_ends_groups(std::getenv(wire::kNcclErrorHandling), std::getenv(wire::kChosenVariables)))
    setenv(wire::kNcclErrorHandling, kCleanUpOnly, 1);
}

}  // namespace muster
