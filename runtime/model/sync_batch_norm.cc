// The layers of LibTorch call at::batch_norm(). torch's dispatcher, which finds the function for each
// operator, first calls the function that is registered for autograd. When the first layer is converted,
// put_in_kernels() replaces this function by batch_norm_of_all(), which looks at the running mean of the
// layer. If the running mean has a SyncMark, batch_norm_of_all() uses the group in the mark. Otherwise it
// calls PyTorch's function.

#include <ATen/ops/batch_norm_native.h>
#include <fmt/format.h>
#include <map>
#include <muster/comm/collectives.h>
#include <muster/model/sync_batch_norm.h>
#include <stdexcept>
#include <torch/library.h>
#include <torch/torch.h>

#include "runtime/model/batch_norm_layer.h"

namespace muster {
namespace {

// Marks a running mean with its group. The mark is a hook of the tensor. A hook lives as long as its tensor,
// and Module::to() keeps it. Nothing calls this hook, because a running mean has no gradient.
struct SyncMark : torch::autograd::FunctionPreHook {
  explicit SyncMark(Group of) : group(std::move(of)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    return gradients;
  }
  Group group;
};

const SyncMark* sync_mark_of(const at::Tensor& running_mean) {
  if (!running_mean.defined() || torch::autograd::impl::get_autograd_meta(running_mean) == nullptr)
    return nullptr;
  const SyncMark* last = nullptr;
  for (const auto& hook : torch::autograd::impl::hooks(running_mean))
    if (const auto* const mark = dynamic_cast<const SyncMark*>(hook.get())) last = mark;
  return last;
}

// Holds the group in autograd's context, for the backward pass.
struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(Group of) : group(std::move(of)) {}
  Group group;
};

// Returns all dimensions except dimension 1. Dimension 1 is that of the features.
std::vector<std::int64_t> reduced_dimensions(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}
at::Tensor along_features(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}
at::ScalarType computed_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct BatchStatistics {
  at::Tensor mean, variance;  // over all ranks' values, as double
  double count = 0;
};

// Combines the statistics of all ranks by Chan's formula. This is as exact as computing them from all values
// at once.
BatchStatistics statistics_of_all(const Group& group, const at::Tensor& input) {
  const std::int64_t features = input.size(1);
  const auto doubles = input.options().dtype(at::kDouble);
  at::Tensor mine = at::zeros({2 * features + 1}, doubles);
  if (input.numel() > 0) {
    const auto [variance, mean] =
        at::var_mean(input.to(computed_type(input)), reduced_dimensions(input), /*unbiased=*/false);
    mine.narrow(0, 0, features).copy_(mean);
    mine.narrow(0, features, features).copy_(variance);
    mine.narrow(0, 2 * features, 1).fill_(static_cast<double>(input.numel() / features));
  }
  const at::Tensor all = at::empty({group.size(), 2 * features + 1}, doubles);
  all_gather_into_tensor(group, all.view({-1}), mine);
  const at::Tensor means = all.narrow(1, 0, features), variances = all.narrow(1, features, features),
                   counts = all.narrow(1, 2 * features, 1);
  const double count = counts.sum().item<double>();
  if (count < 2)
    throw std::invalid_argument(fmt::format(
        "SyncBatchNorm: the batches of all ranks have {} values for each feature; training needs at least 2",
        static_cast<std::int64_t>(count)));
  const at::Tensor mean = (means * counts).sum(0) / count;
  return {mean, ((variances + (means - mean).square()) * counts).sum(0) / count, count};
}

struct Layer {
  at::Tensor running_mean, running_var;
  double momentum, eps;
  Group group;
};

class SyncBatchNormFunction : public torch::autograd::Function<SyncBatchNormFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                            const Layer& layer) {
    const BatchStatistics of_all = statistics_of_all(layer.group, input);
    const at::ScalarType type = computed_type(input);
    layer.running_mean.mul_(1 - layer.momentum)
        .add_(of_all.mean.to(layer.running_mean.scalar_type()), layer.momentum);
    layer.running_var.mul_(1 - layer.momentum)
        .add_(of_all.variance.to(layer.running_var.scalar_type()),
              layer.momentum * of_all.count / (of_all.count - 1));
    context->save_for_backward({input, weight.value_or(at::Tensor()), of_all.mean.to(type),
                                (of_all.variance + layer.eps).rsqrt().to(type)});
    context->saved_data["count"] = of_all.count;
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<GroupHolder>(layer.group));
    if (input.numel() == 0) return at::empty_like(input);
    const auto as_computed = [&](const std::optional<at::Tensor>& each) {
      return each ? std::optional(each->to(type)) : std::nullopt;
    };
    return at::batch_norm(input, as_computed(weight), as_computed(bias), of_all.mean.to(type),
                          of_all.variance.to(type), /*training=*/false, 0, layer.eps,
                          /*cudnn_enabled=*/false);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    if (at::GradMode::is_enabled())
      throw std::logic_error("SyncBatchNorm: its gradients cannot be differentiated again");
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3];
    const double count = context->saved_data["count"].toDouble();
    const auto group =
        c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
    const auto dimensions = reduced_dimensions(input);
    const at::Tensor grad = outputs[0].to(mean.scalar_type());
    const at::Tensor centred = input.to(mean.scalar_type()) - along_features(mean, input);
    const at::Tensor grad_sum = grad.sum(dimensions), product_sum = (grad * centred).sum(dimensions);
    torch::autograd::variable_list gradients(4);
    if (weight.defined()) {
      gradients[1] = (product_sum * inverse_deviation).to(weight.scalar_type());
      gradients[2] = grad_sum.to(weight.scalar_type());
    }
    // If the layer is the first one of a model, its input needs no gradient. This is so on all ranks. So all
    // of them return here, and no rank waits in all_reduce().
    if (!context->needs_input_grad(0)) return gradients;
    const at::Tensor sums = at::cat({grad_sum, product_sum});
    all_reduce(group->group, sums);
    sums.div_(count);
    const at::Tensor of_all = sums.narrow(0, 0, mean.numel());
    const at::Tensor slope = sums.narrow(0, mean.numel(), mean.numel()) * inverse_deviation.square();
    const at::Tensor factor = weight.defined() ? inverse_deviation * weight : inverse_deviation;
    gradients[0] = (grad - along_features(of_all, input) - centred * along_features(slope, input))
                       .mul_(along_features(factor, input))
                       .to(input.scalar_type());
    return gradients;
  }
};

