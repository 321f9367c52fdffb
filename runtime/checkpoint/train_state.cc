#include <fmt/core.h>
#include <muster/train_state.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "runtime/checkpoint/optimizer_part.h"
#include "runtime/checkpoint/state_part.h"

namespace muster {

namespace {

class ModulePart : public StatePart {
 public:
  ModulePart(std::string prefix, torch::nn::Module& module, bool own_buffers)
      : prefix_(std::move(prefix)), module_(module), own_buffers_(own_buffers) {}
  void save(SavedState& to) override {
    for (const auto& parameter : module_.named_parameters()) {
      to.shared[prefix_ + parameter.key()] = parameter.value();
      to.finite.insert(prefix_ + parameter.key());
    }
    // Where buffers are broadcast, rank 0's are the ones that the next forward pass begins with. Elsewhere
    // they also serve the ranks of a larger world.
    for (const auto& buffer : module_.named_buffers()) {
      to.of_rank_0[prefix_ + buffer.key()] = buffer.value();
      if (own_buffers_) to.of_rank[prefix_ + buffer.key()] = buffer.value();
    }
  }
  void check(const LoadedState& from) const override {
    each(from, [](const at::Tensor&, const at::Tensor&) {});
  }
  void load(const LoadedState& from) override {
    const at::NoGradGuard no_grad;
    each(from, [](const at::Tensor& tensor, const at::Tensor& saved) { tensor.copy_(saved); });
  }

 private:
  template <class Function>
  void each(const LoadedState& from, Function function) const {
    for (const auto& parameter : module_.named_parameters())
      function(parameter.value(), from.tensor(prefix_ + parameter.key(), parameter.value()));
    for (const auto& buffer : module_.named_buffers()) {
      const std::string name = prefix_ + buffer.key();
      function(buffer.value(),
               own_buffers_ ? from.own_tensor(name, buffer.value()) : from.tensor(name, buffer.value()));
    }
  }
  std::string prefix_;
  torch::nn::Module& module_;
  bool own_buffers_;  // each rank has its own
};

class LoaderPart : public StatePart {
 public:
  explicit LoaderPart(AnyDataLoader& loader) : loader_(loader) {
    (void)loader.state();  // throws now, and not at the first save, if the loader has no place to go on from
  }
  void save(SavedState& to) override {
    const DataLoaderState state = loader_.state();
    to.values["loader"] = nlohmann::json{{"epoch", state.epoch},
                                         {"consumed", state.consumed},
                                         {"dataset_size", state.dataset_size},
                                         {"order", state.order},
                                         {"ranks", state.ranks},
                                         {"batch_size", state.batch_size},
                                         {"global_batch_size", state.global_batch_size}}
                              .dump();
    if (state.of_workers.empty()) return;
    // Where the ranks read shards of their own, each has its own place.
    std::vector<std::int64_t> place{state.epoch};
    place.insert(place.end(), state.of_workers.begin(), state.of_workers.end());
    to.of_rank[kOwnPlace] = torch::tensor(place);
  }
  void check(const LoadedState& from) const override { loader_.check_state(parse(from)); }
  void load(const LoadedState& from) override { loader_.load_state(parse(from)); }

