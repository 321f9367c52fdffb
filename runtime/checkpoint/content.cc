#include "runtime/checkpoint/content.h"

#include <algorithm>
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

Expected<ShardImage> gather_shard(const SavedState& state, int rank, int world_size) {
  Safetensors shard;
  const auto writers = writers_of(state.shared, world_size);
  for (const auto& [name, tensor] : state.shared) {
    if (writers.at(name) == rank) shard.tensors[name] = tensor;
  }
  for (const auto& [name, tensor] : state.of_rank) shard.tensors[std::string(kOfRankKey) + name] = tensor;
  if (rank == 0) {
    for (const auto& [name, tensor] : state.of_rank_0) shard.tensors[name] = tensor;
    for (const auto& [name, value] : state.values) shard.metadata[std::string(kValueKey) + name] = value;
  }
  return lay_out_safetensors(shard, state.finite);
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