at::Tensor batch_norm_of_all(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                             const std::optional<at::Tensor>& bias,
                             const std::optional<at::Tensor>& running_mean,
                             const std::optional<at::Tensor>& running_var, bool training, double momentum,
                             double eps, bool cudnn_enabled) {
  const SyncMark* const mark = training && running_mean ? sync_mark_of(*running_mean) : nullptr;
  if (mark == nullptr || mark->group.size() == 1)
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                                  cudnn_enabled);
  const auto given = [](const std::optional<at::Tensor>& each) {
    return each && each->defined() ? each : std::nullopt;
  };
  return SyncBatchNormFunction::apply(input, given(weight), given(bias),
                                      Layer{*running_mean, *running_var, momentum, eps, mark->group});
}

// The first call registers this file's kernels with torch. Nothing removes the kernels at the end of the
// process, because torch may then already have destroyed its tables of kernels.
void put_in_kernels() {
  static const bool done = [] {
    for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      auto* const library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      library->impl("batch_norm", TORCH_FN(batch_norm_of_all));
    }
    return true;
  }();
  static_cast<void>(done);
}

void require_statistics(const std::string& name, const at::Tensor& running_mean) {
  if (!running_mean.defined())
    throw std::invalid_argument(fmt::format(
        "SyncBatchNorm: '{}' keeps no running statistics (track_running_stats), which eval() needs", name));
}

