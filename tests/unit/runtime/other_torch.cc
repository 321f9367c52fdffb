#include <cstdint>

namespace {
constexpr std::uint64_t kVersion = std::uint64_t{2} << 56 | std::uint64_t{99} << 48;
}

extern "C" std::uint64_t muster_module_torch() {
  return kVersion;
}
extern "C" std::uint64_t aoti_torch_abi_version() {
  return kVersion;
}
