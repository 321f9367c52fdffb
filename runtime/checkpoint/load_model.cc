#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <muster/load_model.h>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "runtime/checkpoint/dtype.h"
#include "runtime/checkpoint/loading.h"

namespace muster {

namespace {

using TensorMap = std::map<std::string, at::Tensor>;

std::vector<CheckpointEntry> candidates(const CheckpointDirectory& directory) {
  auto entries = directory.candidates();
  if (!entries) throw std::runtime_error("load_model: " + entries.error().message());
  if (entries->empty()) throw std::runtime_error("load_model: there is no checkpoint in " + directory.path());
  return *std::move(entries);
}

CheckpointEntry find_step(const CheckpointDirectory& directory, std::uint64_t step) {
  const auto entries = candidates(directory);
  const auto found =
      std::ranges::find(entries, step, [](const CheckpointEntry& entry) { return entry.id.step; });
  if (found != entries.end()) return *found;
  std::vector<std::uint64_t> steps;
  for (const CheckpointEntry& entry : entries) steps.push_back(entry.id.step);
  throw std::runtime_error(fmt::format("load_model: {} has no checkpoint of step {}, but of {}",
                                       directory.path(), step, fmt::join(steps, ", ")));
}

// All of a module's parameters and buffers; handles on them.
TensorMap state_of(const torch::nn::Module& module) {
  TensorMap all;
  for (const auto& parameter : module.named_parameters()) all.emplace(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) all.emplace(buffer.key(), buffer.value());
  return all;
}

std::string list(std::string_view what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {}: {}", what, fmt::join(names, ", "));
}

class Loading {
 public:
  Loading(const CheckpointDirectory& directory, torch::nn::Module& module, const LoadModelOptions& options)
      : directory_(directory),
        module_(module),
        options_(options),
        prefix_(options.name.empty() ? "model." : fmt::format("module.{}.", options.name)) {}

  // An error: another checkpoint may do. std::invalid_argument: this one is whole and does not fit.
  Expected<LoadedModel> load(CheckpointId id) {
    auto manifest = read_contents(directory_, id);
    if (!manifest) return std::unexpected(manifest.error());
    LoadedState::Source source(directory_.path_of(id), *std::move(manifest),
                               {.convert = true, .rename = options_.rename});
    const LoadedModel result = compare(source, id);
    add_requests(source);
    if (Status there = source.check_files(); !there) return std::unexpected(there.error());
    if (options_.device) {
      module_.to(*options_.device);
      add_requests(source);
    }
    if (Status filled = source.fill(); !filled) return std::unexpected(filled.error());
    return result;
  }

  LoadedModel load_newest() {
    for (;;) {
      const auto entries = candidates(directory_);
      if (const Status readable = check_formats(entries); !readable)
        throw std::runtime_error("load_model: " + readable.error().message());
      std::string why;
      for (const CheckpointEntry& entry : entries) {
        auto loaded = load(entry.id);
        if (loaded) return *std::move(loaded);
        why = loaded.error().message();
        log::warning("load_model: cannot use the checkpoint of step {}: {}", entry.id.step, why);
      }
      // The training beside us may have written a newer one, and removed those that we wanted.
      if (candidates(directory_).front().id == entries.front().id)
        throw std::runtime_error(
            fmt::format("load_model: no checkpoint in {} can be used; the last: {}", directory_.path(), why));
    }
  }

 private:
  LoadedModel compare(const LoadedState::Source& source, CheckpointId id) const {
    LoadedModel result{.step = static_cast<std::int64_t>(id.step), .missing = {}, .unexpected = {}};
    std::vector<std::string> misshapen;
    std::vector<std::string> untyped;
    std::set<std::string> wanted;
    for (const auto& [name, tensor] : state_of(module_)) {
      const std::string saved_name = prefix_ + source.name_in_checkpoint(name);
      const SavedTensor* const saved = source.find(saved_name);
      wanted.insert(saved_name);
      if (saved == nullptr)
        result.missing.push_back(name);
      else if (!scalar_type_of(saved->dtype))
        untyped.push_back(name);
      else if (at::IntArrayRef(saved->shape) != tensor.sizes())
        misshapen.push_back(fmt::format("{} {} for {}", name, c10::str(at::IntArrayRef(saved->shape)),
                                        c10::str(tensor.sizes())));
    }
    for (const auto& [name, tensor] : source.manifest.shared.tensors)
      if (name.starts_with(prefix_) && !wanted.contains(name))
        result.unexpected.push_back(name.substr(prefix_.size()));
    const bool differs = !result.missing.empty() || !result.unexpected.empty();
    if (!misshapen.empty() || !untyped.empty() || (options_.strict && differs))
      throw std::invalid_argument(
          fmt::format("load_model: the checkpoint of step {} in {} does not fit the module{}{}{}{}", id.step,
                      directory_.path(), list("of another shape", misshapen),
                      list("of a type that torch has not", untyped), list("it lacks", result.missing),
                      list("the module lacks", result.unexpected)));
    return result;
  }

  void add_requests(LoadedState::Source& source) const {
    source.requests.clear();
    for (const auto& [name, tensor] : state_of(module_)) {
      const std::string saved_name = prefix_ + source.name_in_checkpoint(name);
      const SavedTensor* const saved = source.find(saved_name);
      if (saved != nullptr) source.requests.push_back({saved_name, saved, whole_of(saved->shape), tensor});
    }
  }

  const CheckpointDirectory& directory_;
  torch::nn::Module& module_;
  const LoadModelOptions& options_;
  std::string prefix_;
};

}  // namespace

LoadedModel load_model(torch::nn::Module& module, const std::string& path, const LoadModelOptions& options) {
  const CheckpointDirectory directory(path);
  Loading loading(directory, module, options);
  if (!options.step) return loading.load_newest();
  auto loaded = loading.load(find_step(directory, static_cast<std::uint64_t>(*options.step)).id);
  if (!loaded) throw std::runtime_error("load_model: " + loaded.error().message());
  return *std::move(loaded);
}

}  // namespace muster
