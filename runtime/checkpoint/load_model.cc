#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <map>
#include <muster/checkpoint/load_model.h>
#include <set>
#include <stdexcept>
#include <sys/stat.h>
#include <torch/torch.h>
#include <type_traits>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/checkpoint/catalog.h"
#include "common/checkpoint/direct_file.h"
#include "common/checkpoint/reader.h"
#include "runtime/checkpoint/dtype.h"
#include "runtime/checkpoint/loading.h"
#include "runtime/data/datasets/file_kind.h"

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

CheckpointId find_best(const CheckpointDirectory& directory) {
  const auto catalog = read_catalog(directory);
  if (!catalog) throw std::runtime_error("load_model: " + catalog.error().message());
  const auto best = best_of(*catalog, {});
  if (!best)
    throw std::runtime_error(fmt::format(
        "load_model: {}: {}", directory.path(),
        best.error().code() == ErrorCode::kInvalidArgument
            ? "its checkpoints do not say which of them is the best; set CheckpointerOptions::best_by"
            : best.error().message()));
  return *best;
}

// Returns all of a module's parameters and buffers, by name.
TensorMap state_of(const torch::nn::Module& module) {
  TensorMap all;
  for (const auto& parameter : module.named_parameters()) all.emplace(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) all.emplace(buffer.key(), buffer.value());
  return all;
}

std::string list(std::string_view what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {}: {}", what, fmt::join(names, ", "));
}

// The tensors that a file or a checkpoint offers for loading. Their names are those in a module.
struct Offered {
  std::string where;
  struct Kind {
    Dtype dtype{};
    Extents shape;
  };
  std::map<std::string, Kind> tensors;
};

// Compares the offered tensors with the module. Throws std::invalid_argument if they do not fit.
LoadedModel compare(const Offered& offered, const torch::nn::Module& module,
                    const LoadModelOptions& options) {
  LoadedModel result;
  std::vector<std::string> misshapen;
  std::vector<std::string> untyped;
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : state_of(module)) {
    const std::string saved_name = renamed(name, options.rename);
    const auto saved = offered.tensors.find(saved_name);
    wanted.insert(saved_name);
    if (saved == offered.tensors.end())
      result.missing.push_back(name);
    else if (!scalar_type_of(saved->second.dtype))
      untyped.push_back(name);
    else if (at::IntArrayRef(saved->second.shape) != tensor.sizes())
      misshapen.push_back(fmt::format("{} {} for {}", name, c10::str(at::IntArrayRef(saved->second.shape)),
                                      c10::str(tensor.sizes())));
  }
  for (const auto& [name, kind] : offered.tensors)
    if (!wanted.contains(name)) result.unexpected.push_back(name);
  const bool differs = !result.missing.empty() || !result.unexpected.empty();
  if (!misshapen.empty() || !untyped.empty() || (options.strict && differs))
    throw std::invalid_argument(
        fmt::format("load_model: {} does not fit the module{}{}{}{}", offered.where,
                    list("of another shape", misshapen), list("of a type that torch does not have", untyped),
                    list("it lacks", result.missing), list("the module lacks", result.unexpected)));
  return result;
}

class ModelLoading {
 public:
  ModelLoading(const CheckpointDirectory& directory, torch::nn::Module& module,
               const LoadModelOptions& options)
      : directory_(directory),
        module_(module),
        options_(options),
        prefix_(options.name.empty() ? "model." : fmt::format("module.{}.", options.name)) {}

