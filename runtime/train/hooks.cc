#include <fmt/format.h>
#include <muster/train/hooks.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/train/model_part.h"

namespace muster {
namespace {

// Takes the place of a layer in the list of layers that a Sequential calls. The layer itself is still a child
// of the Sequential, so the names and parameters do not change.
class HookedLayer : public torch::nn::Module {
 public:
  explicit HookedLayer(torch::nn::AnyModule layer) : layer_(std::move(layer)) {}
  at::Tensor forward(at::Tensor input) {
    return hooks->run(*layer_.ptr(), std::move(input),
                      [this](const at::Tensor& in) { return layer_.forward<at::Tensor>(in); });
  }
  const torch::nn::AnyModule& layer() const { return layer_; }
  std::shared_ptr<torch::nn::Module> clone(const std::optional<c10::Device>&) const override {
    throw std::logic_error("a layer with hooks cannot be cloned; remove the hooks first");
  }

  std::shared_ptr<detail::Hooks> hooks = std::make_shared<detail::Hooks>();

 private:
  torch::nn::AnyModule layer_;
};

// A layer's place in a Sequential.
struct HookPlace {
  std::weak_ptr<torch::nn::SequentialImpl> sequential;
  std::size_t index = 0;
};

void put_layer_back(const HookPlace& place) {
  const auto sequential = place.sequential.lock();
  if (!sequential) return;
  torch::nn::AnyModule& here = *(sequential->begin() + static_cast<std::ptrdiff_t>(place.index));
  const auto hooked = std::dynamic_pointer_cast<HookedLayer>(here.ptr());
  if (hooked && hooked->hooks->empty()) here = torch::nn::AnyModule(hooked->layer());
}

std::shared_ptr<detail::Hooks> hooks_of(torch::nn::Module& model, const std::string& name, HookPlace& place) {
  const auto modules = model.named_modules("", /*include_self=*/false);
  const auto* const layer = modules.find(name);
  if (layer == nullptr) throw std::invalid_argument(fmt::format("hooks: the model has no layer '{}'", name));
  if (auto* const declared = dynamic_cast<detail::HasHooks*>(layer->get())) return declared->hooks;
  const std::size_t dot = name.rfind('.');
  torch::nn::Module& parent = dot == std::string::npos ? model : **modules.find(name.substr(0, dot));
  auto* const sequential = parent.as<torch::nn::SequentialImpl>();
  if (sequential == nullptr)
    throw std::invalid_argument(
        fmt::format("hooks: '{}' is called by code of {}, where no hook can be added; "
                    "declare it as muster::Hooked<...>, or put it into a Sequential",
                    name, parent.name()));
  const auto names = sequential->named_children().keys();
  place = {
      std::static_pointer_cast<torch::nn::SequentialImpl>(sequential->shared_from_this()),
      static_cast<std::size_t>(std::ranges::find(names, name.substr(dot == std::string::npos ? 0 : dot + 1)) -
                               names.begin())};
  torch::nn::AnyModule& here = *(sequential->begin() + static_cast<std::ptrdiff_t>(place.index));
  if (const auto hooked = std::dynamic_pointer_cast<HookedLayer>(here.ptr())) return hooked->hooks;
  const auto hooked = std::make_shared<HookedLayer>(std::move(here));
  here = torch::nn::AnyModule(hooked);
  return hooked->hooks;
}

template <class Hook>
HookHandle add_hook(torch::nn::Module& model, const std::string& name, Hook hook) {
  HookPlace place;
  const auto hooks = hooks_of(model, name, place);
  return HookHandle([hooks, id = hooks->add(std::move(hook)), place] {
    hooks->remove(id);
    put_layer_back(place);
  });
}

}  // namespace

namespace detail {

at::Tensor Hooks::run(torch::nn::Module& layer, at::Tensor input,
                      const std::function<at::Tensor(const at::Tensor&)>& forward) {
  for (const auto& [id, hook] : before_)
    if (at::Tensor other = hook(layer, input); other.defined()) input = std::move(other);
  at::Tensor output = forward(input);
  for (const auto& [id, hook] : after_)
    if (at::Tensor other = hook(layer, input, output); other.defined()) output = std::move(other);
  return output;
}

std::int64_t Hooks::add(ForwardPreHook hook) {
  before_.emplace(next_, std::move(hook));
  return next_++;
}
std::int64_t Hooks::add(ForwardHook hook) {
  after_.emplace(next_, std::move(hook));
  return next_++;
}
void Hooks::remove(std::int64_t id) {
  before_.erase(id);
  after_.erase(id);
}

HookHandle add_forward_hook(torch::nn::Module& model, const std::string& name, ForwardHook hook) {
  return add_hook(model, name, std::move(hook));
}
HookHandle add_forward_pre_hook(torch::nn::Module& model, const std::string& name, ForwardPreHook hook) {
  return add_hook(model, name, std::move(hook));
}

HookHandle add_gradient_hook(torch::nn::Module& model, const std::string& part, const GradientHook& hook) {
  std::vector<std::pair<at::Tensor, unsigned>> hooked;
  for (const auto& parameter : model.named_parameters()) {
    if (!is_in_part(parameter.key(), part) || !parameter.value().requires_grad()) continue;
    hooked.emplace_back(parameter.value(), parameter.value().register_hook(
                                               [hook, name = parameter.key()](const at::Tensor& gradient) {
                                                 return hook(name, gradient);
                                               }));
  }
  if (hooked.empty())
    throw std::invalid_argument(
        fmt::format("hooks: no parameter of the model's part '{}' requires a gradient", part));
  return HookHandle([hooked] {
    for (const auto& [parameter, id] : hooked) parameter.remove_hook(id);
  });
}

}  // namespace detail
}  // namespace muster
