#include "runtime/checkpoint/optimizer_part.h"

#include <deque>
#include <fmt/format.h>
#include <muster/checkpoint/saved_optimizer.h>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <torch/torch.h>
#include <typeinfo>

namespace muster {

namespace {

using nlohmann::json;
namespace optim = torch::optim;

// each_option(options, field) calls field(name, value, set) for each option. `set` is a function that changes
// the option.
#define MUSTER_OPTION(NAME) field(#NAME, options.NAME(), [&](auto value) { options.NAME(std::move(value)); })

template <class Field>
void each_option(optim::SGDOptions& options, Field&& field) {
  MUSTER_OPTION(lr);
  MUSTER_OPTION(momentum);
  MUSTER_OPTION(dampening);
  MUSTER_OPTION(weight_decay);
  MUSTER_OPTION(nesterov);
}
template <class Options, class Field>
void each_option_of_adam(Options& options, Field&& field) {
  MUSTER_OPTION(lr);
  MUSTER_OPTION(betas);
  MUSTER_OPTION(eps);
  MUSTER_OPTION(weight_decay);
  MUSTER_OPTION(amsgrad);
}
template <class Field>
void each_option(optim::AdamOptions& options, Field&& field) {
  each_option_of_adam(options, field);
}
template <class Field>
void each_option(optim::AdamWOptions& options, Field&& field) {
  each_option_of_adam(options, field);
}
template <class Field>
void each_option(optim::RMSpropOptions& options, Field&& field) {
  MUSTER_OPTION(lr);
  MUSTER_OPTION(alpha);
  MUSTER_OPTION(eps);
  MUSTER_OPTION(weight_decay);
  MUSTER_OPTION(momentum);
  MUSTER_OPTION(centered);
}
template <class Field>
void each_option(optim::AdagradOptions& options, Field&& field) {
  MUSTER_OPTION(lr);
  MUSTER_OPTION(lr_decay);
  MUSTER_OPTION(weight_decay);
  MUSTER_OPTION(initial_accumulator_value);
  MUSTER_OPTION(eps);
}
template <class Field>
void each_option(optim::LBFGSOptions& options, Field&& field) {
  MUSTER_OPTION(lr);
  MUSTER_OPTION(max_iter);
  MUSTER_OPTION(max_eval);
  MUSTER_OPTION(tolerance_grad);
  MUSTER_OPTION(tolerance_change);
  MUSTER_OPTION(history_size);
  MUSTER_OPTION(line_search_fn);
}
#undef MUSTER_OPTION

// A parameter's state has fields, such as tensors, counts, numbers, and lists of tensors. each_field(state,
// field) calls `field` for each of them, with its name and a reference to it.
template <class Field>
void each_field(optim::SGDParamState& state, Field&& field) {
  field("momentum_buffer", state.momentum_buffer());
}
template <class Field, class AdamState>
void each_field_of_adam(AdamState& state, Field&& field) {
  field("step", state.step());
  field("exp_avg", state.exp_avg());
  field("exp_avg_sq", state.exp_avg_sq());
  field("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Field>
void each_field(optim::AdamParamState& state, Field&& field) {
  each_field_of_adam(state, field);
}
template <class Field>
void each_field(optim::AdamWParamState& state, Field&& field) {
  each_field_of_adam(state, field);
}
template <class Field>
void each_field(optim::RMSpropParamState& state, Field&& field) {
  field("step", state.step());
  field("square_avg", state.square_avg());
  field("momentum_buffer", state.momentum_buffer());
  field("grad_avg", state.grad_avg());
}
template <class Field>
void each_field(optim::AdagradParamState& state, Field&& field) {
  field("step", state.step());
  field("sum", state.sum());
}
// LBFGS keeps the state of all parameters with the first one.
template <class Field>
void each_field(optim::LBFGSParamState& state, Field&& field) {
  field("func_evals", state.func_evals());
  field("n_iter", state.n_iter());
  field("t", state.t());
  field("prev_loss", state.prev_loss());
  field("d", state.d());
  field("H_diag", state.H_diag());
  field("prev_flat_grad", state.prev_flat_grad());
  field("old_dirs", state.old_dirs());
  field("old_stps", state.old_stps());
  field("ro", state.ro());
}

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// The common base for all kinds of optimizers. It saves and checks the kind and the groups of parameters.
class AnyOptimizerPart : public StatePart {
 public:
  AnyOptimizerPart(std::string key, std::vector<NamedParameter> parameters, optim::Optimizer& optimizer)
      : parameters_(std::move(parameters)), optimizer_(optimizer), key_(std::move(key)) {}

  void save(SavedState& to) override {
    to.shared_value(key_ + ".kind", kind());
    to.shared_value(key_ + ".groups", std::to_string(optimizer_.param_groups().size()));
    for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group) save_group(to, group);
    std::set<std::string> saved;  // tied weights share one name, and their state is equal
    for (const auto& [name, parameter] : parameters_) {
      if (!saved.insert(name).second) continue;
      if (save_state(to, name, parameter)) to.shared_value(key(name), "1");
    }
  }

  void check(LoadedState& from) override {
    check_same("kind", from.value(key_ + ".kind"), kind());
    check_same("number of groups", from.value(key_ + ".groups"),
               std::to_string(optimizer_.param_groups().size()));
    for (std::size_t group = 0; group < optimizer_.param_groups().size(); ++group) check_group(from, group);
    for (const auto& [name, parameter] : parameters_) check_state(from, name, parameter);
  }

 protected:
  virtual std::string kind() const = 0;
  virtual void save_group(SavedState& to, std::size_t group) = 0;
  virtual bool save_state(SavedState& to, const std::string& name, const at::Tensor& parameter) = 0;
  virtual void check_group(LoadedState& from, std::size_t group) = 0;
  virtual void check_state(LoadedState& from, const std::string& name, const at::Tensor& parameter) = 0;

  std::string key(const std::string& name) const { return fmt::format("{}.{}", key_, name); }
  std::string key(const std::string& name, std::string_view field) const {
    return fmt::format("{}.{}.{}", key_, name, field);
  }
  std::string lr_key(std::size_t group) const { return fmt::format("{}.lr.{}", key_, group); }
  std::string options_key(std::size_t group) const { return fmt::format("{}.options.{}", key_, group); }

  std::vector<NamedParameter> parameters_;
  optim::Optimizer& optimizer_;

 private:
  static void check_same(const char* what, const std::string& saved, const std::string& here) {
    if (saved != here)
      throw std::invalid_argument(fmt::format("the optimizer's {} is {}, not {}", what, saved, here));
  }
  std::string key_;
};

// The part of one of torch's own optimizers.
template <class Options, class State>
class OptimizerPart : public AnyOptimizerPart {
 public:
  OptimizerPart(std::string kind, std::string key, std::vector<NamedParameter> parameters,
                optim::Optimizer& optimizer)
      : AnyOptimizerPart(std::move(key), std::move(parameters), optimizer), kind_(std::move(kind)) {}

  void load() override {
    for (std::size_t group = 0; group < loaded_options_.size(); ++group) {
      each_option(options(group), [&](const char* name, const auto& now, const auto& set) {
        const json& saved = loaded_options_[group];
        if (!saved.contains(name)) return;
        std::decay_t<decltype(now)> value{};
        read(saved[name], value);
        set(std::move(value));
      });
    }
    for (auto& [address, state] : loaded_states_) {
      if (state)
        optimizer_.state()[address] = std::move(state);
      else
        optimizer_.state().erase(address);
    }
    loaded_states_.clear();
  }

 protected:
  std::string kind() const override { return kind_; }

  void save_group(SavedState& to, std::size_t group) override {
    to.shared_value(lr_key(group), write_number(optimizer_.param_groups()[group].options().get_lr()));
    json all = json::object();
    each_option(options(group),
                [&](const char* name, const auto& now, const auto&) { write(all[name], now); });
    to.shared_value(options_key(group), all.dump());
  }

  bool save_state(SavedState& to, const std::string& name, const at::Tensor& parameter) override {
    const auto found = optimizer_.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer_.state().end()) return false;
    each_field(static_cast<State&>(*found->second), [&](const char* field, auto& value) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, at::Tensor>) {
        if (value.defined()) to.shared(key(name, field), value);
      } else if constexpr (std::is_same_v<Value, std::deque<at::Tensor>>) {
        to.shared_value(key(name, field), write_number<std::int64_t>(std::ssize(value)));
        for (std::size_t i = 0; i < value.size(); ++i)
          to.shared(key(name, fmt::format("{}.{}", field, i)), value[i]);
      } else {
        to.shared_value(key(name, field), write_number(value));
      }
    });
    return true;
  }