 private:
  static DataLoaderState parse(const LoadedState& from) {
    const auto state = nlohmann::json::parse(from.value("loader"));
    DataLoaderState parsed{.epoch = state.at("epoch"),
                           .consumed = state.at("consumed"),
                           .dataset_size = state.at("dataset_size"),
                           .order = state.at("order"),
                           .ranks = state.value("ranks", 0),
                           .batch_size = state.value("batch_size", std::int64_t{0}),
                           .global_batch_size = state.value("global_batch_size", std::int64_t{0})};
    const auto own = from.of_rank.find(kOwnPlace);
    if (own == from.of_rank.end()) return parsed;
    const at::Tensor& place = own->second;
    if (place.scalar_type() != at::kLong || place.dim() != 1 || place.size(0) < 1)
      throw std::invalid_argument(fmt::format("its {} is not a place in the data", kOwnPlace));
    const at::Tensor whole = place.contiguous();
    const auto* const values = static_cast<const std::int64_t*>(whole.const_data_ptr());
    parsed.epoch = values[0];
    parsed.of_workers.assign(values + 1, values + place.size(0));
    return parsed;
  }
  static constexpr const char* kOwnPlace = "loader.of_workers";
  AnyDataLoader& loader_;
};

// The default generator of the CPU, and of the GPU that holds the model. A rank that the checkpoint does not
// know keeps its own.
class GeneratorPart : public StatePart {
 public:
  explicit GeneratorPart(const torch::nn::Module& module) {
    generators_["rng.cpu"] = at::globalContext().defaultGenerator(at::kCPU);
    for (const at::Tensor& parameter : module.parameters()) {
      if (!parameter.is_cuda()) continue;
      generators_["rng.cuda"] = at::globalContext().defaultGenerator(parameter.device());
      break;
    }
  }
  void save(SavedState& to) override {
    for (auto& [name, generator] : generators_) {
      const std::lock_guard lock(generator.mutex());
      to.of_rank[name] = generator.get_state();
    }
  }
  void check(const LoadedState& from) const override {
    for (const auto& [name, generator] : generators_) {
      const auto saved = from.of_rank.find(name);
      if (saved != from.of_rank.end() && saved->second.sizes() != generator.get_state().sizes()) {
        throw std::invalid_argument(fmt::format("{} is the state of another kind of generator", name));
      }
    }
  }
  void load(const LoadedState& from) override {
    for (auto& [name, generator] : generators_) {
      const auto saved = from.of_rank.find(name);
      if (saved == from.of_rank.end()) continue;
      const std::lock_guard lock(generator.mutex());
      generator.set_state(saved->second.clone());
    }
  }

 private:
  std::map<std::string, at::Generator> generators_;
};

class BucketOrderPart : public StatePart {
 public:
  BucketOrderPart(std::string key, detail::BucketOrderAccess access)
      : key_(std::move(key)), access_(std::move(access)) {}
  void save(SavedState& to) override { to.values[key_] = nlohmann::json(access_.get()).dump(); }
  void check(const LoadedState& from) const override {
    if (const auto order = parse(from)) access_.check(*order);
  }
  void load(const LoadedState& from) override {
    if (const auto order = parse(from)) access_.set(*order);
  }

 private:
  // A checkpoint of a plain module has none.
  std::optional<BucketOrder> parse(const LoadedState& from) const {
    if (!from.values.contains(key_)) return std::nullopt;
    return nlohmann::json::parse(from.value(key_)).get<BucketOrder>();
  }
  std::string key_;
  detail::BucketOrderAccess access_;
};

}  // namespace

TrainState::TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, AnyDataLoader& loader,
                       bool own_buffers) {
  parts_.push_back(std::make_unique<ModulePart>("model.", module, own_buffers));
  parts_.push_back(make_optimizer_part(module, optimizer));
  parts_.push_back(std::make_unique<LoaderPart>(loader));
  parts_.push_back(std::make_unique<GeneratorPart>(module));
}
TrainState::TrainState(TrainState&&) noexcept = default;
TrainState::~TrainState() = default;

void TrainState::add_module(const std::string& name, torch::nn::Module& module, bool own_buffers) {
  if (name.contains('.'))  // its parameters could be taken for those of another one's
    throw std::invalid_argument(fmt::format("TrainState: '{}': a module's name may have no dot", name));
  add_named(name, std::make_unique<ModulePart>(fmt::format("module.{}.", name), module, own_buffers));
}
void TrainState::add_named(const std::string& name, std::unique_ptr<StatePart> part) {
  if (!names_.insert(name).second)
    throw std::invalid_argument(fmt::format("TrainState: '{}' has been added already", name));
  parts_.push_back(std::move(part));
}
void TrainState::add_bucket_order(const std::string& key, detail::BucketOrderAccess access) {
  parts_.push_back(std::make_unique<BucketOrderPart>(key, std::move(access)));
}

}  // namespace muster
