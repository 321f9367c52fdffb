#include "runtime/checkpoint/content.h"

#include <algorithm>
#include <cmath>
#include <torch/torch.h>
#include <vector>

#include "runtime/checkpoint/shard.h"

namespace muster {

namespace {

constexpr std::string_view kValueKey = "value:";
constexpr std::string_view kOfRankKey = "rank.";

// The largest first, each to the rank that has least to write so far.
std::map<std::string, int> writers_of(const TensorMap& shared, int world_size) {
  std::vector<std::pair<std::size_t, std::string>> by_size;
  for (const auto& [name, tensor] : shared) by_size.emplace_back(tensor.nbytes(), name);
  std::ranges::sort(by_size, std::greater());
  std::vector<std::size_t> bytes(static_cast<std::size_t>(world_size));
  std::map<std::string, int> writers;
  for (const auto& [size, name] : by_size) {
    const auto least = std::ranges::min_element(bytes);
    *least += size;
    writers[name] = static_cast<int>(least - bytes.begin());
  }
  return writers;
}

at::Tensor copy_to_host(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false))
      .copy_(tensor.detach());
}

template <class Float>
bool all_finite(const at::Tensor& tensor) {
  const auto* const values = static_cast<const Float*>(tensor.const_data_ptr());
  bool finite = true;  // without a branch, so that many are looked at at once
  for (std::int64_t i = 0; i < tensor.numel(); ++i) finite &= std::isfinite(static_cast<double>(values[i]));
  return finite;
}

// On the CPU and contiguous; of a type that training does not use for parameters: true.
bool is_finite(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kHalf: return all_finite<at::Half>(tensor);
    case at::kBFloat16: return all_finite<at::BFloat16>(tensor);
    case at::kFloat: return all_finite<float>(tensor);
    case at::kDouble: return all_finite<double>(tensor);
    case at::kComplexFloat: return all_finite<float>(at::view_as_real(tensor));
    default: return true;
  }
}

Status add_shard(LoadedState& state, const Safetensors& shard, bool mine) {
  for (const auto& [key, value] : shard.metadata) {
    if (key.starts_with(kValueKey)) state.values.emplace(key.substr(kValueKey.size()), value);
  }
  for (const auto& [name, tensor] : shard.tensors) {
    if (name.starts_with(kOfRankKey)) {
      if (mine) state.of_rank.emplace(name.substr(kOfRankKey.size()), tensor);
    } else if (!state.tensors.emplace(name, tensor).second) {
      return failure(ErrorCode::kCorrupt, "tensor {} is in two shards", name);
    }
  }
  return {};
}

}  // namespace

Safetensors gather_shard(const SavedState& state, int rank, int world_size) {
  Safetensors shard;
  const auto writers = writers_of(state.shared, world_size);
  for (const auto& [name, tensor] : state.shared) {
    if (writers.at(name) == rank) shard.tensors[name] = copy_to_host(tensor);
  }
  for (const auto& [name, tensor] : state.of_rank)
    shard.tensors[std::string(kOfRankKey) + name] = copy_to_host(tensor);
  if (rank != 0) return shard;
  for (const auto& [name, tensor] : state.of_rank_0) shard.tensors[name] = copy_to_host(tensor);
  for (const auto& [name, value] : state.values) shard.metadata[std::string(kValueKey) + name] = value;
  return shard;
}

Status check_all_finite(const Safetensors& shard, const std::set<std::string>& names) {
  for (const auto& [name, tensor] : shard.tensors) {
    if (names.contains(name) && !is_finite(tensor))
      return failure(ErrorCode::kCorrupt, "{} has a NaN or an infinity (.check_finite = false allows it)",
                     name);
  }
  return {};
}

Expected<LoadedState> read_checkpoint(const CheckpointDirectory& directory, CheckpointId id, int rank) {
  const auto manifest = directory.read_manifest(id);
  if (!manifest) return std::unexpected(manifest.error());
  LoadedState state;
  for (std::size_t writer = 0; writer < manifest->files.size(); ++writer) {
    auto shard = read_shard(directory.path_of(id), manifest->files[writer]);
    if (!shard) return std::unexpected(shard.error());
    if (Status added = add_shard(state, *shard, static_cast<int>(writer) == rank); !added)
      return std::unexpected(added.error());
  }
  return state;
}

}  // namespace muster
