#include <fmt/format.h>
#include <muster/checkpoint/train_state.h>
#include <muster/comm/collectives.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>
#include <utility>

#include "runtime/checkpoint/optimizer_part.h"
#include "runtime/data/loader/same_samples.h"

namespace muster {

namespace {

class ModulePart : public StatePart {
 public:
  ModulePart(std::string prefix, torch::nn::Module& module, bool own_buffers)
      : prefix_(std::move(prefix)), module_(module), own_buffers_(own_buffers) {}
  void save(SavedState& to) override {
    for (const auto& parameter : module_.named_parameters())
      to.shared(prefix_ + parameter.key(), parameter.value(), /*finite=*/true);
    // The checkpoint always has the buffers of rank 0. If the buffers are broadcast, all ranks load these. If
    // each rank has its own buffers, the checkpoint has them, too. Then only ranks that are new in a larger
    // world load the buffers of rank 0.
    for (const auto& buffer : module_.named_buffers()) {
      to.of_first(prefix_ + buffer.key(), buffer.value());
      if (own_buffers_) to.own(prefix_ + buffer.key(), buffer.value());
    }
  }
  void check(LoadedState& from) override {
    for (const auto& parameter : module_.named_parameters())
      from.fill(prefix_ + parameter.key(), parameter.value());
    for (const auto& buffer : module_.named_buffers()) {
      if (own_buffers_)
        from.fill_own(prefix_ + buffer.key(), buffer.value());
      else
        from.fill(prefix_ + buffer.key(), buffer.value());
    }
  }

 private:
  std::string prefix_;
  torch::nn::Module& module_;
  bool own_buffers_;  // each rank has its own buffers
};

// The part of the state with the pipeline stages of this rank. The parameters have the names that they have
// in the undivided model. Two stages can share the same weight.
class StagesPart : public StatePart {
 public:
  explicit StagesPart(std::vector<torch::nn::Module*> stages) : stages_(std::move(stages)) {}
  void save(SavedState& to) override {
    std::set<std::string> saved;
    for_each([&](const std::string& name, const at::Tensor& tensor, bool is_buffer) {
      if (!saved.insert(name).second) return;
      if (!is_buffer) return to.shared(name, tensor, /*finite=*/true);
      to.of_first(name, tensor);
      to.own(name, tensor);
    });
    to.own(std::string(kBuffers), at::scalar_tensor(buffers(), at::kLong));
  }
  // Each replica of the pipeline has its own buffers. If the program divides the model into the same stages
  // as before, each rank loads the buffers that it saved. With other stages, a rank that loads buffers of
  // several ranks could mix the buffers of two replicas. So then all ranks load the buffers of one replica.
  void check(LoadedState& from) override {
    const bool same_cut = has_own_of_these(from);
    for_each([&](const std::string& name, const at::Tensor& tensor, bool is_buffer) {
      if (is_buffer && same_cut)
        from.fill_own(name, tensor);
      else
        from.fill(name, tensor);
    });
  }

 private:
  static constexpr std::string_view kBuffers = "stages.buffers";  // the number of this rank's buffers

  template <class Use>
  void for_each(const Use& use) const {
    for (const torch::nn::Module* stage : stages_) {
      for (const auto& each : stage->named_parameters()) use("model." + each.key(), each.value(), false);
      for (const auto& each : stage->named_buffers()) use("model." + each.key(), each.value(), true);
    }
  }
  std::int64_t buffers() const {
    std::set<std::string> names;
    for_each([&](const std::string& name, const at::Tensor&, bool is_buffer) {
      if (is_buffer) names.insert(name);
    });
    return std::ssize(names);
  }
  bool has_own_of_these(LoadedState& from) const {
    bool has_all = from.has_own(std::string(kBuffers));
    for_each([&](const std::string& name, const at::Tensor&, bool is_buffer) {
      has_all = has_all && (!is_buffer || from.has_own(name));
    });
    return has_all && from.read_own(std::string(kBuffers)).item<std::int64_t>() == buffers();
  }