  // Loads a checkpoint. If it cannot be used, returns an error; then another checkpoint may be usable. If it
  // can be read but does not fit the module, throws std::invalid_argument.
  Expected<LoadedModel> load(CheckpointId id) {
    auto manifest = read_contents(directory_, id);
    if (!manifest) return std::unexpected(manifest.error());
    LoadedState::Source source(directory_.path_of(id), *std::move(manifest), {.convert = true});
    LoadedModel result = compare(offered_by(source, id), module_, options_);
    result.step = static_cast<std::int64_t>(id.step);
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
      // If there is now a newer checkpoint, this code tries again. A training that still runs may have
      // written the newer checkpoint, and may have removed the checkpoints that this code has tried.
      if (candidates(directory_).front().id == entries.front().id)
        throw std::runtime_error(
            fmt::format("load_model: no checkpoint in {} can be used; the last: {}", directory_.path(), why));
    }
  }

 private:
  Offered offered_by(const LoadedState::Source& source, CheckpointId id) const {
    Offered offered{.where = fmt::format("the checkpoint of step {} in {}", id.step, directory_.path()),
                    .tensors = {}};
    for (const auto& [name, tensor] : source.manifest.shared.tensors)
      if (name.starts_with(prefix_))
        offered.tensors[name.substr(prefix_.size())] = {.dtype = tensor.dtype, .shape = tensor.shape};
    return offered;
  }

  void add_requests(LoadedState::Source& source) const {
    source.requests.clear();
    for (const auto& [name, tensor] : state_of(module_)) {
      const std::string saved_name = prefix_ + renamed(name, options_.rename);
      const SavedTensor* const saved = source.find(saved_name);
      if (saved != nullptr) source.requests.push_back({saved_name, saved, whole_of(saved->shape), tensor});
    }
  }

  const CheckpointDirectory& directory_;
  torch::nn::Module& module_;
  const LoadModelOptions& options_;
  std::string prefix_;
};

class WeightsFile {
 public:
  explicit WeightsFile(const std::string& path)
      : path_(path), fd_(or_throw(open_file(path, {}))), header_(or_throw(header_of(path))) {}

  LoadedModel load(torch::nn::Module& module, const LoadModelOptions& options) const {
    Offered offered{.where = path_, .tensors = {}};
    std::map<std::string, const HeaderTensor*> by_name;
    for (const HeaderTensor& tensor : header_.tensors) {
      offered.tensors[tensor.name] = {.dtype = tensor.dtype, .shape = tensor.shape};
      by_name[tensor.name] = &tensor;
    }
    LoadedModel result = compare(offered, module, options);
    if (options.device) module.to(*options.device);
    const torch::NoGradGuard no_grad;
    for (const auto& [name, target] : state_of(module)) {
      const auto saved = by_name.find(renamed(name, options.rename));
      if (saved == by_name.end()) continue;
      const at::Tensor read = at::empty(saved->second->shape, *scalar_type_of(saved->second->dtype));
      or_throw(read_fully(fd_.get(), static_cast<char*>(read.mutable_data_ptr()), saved->second->size_bytes,
                          saved->second->begin_bytes, path_));
      target.copy_(read);
    }
    return result;
  }

 private:
  static Expected<SafetensorsHeader> header_of(const std::string& path) {
    const Status usable = check_is_file_of(path, {FileKind::kSafetensors});
    if (!usable)
      return failure(usable.error().code(),
                     "{}; files of weights are written by safetensors.torch.save_file()",
                     usable.error().message());
    return read_header(path);
  }
  template <class Value>
  static Value or_throw(Expected<Value> read) {
    if (!read) throw std::runtime_error("load_model: " + read.error().message());
    if constexpr (!std::is_void_v<Value>) return *std::move(read);
  }

  std::string path_;
  UniqueFd fd_;
  SafetensorsHeader header_;
};

bool is_file(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

LoadedModel load_model(torch::nn::Module& module, const std::string& path, const LoadModelOptions& options) {
  if (path.empty())
    throw std::invalid_argument(
        "load_model: the path is empty; it must name a checkpoint directory or a file of weights");
  if (std::error_code error; !std::filesystem::exists(path, error) && !error)
    throw std::runtime_error("load_model: " + path +
                             ": there is no checkpoint directory and no file of this name");
  if (is_file(path)) {
    if (options.step || options.best || !options.name.empty())
      throw std::invalid_argument("load_model: " + path +
                                  " is a file of weights; step, best and name are for checkpoints");
    return WeightsFile(path).load(module, options);
  }
  const CheckpointDirectory directory(path);
  ModelLoading loading(directory, module, options);
  if (options.best && options.step)
    throw std::invalid_argument("load_model: step and best exclude each other");
  if (!options.best && !options.step) return loading.load_newest();
  auto loaded =
      loading.load(options.best ? find_best(directory)
                                : find_step(directory, static_cast<std::uint64_t>(*options.step)).id);
  if (!loaded) throw std::runtime_error("load_model: " + loaded.error().message());
  return *std::move(loaded);
}

}  // namespace muster
