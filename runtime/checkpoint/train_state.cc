#include <cstdlib>
#include <fmt/core.h>
#include <muster/train_state.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/checkpoint/optimizer_part.h"
#include "runtime/checkpoint/state_part.h"

namespace muster {

namespace {

class ModelPart : public StatePart {
 public:
  explicit ModelPart(torch::nn::Module& module) : module_(module) {}
  void save(SavedState& to) override {
    for (const auto& parameter : module_.named_parameters())
      to.shared["model." + parameter.key()] = parameter.value();
    // Between two forward passes only rank 0's buffers are the ones that will be broadcast.
    for (const auto& buffer : module_.named_buffers()) to.of_rank_0["model." + buffer.key()] = buffer.value();
  }
  void check(const LoadedState& from) const override {
    each([&](const std::string& name, const at::Tensor& tensor) { from.tensor(name, tensor.sizes()); });
  }
  void load(const LoadedState& from) override {
    const at::NoGradGuard no_grad;
    each([&](const std::string& name, const at::Tensor& tensor) {
      tensor.copy_(from.tensor(name, tensor.sizes()));
    });
  }

 private:
  template <class Function>
  void each(Function function) const {
    for (const auto& parameter : module_.named_parameters())
      function("model." + parameter.key(), parameter.value());
    for (const auto& buffer : module_.named_buffers()) function("model." + buffer.key(), buffer.value());
  }
  torch::nn::Module& module_;
};

class LoaderPart : public StatePart {
 public:
  explicit LoaderPart(DataLoader& loader) : loader_(loader) {}
  void save(SavedState& to) override {
    const DataLoaderState state = loader_.state();
    to.values["loader"] = nlohmann::json{
        {"epoch", state.epoch},
        {"batch", state.batch},
        {"batch_size", state.batch_size},
        {"world_size", state.world_size},
        {"dataset_size", state.dataset_size},
        {"shuffle", state.shuffle},
        {"seed", state.seed}}.dump();
  }
  void check(const LoadedState& from) const override { loader_.check_state(parse(from)); }
  void load(const LoadedState& from) override { loader_.load_state(parse(from)); }

 private:
  static DataLoaderState parse(const LoadedState& from) {
    const auto state = nlohmann::json::parse(from.value("loader"));
    return {.epoch = state.at("epoch"),
            .batch = state.at("batch"),
            .batch_size = state.at("batch_size"),
            .world_size = state.at("world_size"),
            .dataset_size = state.at("dataset_size"),
            .shuffle = state.at("shuffle"),
            .seed = state.at("seed")};
  }
  DataLoader& loader_;
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

using BucketOrder = std::vector<std::vector<std::string>>;

class BucketOrderPart : public StatePart {
 public:
  BucketOrderPart(std::function<BucketOrder()> get, std::function<void(const BucketOrder&)> set)
      : get_(std::move(get)), set_(std::move(set)) {}
  void save(SavedState& to) override { to.values["bucket_order"] = nlohmann::json(get_()).dump(); }
  void check(const LoadedState&) const override {}
  void load(const LoadedState& from) override {
    // A checkpoint of a single process has none.
    if (!from.values.contains("bucket_order")) return;
    set_(nlohmann::json::parse(from.value("bucket_order")).get<BucketOrder>());
  }

 private:
  std::function<BucketOrder()> get_;
  std::function<void(const BucketOrder&)> set_;
};

class TensorPart : public StatePart {
 public:
  TensorPart(const std::string& name, at::Tensor tensor)
      : name_("user." + name), tensor_(std::move(tensor)) {}
  void save(SavedState& to) override { to.of_rank_0[name_] = tensor_; }
  void check(const LoadedState& from) const override { from.tensor(name_, tensor_.sizes()); }
  void load(const LoadedState& from) override {
    const at::NoGradGuard no_grad;
    tensor_.copy_(from.tensor(name_, tensor_.sizes()));
  }

 private:
  std::string name_;
  at::Tensor tensor_;
};

template <class Number>
class NumberPart : public StatePart {
 public:
  NumberPart(const std::string& name, Number& value) : name_("user." + name), value_(value) {}
  void save(SavedState& to) override {
    to.values[name_] = std::is_integral_v<Number> ? fmt::format("{}", value_)
                                                  : fmt::format("{:a}", static_cast<double>(value_));
  }
  void check(const LoadedState& from) const override { from.value(name_); }
  void load(const LoadedState& from) override {
    const char* text = from.value(name_).c_str();
    value_ = std::is_integral_v<Number> ? static_cast<Number>(std::strtoll(text, nullptr, 10))
                                        : static_cast<Number>(std::strtod(text, nullptr));
  }

 private:
  std::string name_;
  Number& value_;
};

}  // namespace

const at::Tensor& LoadedState::tensor(const std::string& name, at::IntArrayRef shape) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw std::invalid_argument(fmt::format("it has no {}", name));
  if (found->second.sizes() != shape) {
    throw std::invalid_argument(fmt::format("its {} has the shape {}, not {}", name,
                                            c10::str(found->second.sizes()), c10::str(shape)));
  }
  return found->second;
}

const std::string& LoadedState::value(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) throw std::invalid_argument(fmt::format("it has no {}", name));
  return found->second;
}

TrainState::TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, DataLoader& loader) {
  parts_.push_back(std::make_unique<ModelPart>(module));
  parts_.push_back(make_optimizer_part(module, optimizer));
  parts_.push_back(std::make_unique<LoaderPart>(loader));
  parts_.push_back(std::make_unique<GeneratorPart>(module));
}
TrainState::TrainState(TrainState&&) noexcept = default;
TrainState::~TrainState() = default;

void TrainState::add(const std::string& name, at::Tensor tensor) {
  parts_.push_back(std::make_unique<TensorPart>(name, std::move(tensor)));
}
void TrainState::add(const std::string& name, std::int64_t& value) {
  parts_.push_back(std::make_unique<NumberPart<std::int64_t>>(name, value));
}
void TrainState::add(const std::string& name, double& value) {
  parts_.push_back(std::make_unique<NumberPart<double>>(name, value));
}
void TrainState::add_bucket_order(std::function<BucketOrder()> get,
                                  std::function<void(const BucketOrder&)> set) {
  parts_.push_back(std::make_unique<BucketOrderPart>(std::move(get), std::move(set)));
}

}  // namespace muster