  std::vector<torch::nn::Module*> stages_;
};

class LoaderPart : public StatePart {
 public:
  LoaderPart(std::string key, AnyDataLoader& loader) : key_(std::move(key)), loader_(loader) {
    (void)loader.state();  // throws now, and not at the first save, if the loader cannot say where to go on
  }
  void save(SavedState& to) override {
    const DataLoaderState state = loader_.state();
    to.value_of_first(key_, nlohmann::json{{"epoch", state.epoch},
                                           {"consumed", state.consumed},
                                           {"dataset_size", state.dataset_size},
                                           {"order", state.order},
                                           {"ranks", state.ranks},
                                           {"batch_size", state.batch_size},
                                           {"global_batch_size", state.global_batch_size}}
                                .dump());
    if (state.of_shards.empty()) return;
    // Each rank that reads a stream has shards of its own. The checkpoint holds the positions in all shards,
    // so a job with any number of ranks can resume from it.
    const std::int64_t mine = std::ssize(state.of_shards);
    const at::Tensor rows = at::empty({mine, 2}, at::kLong);
    for (std::int64_t i = 0; i < mine; ++i) {
      rows.mutable_data_ptr<std::int64_t>()[2 * i] = state.epoch;
      rows.mutable_data_ptr<std::int64_t>()[2 * i + 1] = state.of_shards[static_cast<std::size_t>(i)];
    }
    to.slice(shards_key(), rows, {.shape = {state.shards, 2}, .offsets = {state.first_shard, 0}});
  }
  void check(LoadedState& from) override {
    place_ = parse(from);
    loader_.check_state(place_);
  }
  void load() override { loader_.load_state(place_); }