  void check_group(LoadedState& from, std::size_t group) override {
    if (group == 0) loaded_options_.clear();
    json saved = json::object();
    if (from.has_value(options_key(group))) saved = json::parse(from.value(options_key(group)));
    // In a checkpoint of format 1, the learning rate is the only option.
    saved["lr"] = from.number<double>(lr_key(group));
    each_option(options(group), [&](const char* name, const auto& now, const auto&) {
      std::decay_t<decltype(now)> value{};
      if (saved.contains(name)) read(saved[name], value);
    });
    loaded_options_.push_back(std::move(saved));
  }

  void check_state(LoadedState& from, const std::string& name, const at::Tensor& parameter) override {
    auto& loaded = loaded_states_[parameter.unsafeGetTensorImpl()];
    loaded.reset();
    if (!from.has_value(key(name))) return;
    loaded = std::make_unique<State>();
    each_field(static_cast<State&>(*loaded), [&](const char* field, auto& value) {
      using Value = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, at::Tensor>) {
        if (from.has(key(name, field))) value = fill(from, key(name, field), parameter);
      } else if constexpr (std::is_same_v<Value, std::deque<at::Tensor>>) {
        const auto count = from.number<std::int64_t>(key(name, field));
        for (std::int64_t i = 0; i < count; ++i)
          value.push_back(fill(from, key(name, fmt::format("{}.{}", field, i)), parameter));
      } else {
        value = from.number<Value>(key(name, field));
      }
    });
  }

 private:
  Options& options(std::size_t group) {
    return static_cast<Options&>(optimizer_.param_groups()[group].options());
  }

  static at::Tensor fill(LoadedState& from, const std::string& name, const at::Tensor& parameter) {
    if constexpr (std::is_same_v<State, optim::LBFGSParamState>) {
      return from.read(name).to(parameter.device());  // LBFGS's tensors are for all parameters together
    } else {
      // Gives the new tensor the strides of the parameter, as the optimizer itself does.
      at::Tensor tensor = at::empty_like(parameter, parameter.options().requires_grad(false));
      from.fill(name, tensor);
      return tensor;
    }
  }

  template <class Value>
  static void write(json& to, const Value& value) {
    to = value;
  }
  template <class Value>
  static void write(json& to, const std::optional<Value>& value) {
    if (value) to = *value;
  }
  template <class Value>
  static void read(const json& from, Value& value) {
    value = from.get<Value>();
  }
  template <class Value>
  static void read(const json& from, std::optional<Value>& value) {
    value = from.is_null() ? std::nullopt : std::optional(from.get<Value>());
  }

  std::string kind_;
  std::vector<json> loaded_options_;
  std::map<void*, std::unique_ptr<optim::OptimizerParamState>> loaded_states_;  // null: no state
};

