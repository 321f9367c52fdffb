#include "examples/fashion_mnist/evaluation.h"

#include <fmt/core.h>
#include <map>
#include <xxhash.h>

namespace {

constexpr std::int64_t kBatchSize = 500;

}  // namespace

double test_accuracy(NetImpl& net, const muster::Dataset<>& images, const muster::Job& job) {
  const torch::NoGradGuard no_grad;
  net.eval();
  muster::Accuracy accuracy(job);
  std::vector<std::int64_t> indices;
  for (std::int64_t index = job.rank(); index < images.size(); index += job.world_size()) {
    indices.push_back(index);
    const bool last = index + job.world_size() >= images.size();
    if (std::ssize(indices) < kBatchSize && !last) continue;
    const muster::Batch batch = images.get_batch(indices);
    accuracy.update(net.forward(batch.data.to(job.device())), batch.target);
    indices.clear();
  }
  net.train();
  return accuracy.compute();
}

std::string parameter_digest(const NetImpl& net) {
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
