#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <muster/load_model.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "runtime/checkpoint/content.h"

namespace muster {

namespace {

constexpr std::string_view kModelPrefix = "model.";

struct SavedModel {
  std::uint64_t step = 0;
  TensorMap tensors;  // by their names in the module
};

Expected<SavedModel> read_model(const CheckpointDirectory& directory, CheckpointId id) {
  auto loaded = read_checkpoint(directory, id, 0);
  if (!loaded) return std::unexpected(loaded.error());
  SavedModel model{.step = id.step, .tensors = {}};
  for (auto& [name, tensor] : loaded->tensors)
    if (name.starts_with(kModelPrefix)) model.tensors.emplace(name.substr(kModelPrefix.size()), tensor);
  return model;
}

std::vector<CheckpointEntry> candidates(const CheckpointDirectory& directory) {
  auto entries = directory.candidates();
  if (!entries) throw std::runtime_error("load_model: " + entries.error().message());
  if (entries->empty()) throw std::runtime_error("load_model: there is no checkpoint in " + directory.path());
  return *std::move(entries);
}

SavedModel read_step(const CheckpointDirectory& directory, std::uint64_t step) {
  const auto entries = candidates(directory);
  const auto found =
      std::ranges::find(entries, step, [](const CheckpointEntry& entry) { return entry.id.step; });
  if (found == entries.end()) {
    std::vector<std::uint64_t> steps;
    for (const CheckpointEntry& entry : entries) steps.push_back(entry.id.step);
    throw std::runtime_error(fmt::format("load_model: {} has no checkpoint of step {}, but of {}",
                                         directory.path(), step, fmt::join(steps, ", ")));
  }
  auto model = read_model(directory, found->id);
  if (!model) throw std::runtime_error("load_model: " + model.error().message());
  return *std::move(model);
}

SavedModel read_newest(const CheckpointDirectory& directory) {
  for (;;) {
    const auto entries = candidates(directory);
    std::string why;
    for (const CheckpointEntry& entry : entries) {
      auto model = read_model(directory, entry.id);
      if (model) return *std::move(model);
      why = model.error().message();
      log::warning("load_model: cannot use the checkpoint of step {}: {}", entry.id.step, why);
    }
    // The training beside us may have written a newer one, and removed those that we wanted.
    if (candidates(directory).front().id == entries.front().id)
      throw std::runtime_error(
          fmt::format("load_model: no checkpoint in {} can be used; the last: {}", directory.path(), why));
  }
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

}  // namespace

LoadedModel load_model(torch::nn::Module& module, const std::string& path, const LoadModelOptions& options) {
  const CheckpointDirectory directory(path);
  const SavedModel saved =
      options.step ? read_step(directory, static_cast<std::uint64_t>(*options.step)) : read_newest(directory);
  LoadedModel result{.step = static_cast<std::int64_t>(saved.step), .missing = {}, .unexpected = {}};
  std::vector<std::string> misshapen;
  const TensorMap wanted = state_of(module);
  for (const auto& [name, tensor] : wanted) {
    const auto found = saved.tensors.find(name);
    if (found == saved.tensors.end())
      result.missing.push_back(name);
    else if (found->second.sizes() != tensor.sizes())
      misshapen.push_back(
          fmt::format("{} {} for {}", name, c10::str(found->second.sizes()), c10::str(tensor.sizes())));
  }
  for (const auto& [name, tensor] : saved.tensors)
    if (!wanted.contains(name)) result.unexpected.push_back(name);
  const bool differs = !result.missing.empty() || !result.unexpected.empty();
  if (!misshapen.empty() || (options.strict && differs))
    throw std::invalid_argument(
        fmt::format("load_model: the checkpoint of step {} in {} does not fit the module{}{}{}", saved.step,
                    path, list("of another shape", misshapen), list("it lacks", result.missing),
                    list("the module lacks", result.unexpected)));
  if (options.device) module.to(*options.device);
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(module))
    if (const auto found = saved.tensors.find(name); found != saved.tensors.end())
      at::Tensor(tensor).copy_(found->second);
  return result;
}

}  // namespace muster