// The part of the state that saves an optimizer of a class derived from SavedOptimizer. Such an optimizer
// itself says what its state is.
class SavedOptimizerPart : public AnyOptimizerPart {
 public:
  SavedOptimizerPart(SavedOptimizer& saved, std::string key, std::vector<NamedParameter> parameters,
                     optim::Optimizer& optimizer)
      : AnyOptimizerPart(std::move(key), std::move(parameters), optimizer), saved_(saved) {}

  void load() override {
    for (std::size_t group = 0; group < loaded_options_.size(); ++group)
      saved_.load_options(group, loaded_options_[group]);
    for (auto& [parameter, state] : loaded_states_) saved_.load_state(parameter, std::move(state));
    loaded_states_.clear();
  }

 protected:
  std::string kind() const override { return saved_.saved_kind(); }
  void save_group(SavedState& to, std::size_t group) override {
    to.shared_value(options_key(group), json(saved_.saved_options(group)).dump());
  }
  bool save_state(SavedState& to, const std::string& name, const at::Tensor& parameter) override {
    const auto state = saved_.saved_state(parameter);
    for (const auto& [field, value] : state.tensors) {
      if (value.whole_shape.empty())
        to.shared(key(name, field), value.tensor);
      else
        to.slice(key(name, field), value.tensor, {value.whole_shape, value.offsets});
    }
    for (const auto& [field, value] : state.counts) to.shared_value(key(name, field), write_number(value));
    return !state.tensors.empty() || !state.counts.empty();
  }
  void check_group(LoadedState& from, std::size_t group) override {
    if (group == 0) {
      loaded_options_.clear();
      loaded_states_.clear();
    }
    loaded_options_.push_back(
        json::parse(from.value(options_key(group))).get<std::map<std::string, std::string>>());
  }
  void check_state(LoadedState& from, const std::string& name, const at::Tensor& parameter) override {
    if (!from.has_value(key(name))) return;
    auto state = saved_.new_state(parameter);
    for (const auto& [field, value] : state.tensors) {
      if (value.whole_shape.empty())
        from.fill(key(name, field), value.tensor);
      else
        from.fill(key(name, field), value.tensor, {value.whole_shape, value.offsets});
    }
    for (auto& [field, value] : state.counts) value = from.number<std::int64_t>(key(name, field));
    loaded_states_.emplace_back(parameter, std::move(state));
  }