void mark_layer(const at::Tensor& running_mean, const Group& group) {
  put_in_kernels();
  torch::autograd::impl::clear_hooks(running_mean);  // removes the mark of an earlier conversion
  torch::autograd::impl::add_hook(running_mean, std::make_unique<SyncMark>(group));
}

}  // namespace

template <class Layer>
void SyncBatchNormImpl::take(const Layer& layer) {
  if (options.affine()) {
    parameters_["weight"] = weight = layer.weight;
    parameters_["bias"] = bias = layer.bias;
  }
  running_mean.set_data(layer.running_mean);
  running_var.set_data(layer.running_var);
  num_batches_tracked.set_data(layer.num_batches_tracked);
  train(layer.is_training());
}

// Checks all layers before it converts the first one. So if a layer cannot be converted, no layer has
// changed.
void detail::synchronize_batch_norms(torch::nn::Module& module, const Group& group) {
  std::vector<std::pair<std::string, at::Tensor>> layers;
  std::vector<torch::nn::SequentialImpl*> sequentials;
  const auto look_at = [&](const std::string& name, torch::nn::Module& each) {
    const auto add = [&](const auto& layer) {
      layers.emplace_back(name.empty() ? each.name() : name, layer.running_mean);
    };
    with_batch_norm(each, add);
    if (auto* const sequential = each.as<torch::nn::SequentialImpl>()) sequentials.push_back(sequential);
  };
  module.apply(torch::nn::Module::NamedModuleApplyFunction(look_at));
  for (const auto& [name, running_mean] : layers) require_statistics(name, running_mean);
  for (const auto& [name, running_mean] : layers) mark_layer(running_mean, group);
  std::map<const torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>>
      replaced;  // one for each layer, even if it is in several Sequentials
  for (torch::nn::SequentialImpl* const sequential : sequentials) {
    const std::vector<std::string> names = sequential->named_children().keys();
    for (std::size_t i = 0; i < names.size(); ++i) {
      torch::nn::AnyModule& place = *(sequential->begin() + static_cast<std::ptrdiff_t>(i));
      if (place.ptr()->as<SyncBatchNormImpl>() != nullptr) continue;
      with_batch_norm(*place.ptr(), [&](const auto& layer) {
        auto& sync = replaced[&layer];
        if (sync == nullptr) {
          sync = std::make_shared<SyncBatchNormImpl>(layer.options, group);
          sync->take(layer);
        }
        sequential->replace_module(names[i], sync);
        place = torch::nn::AnyModule(sync);
      });
    }
  }
}

bool detail::is_synchronized(const at::Tensor& running_mean) {
  return sync_mark_of(running_mean) != nullptr;
}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, Group group)
    : BatchNormImplBase(options), group_(std::move(group)) {
  require_statistics("SyncBatchNorm", running_mean);
  mark_layer(running_mean, group_);
}

void SyncBatchNormImpl::reset() {
  BatchNormImplBase::reset();
  mark_layer(running_mean, group_);
}

// Does the same as LibTorch's forward(). But LibTorch refuses a batch that has only one value for each
// feature. This function accepts it, because other ranks can have more values.
at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  double momentum = options.momentum().value_or(0);
  if (is_training()) {
    num_batches_tracked += 1;
    if (!options.momentum()) momentum = 1 / num_batches_tracked.item<double>();
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, is_training(), momentum,
                        options.eps(), at::globalContext().userEnabledCuDNN());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("muster::SyncBatchNorm({}, eps={}, momentum={}, affine={})", options.num_features(),
                        options.eps(), options.momentum() ? fmt::format("{}", *options.momentum()) : "None",
                        options.affine());
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() < 2)
    throw std::invalid_argument(
        fmt::format("SyncBatchNorm: the input has {} dimensions; it must have at least 2", input.dim()));
}

}  // namespace muster
