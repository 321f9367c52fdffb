// The parts of the state for everything that a program adds by itself: tensors, numbers, texts, vectors of
// these, and schedulers.
#include <algorithm>
#include <fmt/format.h>
#include <muster/checkpoint/train_state.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <torch/torch.h>
#include <tuple>
#include <utility>

namespace muster {

namespace {

constexpr std::string_view kText = "string:";
constexpr std::string_view kTexts = "strings:";

class TensorPart : public StatePart {
 public:
  TensorPart(std::string key, at::Tensor tensor) : key_(std::move(key)), tensor_(std::move(tensor)) {}
  void save(SavedState& to) override { to.of_first(key_, tensor_); }
  void check(LoadedState& from) override { from.fill(key_, tensor_); }

 private:
  std::string key_;
  at::Tensor tensor_;
};

// There are a save_value() and a load_value() for each kind of value.

template <class Number>
  requires std::is_arithmetic_v<Number>
void save_value(SavedState& to, const std::string& key, Number value) {
  to.value_of_first(key, write_number(value));
}
template <class Number>
  requires std::is_arithmetic_v<Number>
void load_value(LoadedState& from, const std::string& key, Number& value) {
  value = from.number<Number>(key);
}

void save_value(SavedState& to, const std::string& key, const std::string& value) {
  to.value_of_first(key, std::string(kText) + value);
}
std::string text_of(LoadedState& from, const std::string& key, std::string_view kind) {
  const std::string text = from.value(key);
  if (!text.starts_with(kind))
    throw std::invalid_argument(fmt::format("its {} does not begin with {}", key, kind));
  return text.substr(kind.size());
}
void load_value(LoadedState& from, const std::string& key, std::string& value) {
  value = text_of(from, key, kText);
}

void save_value(SavedState& to, const std::string& key, const std::vector<std::string>& value) {
  to.value_of_first(key, std::string(kTexts) + nlohmann::json(value).dump());
}
void load_value(LoadedState& from, const std::string& key, std::vector<std::string>& value) {
  nlohmann::json::parse(text_of(from, key, kTexts)).get_to(value);
}

template <class Number>
constexpr at::ScalarType kTypeOf = c10::CppTypeToScalarType<Number>::value;

template <class Number>
  requires std::is_arithmetic_v<Number>
void save_value(SavedState& to, const std::string& key, const std::vector<Number>& value) {
  const at::Tensor list = at::empty({std::ssize(value)}, kTypeOf<Number>);
  std::ranges::copy(value, list.mutable_data_ptr<Number>());
  to.of_first(key, list);
}
template <class Number>
  requires std::is_arithmetic_v<Number>
void load_value(LoadedState& from, const std::string& key, std::vector<Number>& value) {
  const at::Tensor list = from.read(key);
  if (list.scalar_type() != kTypeOf<Number> || list.dim() != 1)
    throw std::invalid_argument(fmt::format("its {} is of the type {}, not {}", key,
                                            c10::toString(list.scalar_type()),
                                            c10::toString(kTypeOf<Number>)));
  const auto* const first = static_cast<const Number*>(list.const_data_ptr());
  value.assign(first, first + list.numel());
}

template <class Value>
class ValuePart : public StatePart {
 public:
  ValuePart(std::string key, Value& value) : key_(std::move(key)), value_(value) {}
  void save(SavedState& to) override { save_value(to, key_, value_); }
  void check(LoadedState& from) override {
    loaded_ = {};
    load_value(from, key_, loaded_);
  }
  void load() override { value_ = std::move(loaded_); }

 private:
  std::string key_;
  Value& value_;
  Value loaded_{};
};

class SchedulerPart : public StatePart {
 public:
  SchedulerPart(std::string key, torch::optim::LRScheduler& scheduler)
      : key_(std::move(key)), step_count_(Access::step_count(scheduler)) {}
  void save(SavedState& to) override { to.value_of_first(key_, write_number<std::int64_t>(step_count_)); }
  void check(LoadedState& from) override {
    loaded_ = from.number<std::int64_t>(key_);
    if (!std::in_range<unsigned>(loaded_))
      throw std::invalid_argument(fmt::format("its {} is not a count of steps", key_));
  }
  void load() override { step_count_ = static_cast<unsigned>(loaded_); }

