#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <muster/train/fused_optimizers.h>
#include <stdexcept>
#include <sys/mman.h>
#include <torch/torch.h>
#include <tuple>

namespace muster {
namespace {

namespace optim = torch::optim;

// The arguments of one kernel call: tensors of one device and type.
struct Lists {
  std::vector<at::Tensor> parameters, grads, first, second, third, steps;
};
using ListsByKind = std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType>, Lists>;

Lists& lists_for(ListsByKind& all, const at::Tensor& parameter) {
  return all[{parameter.device().type(), parameter.device().index(), parameter.scalar_type()}];
}

void check_parameter(const at::Tensor& parameter) {
  if (parameter.grad().is_sparse() || parameter.is_complex() || !parameter.is_non_overlapping_and_dense())
    throw std::invalid_argument(fmt::format(
        "a parameter of shape {} {}; fused optimizers do not support that", c10::str(parameter.sizes()),
        parameter.grad().is_sparse() ? "has a sparse gradient"
        : parameter.is_complex()     ? "is complex"
                                     : "is not dense in memory"));
}

// Returns the gradient with the strides of the parameter, because the kernels ignore strides.
at::Tensor like_in_memory(const at::Tensor& grad, const at::Tensor& parameter) {
  return grad.strides() == parameter.strides() ? grad : at::empty_like(parameter).copy_(grad);
}

at::Tensor loss_of(const optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode enable_grad(true);
  return closure();
}

// Returns the state of a parameter. Makes it at the parameter's first step.
template <class State>
State& state_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Does the same as zeros_like(). On a CPU, the memory has huge pages. Each step reads and writes the whole
// state, and this is faster in huge pages.
at::Tensor zeros_in_huge_pages(const at::Tensor& parameter) {
  constexpr std::uintptr_t kHugePage = 2 << 20;
  const at::Tensor state = at::empty_like(parameter);
  if (state.is_cpu() && state.nbytes() >= 2 * kHugePage) {
    const auto bytes = reinterpret_cast<std::uintptr_t>(state.data_ptr());
    const std::uintptr_t begin = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    const std::uintptr_t end = (bytes + state.nbytes()) / kHugePage * kHugePage;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // an error is harmless
  }
  return state.zero_();
}

template <class Options, class State, class Kernel>
void step_adam(optim::Optimizer& optimizer, const Kernel& kernel) {
  for (optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    ListsByKind all;
    // The kernel needs the number of steps as a tensor on the parameter's device. This map has one such
    // tensor for each number of steps and each device. Usually all parameters have made the same number of
    // steps.
    std::map<std::pair<std::int64_t, c10::Device>, at::Tensor, decltype([](const auto& a, const auto& b) {
               return std::tuple(a.first, a.second.type(), a.second.index()) <
                      std::tuple(b.first, b.second.type(), b.second.index());
             })>
        counts;
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      check_parameter(parameter);
      State& state = state_of<State>(optimizer, parameter);
      if (!state.exp_avg().defined()) {
        state.step(0);
        state.exp_avg(zeros_in_huge_pages(parameter));
        state.exp_avg_sq(zeros_in_huge_pages(parameter));
      }
      if (options.amsgrad() && !state.max_exp_avg_sq().defined())
        state.max_exp_avg_sq(zeros_in_huge_pages(parameter));
      state.step(state.step() + 1);
      at::Tensor& count = counts[{state.step(), parameter.device()}];
      if (!count.defined())
        count = at::full({}, static_cast<double>(state.step()),
                         parameter.options().dtype(at::kFloat).requires_grad(false));
      Lists& lists = lists_for(all, parameter);
      lists.parameters.push_back(parameter);
      lists.grads.push_back(like_in_memory(parameter.grad(), parameter));
      lists.first.push_back(state.exp_avg());
      lists.second.push_back(state.exp_avg_sq());
      if (options.amsgrad()) lists.third.push_back(state.max_exp_avg_sq());
      lists.steps.push_back(count);
    }
    for (const auto& [kind, lists] : all)
      kernel(lists.parameters, lists.grads, lists.first, lists.second, lists.third, lists.steps, options.lr(),
             std::get<0>(options.betas()), std::get<1>(options.betas()), options.weight_decay(),
             options.eps(), options.amsgrad(), /*maximize=*/false);
  }
}

}  // namespace

at::Tensor FusedAdam::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = loss_of(closure);
  step_adam<optim::AdamOptions, optim::AdamParamState>(
      *this, [](const auto&... arguments) { at::_fused_adam_(arguments...); });
  return loss;
}

at::Tensor FusedAdamW::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = loss_of(closure);
  step_adam<optim::AdamWOptions, optim::AdamWParamState>(
      *this, [](const auto&... arguments) { at::_fused_adamw_(arguments...); });
  return loss;
}

at::Tensor FusedSGD::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss = loss_of(closure);
  for (optim::OptimizerParamGroup& group : param_groups()) {
    const auto& options = static_cast<const optim::SGDOptions&>(group.options());
    // At the first step of a parameter, its momentum is its gradient. So parameters at their first step need
    // a separate call of the kernel.
    for (const bool first_step : {false, true}) {
      ListsByKind all;
      for (const at::Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) continue;
        const auto found = state().find(parameter.unsafeGetTensorImpl());
        const bool is_first = options.momentum() != 0 && found == state().end();
        if (is_first != first_step) continue;
        check_parameter(parameter);
        Lists& lists = lists_for(all, parameter);
        lists.parameters.push_back(parameter);
        lists.grads.push_back(like_in_memory(parameter.grad(), parameter));
        if (is_first) lists.first.push_back(at::empty_like(parameter));
        if (!is_first && options.momentum() != 0)
          lists.first.push_back(state_of<optim::SGDParamState>(*this, parameter).momentum_buffer());
      }
      for (auto& [kind, lists] : all) {
        at::_fused_sgd_(lists.parameters, lists.grads, lists.first, options.weight_decay(),
                        options.momentum(), options.lr(), options.dampening(), options.nesterov(),
                        /*maximize=*/false, first_step);
        for (std::size_t i = 0; first_step && i < lists.parameters.size(); ++i)
          state_of<optim::SGDParamState>(*this, lists.parameters[i]).momentum_buffer(lists.first[i]);
      }
    }
  }
  return loss;
}

}  // namespace muster
