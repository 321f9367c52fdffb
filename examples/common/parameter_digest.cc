#include "examples/common/parameter_digest.h"

#include <fmt/format.h>
#include <map>
#include <xxhash.h>

std::string parameter_digest(const torch::nn::Module& net) {
  std::map<std::string, torch::Tensor> by_name;
  for (const auto& parameter : net.named_parameters()) by_name[parameter.key()] = parameter.value();
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const auto& [name, parameter] : by_name) {
    const auto bytes = parameter.detach().cpu().contiguous();
    XXH3_128bits_update(&state, bytes.const_data_ptr(), bytes.nbytes());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}