 private:
  DataLoaderState parse(LoadedState& from) const {
    const auto state = nlohmann::json::parse(from.value(key_));
    DataLoaderState parsed{.epoch = state.at("epoch"),
                           .consumed = state.at("consumed"),
                           .dataset_size = state.at("dataset_size"),
                           .order = state.at("order"),
                           .ranks = state.value("ranks", 0),
                           .batch_size = state.value("batch_size", std::int64_t{0}),
                           .global_batch_size = state.value("global_batch_size", std::int64_t{0})};
    if (from.has(shards_key())) add_shards(parsed, from.read(shards_key()));
    return parsed;
  }
  // `all` has the shape [shards, 2]. It has the epoch of each shard, and the number of batches that were read
  // from the shard in this epoch.
  void add_shards(DataLoaderState& parsed, const at::Tensor& all) const {
    if (all.scalar_type() != at::kLong || all.dim() != 2 || all.size(0) < 1 || all.size(1) != 2)
      throw std::invalid_argument(fmt::format("its {} is not a position in the data", shards_key()));
    const DataLoaderState here = loader_.state();
    parsed.shards = all.size(0);
    // If the number of shards has changed, this code keeps the rows of all shards. The loader then decides
    // whether it can go on.
    const bool known = parsed.shards == here.shards;
    parsed.first_shard = known ? here.first_shard : 0;
    const at::Tensor mine =
        known ? all.narrow(0, here.first_shard, std::ssize(here.of_shards)).contiguous() : all.contiguous();
    const auto* const rows = static_cast<const std::int64_t*>(mine.const_data_ptr());
    parsed.epoch = mine.select(1, 0).min().item<std::int64_t>();
    for (std::int64_t i = 0; i < mine.size(0); ++i) {
      const std::int64_t epoch = rows[2 * i], batches = rows[2 * i + 1];
      // Some ranks may have finished an epoch while other ranks are still in it. A rank that has finished the
      // epoch has not read a batch of the next epoch yet.
      if (epoch != parsed.epoch && (epoch != parsed.epoch + 1 || batches != 0))
        throw std::invalid_argument(
            fmt::format("its shards are in the epochs {} and {}", parsed.epoch, epoch));
      parsed.of_shards.push_back(epoch == parsed.epoch ? batches : -1);
    }
  }
  std::string shards_key() const { return key_ + ".shards"; }
  std::string key_;
  AnyDataLoader& loader_;
  DataLoaderState place_;
};

// Saves the default random generators of torch: that of the CPU, and those of all GPUs that the process sees.
// If the checkpoint has no generators of this rank, the generators are not changed.
class GeneratorPart : public StatePart {
 public:
  GeneratorPart() {
    generators_["rng.cpu"] = at::globalContext().defaultGenerator(at::kCPU);
    if (!at::hasCUDA()) return;
    for (c10::DeviceIndex device = 0; device < static_cast<c10::DeviceIndex>(at::getNumGPUs()); ++device)
      generators_[fmt::format("rng.cuda.{}", device)] =
          at::globalContext().defaultGenerator(at::Device(at::kCUDA, device));
  }
  void save(SavedState& to) override {
    for (auto& [name, generator] : generators_) {
      const std::lock_guard lock(generator.mutex());
      to.own(name, generator.get_state());
    }
  }
  void check(LoadedState& from) override {
    states_.clear();
    for (auto& [name, generator] : generators_) {
      if (!from.has_own(name)) continue;
      at::Tensor state = from.read_own(name);
      const std::lock_guard lock(generator.mutex());
      if (state.sizes() != generator.get_state().sizes())
        throw std::invalid_argument(fmt::format("{} is the state of another kind of generator", name));
      states_.emplace(name, std::move(state));
    }
  }
  void load() override {
    for (const auto& [name, state] : states_) {
      at::Generator& generator = generators_.at(name);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  std::map<std::string, at::Generator> generators_;
  std::map<std::string, at::Tensor> states_;
};

// A part of the state that wraps another part. It puts a prefix in front of all names that the other part
// chooses.
class NamedPart : public StatePart {
 public:
  NamedPart(std::string prefix, std::unique_ptr<StatePart> part)
      : prefix_(std::move(prefix)), part_(std::move(part)) {}
  void save(SavedState& to) override {
    to.prefix = prefix_;
    part_->save(to);
    to.prefix.clear();
  }
  void check(LoadedState& from) override {
    from.prefix = prefix_;
    part_->check(from);
    from.prefix.clear();
  }
  void load() override { part_->load(); }

 private:
  std::string prefix_;
  std::unique_ptr<StatePart> part_;
};

class BucketOrderPart : public StatePart {
 public:
  BucketOrderPart(std::string key, detail::BucketOrderAccess access)
      : key_(std::move(key)), access_(std::move(access)) {}
  void save(SavedState& to) override { to.value_of_first(key_, nlohmann::json(access_.get()).dump()); }
  void check(LoadedState& from) override {
    order_.reset();  // the checkpoint of a plain module has no order
    if (from.has_value(key_)) order_ = nlohmann::json::parse(from.value(key_)).get<detail::BucketNames>();
    if (order_) access_.check(*order_);
  }
  void load() override {
    if (order_) access_.set(*order_);
  }

 private:
  std::string key_;
  detail::BucketOrderAccess access_;
  std::optional<detail::BucketNames> order_;
};

}  // namespace

TrainState::TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, AnyDataLoader& loader,
                       bool own_buffers) {
  modules_.emplace_back("", &module);
  parts_.push_back(std::make_unique<ModulePart>("model.", module, own_buffers));
  parts_.push_back(make_optimizer_part("optimizer", modules_, optimizer));
  parts_.push_back(std::make_unique<LoaderPart>("loader", loader));
  parts_.push_back(std::make_unique<GeneratorPart>());
}
TrainState::TrainState(const std::vector<torch::nn::Module*>& stages, torch::optim::Optimizer& optimizer,
                       AnyDataLoader& loader) {
  for (torch::nn::Module* stage : stages) modules_.emplace_back("", stage);
  parts_.push_back(std::make_unique<StagesPart>(stages));
  parts_.push_back(make_optimizer_part("optimizer", modules_, optimizer));
  parts_.push_back(std::make_unique<LoaderPart>("loader", loader));
  parts_.push_back(std::make_unique<GeneratorPart>());
}
void TrainState::require_same_samples(const Group& group, const AnyDataLoader& loader) {
  require_one_share(all_gather_object(group, text_of_share(loader.rank(), loader.world_size())));
}
TrainState::TrainState() {
  parts_.push_back(std::make_unique<GeneratorPart>());
}
TrainState::TrainState(TrainState&&) noexcept = default;
TrainState::~TrainState() = default;

void TrainState::add_module(const std::string& name, torch::nn::Module& module, bool own_buffers) {
  if (name.contains('.'))  // its parameters' names could be those of another module
    throw std::invalid_argument(fmt::format("TrainState: '{}': a module's name may have no dot", name));
  add_named(name, std::make_unique<ModulePart>(fmt::format("module.{}.", name), module, own_buffers));
  modules_.emplace_back(name + ".", &module);
}
void TrainState::add(const std::string& name, torch::optim::Optimizer& optimizer) {
  if (name.contains('.'))
    throw std::invalid_argument(fmt::format("TrainState: '{}': an optimizer's name may have no dot", name));
  add_named(name, make_optimizer_part("optimizers." + name, modules_, optimizer));
}
void TrainState::add(const std::string& name, AnyDataLoader& loader) {
  add_named(name, std::make_unique<LoaderPart>("loaders." + name, loader));
}
void TrainState::add(const std::string& name, std::unique_ptr<StatePart> part) {
  add_named(name, std::make_unique<NamedPart>(fmt::format("user.{}.", name), std::move(part)));
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