 private:
  SavedOptimizer& saved_;
  std::vector<std::map<std::string, std::string>> loaded_options_;
  std::vector<std::pair<at::Tensor, SavedOptimizer::State>> loaded_states_;
};

// The part of the state that saves a wrapped optimizer. The optimizer is saved as if it had no wrapper.
class WrappedPart : public StatePart {
 public:
  WrappedPart(WrappedOptimizer& optimizer, std::unique_ptr<StatePart> local)
      : optimizer_(optimizer), local_(std::move(local)) {}
  void save(SavedState& to) override {
    optimizer_.give_options();
    local_->save(to);
  }
  void check(LoadedState& from) override { local_->check(from); }
  void load() override {
    local_->load();
    optimizer_.take_options();
  }

 private:
  WrappedOptimizer& optimizer_;
  std::unique_ptr<StatePart> local_;
};

std::vector<NamedParameter> name_parameters(const NamedModules& modules, const optim::Optimizer& optimizer) {
  std::map<const void*, std::string> names;
  for (const auto& [prefix, module] : modules) {
    for (const auto& parameter : module->named_parameters())
      names.emplace(parameter.value().unsafeGetTensorImpl(), prefix + parameter.key());
  }
  std::vector<NamedParameter> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto name = names.find(parameter.unsafeGetTensorImpl());
      if (name == names.end()) {
        throw std::invalid_argument(
            fmt::format("TrainState: parameter number {} of the optimizer, of shape {}, is not in the model",
                        parameters.size(), c10::str(parameter.sizes())));
      }
      parameters.push_back({.name = name->second, .tensor = parameter});
    }
  }
  return parameters;
}

}  // namespace

std::unique_ptr<StatePart> make_optimizer_part(const std::string& key, const NamedModules& modules,
                                               optim::Optimizer& optimizer) {
  auto parameters = name_parameters(modules, optimizer);
  if (auto* const wrapped = dynamic_cast<WrappedOptimizer*>(&optimizer))
    return std::make_unique<WrappedPart>(*wrapped, make_optimizer_part(key, modules, wrapped->local()));
  if (auto* const saved = dynamic_cast<SavedOptimizer*>(&optimizer))
    return std::make_unique<SavedOptimizerPart>(*saved, key, std::move(parameters), optimizer);
  // A class derived from one of torch's optimizers may have more state, which would be lost. Accepts a
  // derived class only if it also derives from SavedAsTorchs, which promises that it has no more state.
  const bool is_torchs = dynamic_cast<SavedAsTorchs*>(&optimizer) != nullptr;
  std::unique_ptr<StatePart> part;
  const auto is = [&]<class Kind, class Options, class State>(const char* kind) {
    if (!part &&
        (typeid(optimizer) == typeid(Kind) || (is_torchs && dynamic_cast<Kind*>(&optimizer) != nullptr)))
      part = std::make_unique<OptimizerPart<Options, State>>(kind, key, std::move(parameters), optimizer);
  };
  is.operator()<optim::SGD, optim::SGDOptions, optim::SGDParamState>("SGD");
  is.operator()<optim::Adam, optim::AdamOptions, optim::AdamParamState>("Adam");
  is.operator()<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>("AdamW");
  is.operator()<optim::RMSprop, optim::RMSpropOptions, optim::RMSpropParamState>("RMSprop");
  is.operator()<optim::Adagrad, optim::AdagradOptions, optim::AdagradParamState>("Adagrad");
  is.operator()<optim::LBFGS, optim::LBFGSOptions, optim::LBFGSParamState>("LBFGS");
  if (part) return part;
  throw std::invalid_argument(
      "TrainState: this kind of optimizer cannot be saved; SGD, Adam, AdamW, RMSprop, Adagrad, LBFGS, "
      "and classes derived from muster::SavedOptimizer can");
}

}  // namespace muster