 private:
  // torch lets only derived classes access the count. So this class is derived from torch's.
  struct Access : torch::optim::LRScheduler {
    static unsigned& step_count(torch::optim::LRScheduler& scheduler) {
      return scheduler.*(&Access::step_count_);
    }
  };
  std::string key_;
  unsigned& step_count_;
  std::int64_t loaded_ = 0;
};

// The members of torch's ReduceLROnPlateauScheduler that this file needs are private. C++ has one way to name
// private members of another class: as the arguments of an explicit instantiation of a template.
using Plateau = torch::optim::ReduceLROnPlateauScheduler;
using PlateauState = std::tuple<float&, int&, int&, int&>;
PlateauState plateau_state(Plateau& scheduler);
template <auto... Member>
struct Exposed {
  friend PlateauState plateau_state(Plateau& scheduler) { return {scheduler.*Member...}; }
};
template struct Exposed<&Plateau::best, &Plateau::cooldown_counter, &Plateau::last_epoch,
                        &Plateau::num_bad_epochs>;

class PlateauPart : public StatePart {
 public:
  PlateauPart(std::string key, Plateau& scheduler) : key_(std::move(key)), state_(plateau_state(scheduler)) {}
  void save(SavedState& to) override {
    save_value(to, key_ + ".best", std::get<0>(state_));
    save_value(to, key_ + ".cooldown_counter", std::get<1>(state_));
    save_value(to, key_ + ".last_epoch", std::get<2>(state_));
    save_value(to, key_ + ".num_bad_epochs", std::get<3>(state_));
  }
  void check(LoadedState& from) override {
    load_value(from, key_ + ".best", std::get<0>(loaded_));
    load_value(from, key_ + ".cooldown_counter", std::get<1>(loaded_));
    load_value(from, key_ + ".last_epoch", std::get<2>(loaded_));
    load_value(from, key_ + ".num_bad_epochs", std::get<3>(loaded_));
  }
  void load() override { state_ = loaded_; }

 private:
  std::string key_;
  PlateauState state_;
  std::tuple<float, int, int, int> loaded_;
};

}  // namespace

void TrainState::add(const std::string& name, at::Tensor tensor) {
  add_named(name, std::make_unique<TensorPart>("user." + name, std::move(tensor)));
}

template <class Value>
void TrainState::add_value(const std::string& name, Value& value) {
  add_named(name, std::make_unique<ValuePart<Value>>("user." + name, value));
}
template void TrainState::add_value(const std::string&, bool&);
template void TrainState::add_value(const std::string&, int&);
template void TrainState::add_value(const std::string&, std::int64_t&);
template void TrainState::add_value(const std::string&, float&);
template void TrainState::add_value(const std::string&, double&);
template void TrainState::add_value(const std::string&, std::string&);
template void TrainState::add_value(const std::string&, std::vector<bool>&);
template void TrainState::add_value(const std::string&, std::vector<int>&);
template void TrainState::add_value(const std::string&, std::vector<std::int64_t>&);
template void TrainState::add_value(const std::string&, std::vector<float>&);
template void TrainState::add_value(const std::string&, std::vector<double>&);
template void TrainState::add_value(const std::string&, std::vector<std::string>&);

void TrainState::add(const std::string& name, torch::optim::LRScheduler& scheduler) {
  add_named(name, std::make_unique<SchedulerPart>("scheduler." + name, scheduler));
}

void TrainState::add(const std::string& name, Plateau& scheduler) {
  add_named(name, std::make_unique<PlateauPart>("scheduler." + name, scheduler));
}

}  // namespace muster
