#include "runtime/checkpoint/optimizer_part.h"

#include <fmt/core.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {

namespace {

using torch::optim::OptimizerParamState;

// visit(state, field) calls field with the name and a reference for each field of a state: tensors and step
// counts.
template <class Field>
void visit(torch::optim::SGDParamState& state, Field&& field) {
  field("momentum_buffer", state.momentum_buffer());
}
template <class Field, class AdamState>
void visit_adam(AdamState& state, Field&& field) {
  field("step", state.step());
  field("exp_avg", state.exp_avg());
  field("exp_avg_sq", state.exp_avg_sq());
  field("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Field>
void visit(torch::optim::AdamParamState& state, Field&& field) {
  visit_adam(state, field);
}
template <class Field>
void visit(torch::optim::AdamWParamState& state, Field&& field) {
  visit_adam(state, field);
}
template <class Field>
void visit(torch::optim::RMSpropParamState& state, Field&& field) {
  field("step", state.step());
  field("square_avg", state.square_avg());
  field("momentum_buffer", state.momentum_buffer());
  field("grad_avg", state.grad_avg());
}
template <class Field>
void visit(torch::optim::AdagradParamState& state, Field&& field) {
  field("step", state.step());
  field("sum", state.sum());
}

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

template <class State>
class OptimizerPart : public StatePart {
 public:
  OptimizerPart(std::string kind, std::vector<NamedParameter> parameters, torch::optim::Optimizer& optimizer)
      : kind_(std::move(kind)), parameters_(std::move(parameters)), optimizer_(optimizer) {}

  void save(SavedState& to) override {
    to.values["optimizer.kind"] = kind_;
    to.values["optimizer.groups"] = std::to_string(optimizer_.param_groups().size());
    for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group) {
      to.values[lr_key(group)] = write_number(optimizer_.param_groups()[group].options().get_lr());
    }
    for (const auto& [name, parameter] : parameters_) {
      const auto found = optimizer_.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer_.state().end()) continue;
      to.values[key(name)] = "1";
      visit(static_cast<State&>(*found->second), [&](const char* field, auto& value) {
        if constexpr (std::is_same_v<decltype(value), at::Tensor&>) {
          if (value.defined()) to.shared[key(name, field)] = value;
        } else {
          to.values[key(name, field)] = write_number<std::int64_t>(value);
        }
      });
    }
  }

  void check(const LoadedState& from) const override {
    check_same("kind", from.value("optimizer.kind"), kind_);
    check_same("number of groups", from.value("optimizer.groups"),
               std::to_string(optimizer_.param_groups().size()));
    for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group)
      from.number<double>(lr_key(group));
    for (const auto& [name, parameter] : parameters_) {
      if (from.values.contains(key(name))) state_of(name, parameter, from);
    }
  }

  void load(const LoadedState& from) override {
    for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group) {
      optimizer_.param_groups()[group].options().set_lr(from.number<double>(lr_key(group)));
    }
    for (const auto& [name, parameter] : parameters_) {
      void* const address = parameter.unsafeGetTensorImpl();
      if (from.values.contains(key(name))) {
        optimizer_.state()[address] = state_of(name, parameter, from);
      } else {
        optimizer_.state().erase(address);
      }
    }
  }

 private:
  static std::string lr_key(std::size_t group) { return fmt::format("optimizer.lr.{}", group); }
  static std::string key(const std::string& name) { return "optimizer." + name; }
  static std::string key(const std::string& name, const char* field) {
    return fmt::format("optimizer.{}.{}", name, field);
  }

  static void check_same(const char* what, const std::string& saved, const std::string& here) {
    if (saved != here)
      throw std::invalid_argument(fmt::format("the optimizer's {} is {}, not {}", what, saved, here));
  }

  static std::unique_ptr<State> state_of(const std::string& name, const at::Tensor& parameter,
                                         const LoadedState& from) {
    auto state = std::make_unique<State>();
    visit(*state, [&](const char* field, auto& value) {
      if constexpr (std::is_same_v<decltype(value), at::Tensor&>) {
        if (!from.tensors.contains(key(name, field))) return;
        const at::Tensor& saved = from.tensor(key(name, field), parameter);
        // preserve_format: the same strides as the parameter's, as when the optimizer makes it.
        value = at::empty_like(parameter, parameter.options().requires_grad(false)).copy_(saved);
      } else {
        value = from.number<std::int64_t>(key(name, field));
      }
    });
    return state;
  }

  std::string kind_;
  std::vector<NamedParameter> parameters_;
  torch::optim::Optimizer& optimizer_;
};

std::vector<NamedParameter> name_parameters(const torch::nn::Module& module,
                                            const torch::optim::Optimizer& optimizer) {
  std::map<const void*, std::string> names;
  for (const auto& parameter : module.named_parameters()) {
    names.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
  }
  std::vector<NamedParameter> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto name = names.find(parameter.unsafeGetTensorImpl());
      if (name == names.end()) {
        throw std::invalid_argument(
            fmt::format("TrainState: the optimizer's parameter number {}, of shape {}, is not the model's",
                        parameters.size(), c10::str(parameter.sizes())));
      }
      parameters.push_back({.name = name->second, .tensor = parameter});
    }
  }
  return parameters;
}

}  // namespace

std::unique_ptr<StatePart> make_optimizer_part(const torch::nn::Module& module,
                                               torch::optim::Optimizer& optimizer) {
  auto parameters = name_parameters(module, optimizer);
  const auto part = [&]<class State>(const char* kind) {
    return std::make_unique<OptimizerPart<State>>(kind, std::move(parameters), optimizer);
  };
  if (dynamic_cast<torch::optim::SGD*>(&optimizer))
    return part.operator()<torch::optim::SGDParamState>("SGD");
  if (dynamic_cast<torch::optim::Adam*>(&optimizer))
    return part.operator()<torch::optim::AdamParamState>("Adam");
  if (dynamic_cast<torch::optim::AdamW*>(&optimizer))
    return part.operator()<torch::optim::AdamWParamState>("AdamW");
  if (dynamic_cast<torch::optim::RMSprop*>(&optimizer))
    return part.operator()<torch::optim::RMSpropParamState>("RMSprop");
  if (dynamic_cast<torch::optim::Adagrad*>(&optimizer))
    return part.operator()<torch::optim::AdagradParamState>("Adagrad");
  throw std::invalid_argument(
      "TrainState: this kind of optimizer cannot be saved; SGD, Adam, AdamW, RMSprop and Adagrad can");
}

}  // namespace muster
