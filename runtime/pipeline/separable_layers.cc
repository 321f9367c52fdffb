#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/batch_norm_ops.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/group_norm_ops.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <array>
#include <torch/library.h>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/pipeline/separable_layer.h"

namespace muster::detail {
namespace {

using torch::autograd::SavedVariable;

// Computes input [*, in] times matrix [in, out], plus a bias [out].
class Linear : public SeparableLayer {
 public:
  Linear(const at::Tensor& input, const at::Tensor& matrix, GradientSource&& weight, at::Tensor&& bias)
      : input_(saved(input)), matrix_(saved(matrix)), weight_(std::move(weight)), bias_(std::move(bias)) {
    (*deferring_to)->meet(weight_.leaf);
    (*deferring_to)->meet(bias_);
  }

  at::Tensor input_gradient(const at::Tensor& gradient) override {
    const at::Tensor rows = as_rows(gradient).mm(matrix_.unpack().t());
    if (gradient.dim() == 2) return rows;
    auto sizes = gradient.sizes().vec();
    sizes.back() = rows.size(1);
    return rows.view(sizes);
  }
  void add_weight_gradients(at::Tensor&& gradient) override {
    const at::Tensor rows = as_rows(gradient);
    if (weight_.leaf.defined()) {
      const at::Tensor inputs = as_rows(input_.unpack());
      if (weight_.transposed)
        add_product(rows, inputs);
      else
        add_product(inputs, rows);
    }
    if (bias_.defined()) add_gradient(bias_, rows.sum(0));
  }
  bool take_bias(const at::Tensor& leaf) override {
    if (bias_.defined()) return false;
    bias_ = leaf;
    (*deferring_to)->meet(leaf);
    return true;
  }

 private:
  static at::Tensor as_rows(const at::Tensor& tensor) {
    if (tensor.dim() == 2) return tensor;
    return tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor.flatten(0, -2);
  }
  void add_product(const at::Tensor& left, const at::Tensor& right) {
    at::Tensor& sum = weight_.leaf.mutable_grad();
    if (sum.defined() && sum.layout() == at::kStrided && sum.scalar_type() == left.scalar_type() &&
        sum.device() == left.device())
      sum.addmm_(left.t(), right);
    else
      add_gradient(weight_.leaf, left.t().mm(right));
  }

  SavedVariable input_, matrix_;
  GradientSource weight_;
  at::Tensor bias_;
};

// Runs a linear layer's operator. Defers the layer's weight gradients if that is possible.
template <class Operator, class... Arguments>
at::Tensor linear_by(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& matrix,
                     const OptionalTensor& bias, const Arguments&... arguments) {
  // Complex numbers are excluded, because their gradients need conjugates, which Linear does not compute.
  const bool separable = defers(keys) && matrix.dim() == 2 && !input.is_complex() && !matrix.is_complex();
  auto weight = separable ? source_of(matrix) : std::nullopt;
  auto bias_leaf = weight ? leaf_of(bias) : std::nullopt;
  if (!bias_leaf || !(weight->leaf.defined() || bias_leaf->defined()))
    return Operator::redispatch(keys & kBelowDeferring, arguments...);
  at::Tensor output = forward_only<Operator>(keys, arguments...);
  set_layer(output, input,
            std::make_shared<Linear>(input, matrix, std::move(*weight), std::move(*bias_leaf)));
  return output;
}

at::Tensor linear(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight,
                  const OptionalTensor& bias) {
  if (weight.dim() != 2 || !defers(keys))
    return at::_ops::linear::redispatch(keys & kBelowDeferring, input, weight, bias);
  return linear_by<at::_ops::linear>(keys, input, weight.t(), bias, input, weight, bias);
}

// The C++ function torch::nn::functional::linear() does not call the operator linear. It calls the three
// operators below.
at::Tensor addmm(c10::DispatchKeySet keys, const at::Tensor& bias, const at::Tensor& input,
                 const at::Tensor& matrix, const at::Scalar& beta, const at::Scalar& alpha) {
  if (bias.dim() != 1 || bias.size(0) != matrix.size(1) || !beta.equal(1) || !alpha.equal(1))
    return at::_ops::addmm::redispatch(keys & kBelowDeferring, bias, input, matrix, beta, alpha);
  return linear_by<at::_ops::addmm>(keys, input, matrix, bias, bias, input, matrix, beta, alpha);
}

at::Tensor matmul(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& matrix) {
  return linear_by<at::_ops::matmul>(keys, input, matrix, std::nullopt, input, matrix);
}

at::Tensor& add_in_place(c10::DispatchKeySet keys, at::Tensor& output, const at::Tensor& bias,
                         const at::Scalar& alpha) {
  if (defers(keys) && bias.dim() == 1 && output.dim() > 0 && bias.size(0) == output.size(-1) &&
      alpha.equal(1) && bias.requires_grad()) {
    SeparableLayer* layer = layer_of_unused(output);
    const auto leaf = layer != nullptr ? leaf_of(bias) : std::nullopt;
    if (leaf && layer->take_bias(*leaf)) {
      const at::AutoDispatchBelowAutograd below;
      return at::_ops::add__Tensor::redispatch(keys & c10::after_autograd_keyset, output, bias, alpha);
    }
  }
  return at::_ops::add__Tensor::redispatch(keys & kBelowDeferring, output, bias, alpha);
}

struct ConvolutionForm {
  using Sizes = c10::SymIntArrayRef;
  explicit ConvolutionForm(const std::tuple<Sizes, Sizes, Sizes, bool, Sizes, c10::SymInt>& form)
      : stride(C10_AS_INTARRAYREF_SLOW(std::get<0>(form)).vec()),
        padding(C10_AS_INTARRAYREF_SLOW(std::get<1>(form)).vec()),
        dilation(C10_AS_INTARRAYREF_SLOW(std::get<2>(form)).vec()),
        transposed(std::get<3>(form)),
        output_padding(C10_AS_INTARRAYREF_SLOW(std::get<4>(form)).vec()),
        groups(std::get<5>(form).guard_int(__FILE__, __LINE__)) {}

  std::vector<std::int64_t> stride, padding, dilation;
  bool transposed;
  std::vector<std::int64_t> output_padding;
  std::int64_t groups;
};

// A layer whose gradients of input, weight and bias come from one backward operator. The mask `wanted` says
// which of them the operator computes.
class MaskedLayer : public SeparableLayer {
 public:
  explicit MaskedLayer(Leaves&& leaves) : leaves_(std::move(leaves)) {}

  at::Tensor input_gradient(const at::Tensor& gradient) override {
    return std::get<0>(backward(gradient, {true, false, false}));
  }
  void add_weight_gradients(at::Tensor&& gradient) override {
    auto [input, weight, bias] =
        backward(gradient, {false, leaves_.weight.defined(), leaves_.bias.defined()});
    add_gradient(leaves_.weight, std::move(weight));
    add_gradient(leaves_.bias, std::move(bias));
  }

 private:
  virtual std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient,
                                                                  std::array<bool, 3> wanted) = 0;
  Leaves leaves_;
};

class Convolution : public MaskedLayer {
 public:
  Convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias, Leaves&& leaves,
              ConvolutionForm&& form)
      : MaskedLayer(std::move(leaves)),
        input_(saved(input)),
        weight_(saved(weight)),
        bias_sizes_(bias && bias->defined() ? bias->sizes().vec() : std::vector<std::int64_t>{0}),
        form_(std::move(form)) {}

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient,
                                                          std::array<bool, 3> wanted) override {
    return at::convolution_backward(gradient, input_.unpack(), weight_.unpack(), bias_sizes_, form_.stride,
                                    form_.padding, form_.dilation, form_.transposed, form_.output_padding,
                                    form_.groups, wanted);
  }

  SavedVariable input_, weight_;
  std::vector<std::int64_t> bias_sizes_;
  ConvolutionForm form_;
};

template <class... Form>
at::Tensor convolution(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight,
                       const OptionalTensor& bias, Form... form) {
  auto leaves = leaves_of(keys, weight, bias);
  if (!leaves) return at::_ops::convolution::redispatch(keys & kBelowDeferring, input, weight, bias, form...);
  at::Tensor output = forward_only<at::_ops::convolution>(keys, input, weight, bias, form...);
  set_layer(output, input,
            std::make_shared<Convolution>(input, weight, bias, std::move(*leaves),
                                          ConvolutionForm(std::tuple<Form...>(form...))));
  return output;
}

class Embedding : public SeparableLayer {
 public:
  Embedding(const at::Tensor& indices, Leaves&& leaves, std::int64_t padding_index, bool scaled)
      : indices_(saved(indices)),
        leaves_(std::move(leaves)),
        padding_index_(padding_index),
        scaled_(scaled) {}

  at::Tensor input_gradient(const at::Tensor& /*gradient*/) override { return {}; }
  void add_weight_gradients(at::Tensor&& gradient) override {
    add_gradient(leaves_.weight,
                 at::embedding_dense_backward(gradient, indices_.unpack(), leaves_.weight.size(0),
                                              padding_index_, scaled_));
  }

 private:
  SavedVariable indices_;
  Leaves leaves_;
  std::int64_t padding_index_;
  bool scaled_;
};

at::Tensor embedding(c10::DispatchKeySet keys, const at::Tensor& weight, const at::Tensor& indices,
                     c10::SymInt padding_index, bool scaled_by_frequency, bool sparse) {
  auto leaves = sparse ? std::nullopt : leaves_of(keys, weight, std::nullopt);
  if (!leaves)
    return at::_ops::embedding::redispatch(keys & kBelowDeferring, weight, indices, std::move(padding_index),
                                           scaled_by_frequency, sparse);
  at::Tensor output =
      forward_only<at::_ops::embedding>(keys, weight, indices, padding_index, scaled_by_frequency, sparse);
  set_layer(output, at::Tensor(),
            std::make_shared<Embedding>(indices, std::move(*leaves),
                                        padding_index.guard_int(__FILE__, __LINE__), scaled_by_frequency));
  return output;
}

class LayerNorm : public MaskedLayer {
 public:
  LayerNorm(const std::array<at::Tensor, 5>& tensors, std::vector<std::int64_t>&& shape, Leaves&& leaves)
      : MaskedLayer(std::move(leaves)), shape_(std::move(shape)) {
    for (std::size_t i = 0; i < tensors.size(); ++i) saved_[i] = saved(tensors[i]);
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient,
                                                          std::array<bool, 3> wanted) override {
    const auto& [input, mean, deviation, weight, bias] = saved_;
    return at::native_layer_norm_backward(gradient, input.unpack(), shape_, mean.unpack(), deviation.unpack(),
                                          weight.unpack(), bias.unpack(), wanted);
  }

  std::array<SavedVariable, 5> saved_;  // input, mean, reciprocal of the deviation, weight, bias
  std::vector<std::int64_t> shape_;
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(c10::DispatchKeySet keys, const at::Tensor& input,
                                                          c10::SymIntArrayRef shape,
                                                          const OptionalTensor& weight,
                                                          const OptionalTensor& bias, double eps) {
  auto leaves = leaves_of(keys, weight, bias);
  if (!leaves)
    return at::_ops::native_layer_norm::redispatch(keys & kBelowDeferring, input, shape, weight, bias, eps);
  auto outputs = forward_only<at::_ops::native_layer_norm>(keys, input, shape, weight, bias, eps);
  const std::array tensors{input, std::get<1>(outputs), std::get<2>(outputs), weight.value_or(at::Tensor()),
                           bias.value_or(at::Tensor())};
  set_layer(std::get<0>(outputs), input,
            std::make_shared<LayerNorm>(tensors, C10_AS_INTARRAYREF_SLOW(shape).vec(), std::move(*leaves)));
  return outputs;
}

// Stands in for a parameter of a norm layer. backward() computes the gradient, but does not add it to the
// parameter. That is deferred.
class Replaced : public SeparableLayer {
 public:
  explicit Replaced(at::Tensor leaf) : leaf_(std::move(leaf)) {}
  at::Tensor input_gradient(const at::Tensor& /*gradient*/) override { return {}; }
  void add_weight_gradients(at::Tensor&& gradient) override { add_gradient(leaf_, std::move(gradient)); }

 private:
  at::Tensor leaf_;
};

OptionalTensor replaced(const OptionalTensor& parameter, const at::Tensor& leaf) {
  if (!leaf.defined()) return parameter;
  at::Tensor stand_in = parameter->tensor_data();
  set_layer(stand_in, at::Tensor(), std::make_shared<Replaced>(leaf));
  return stand_in;
}

template <class... Rest>
at::Tensor batch_norm(c10::DispatchKeySet keys, const at::Tensor& input, const OptionalTensor& weight,
                      const OptionalTensor& bias, Rest... rest) {
  const auto leaves = leaves_of(keys, weight, bias).value_or(Leaves());
  return at::_ops::batch_norm::redispatch(keys & kBelowDeferring, input, replaced(weight, leaves.weight),
                                          replaced(bias, leaves.bias), rest...);
}

template <class... Rest>
at::Tensor group_norm(c10::DispatchKeySet keys, const at::Tensor& input, std::int64_t groups,
                      const OptionalTensor& weight, const OptionalTensor& bias, Rest... rest) {
  const auto leaves = leaves_of(keys, weight, bias).value_or(Leaves());
  return at::_ops::group_norm::redispatch(keys & kBelowDeferring, input, groups,
                                          replaced(weight, leaves.weight), replaced(bias, leaves.bias),
                                          rest...);
}

// Intercepts the operators of the lowest level that autograd knows. So a call through a higher level is
// intercepted too, such as conv2d() with padding "same". linear() is an exception. It
// consists of operators that other code calls, too, so linear() itself is intercepted.
void add_kernels(torch::Library& library) {
  using Sizes = c10::SymIntArrayRef;
  library.impl("linear", TORCH_FN(linear));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("matmul", TORCH_FN(matmul));
  library.impl("add_.Tensor", TORCH_FN(add_in_place));
  library.impl("convolution", TORCH_FN((convolution<Sizes, Sizes, Sizes, bool, Sizes, c10::SymInt>)));
  library.impl("embedding", TORCH_FN(embedding));
  library.impl("native_layer_norm", TORCH_FN(layer_norm));
  library.impl(
      "batch_norm",
      TORCH_FN((batch_norm<const OptionalTensor&, const OptionalTensor&, bool, double, double, bool>)));
  library.impl("group_norm", TORCH_FN((group_norm<double, bool>)));
}

}  // namespace

void intercept_separable_layers() {
  // Never unregisters the kernels, because other threads can still compute while the process ends.
  [[maybe_unused]] static const auto* const libraries = [] {
    auto* added = new std::array<torch::Library, 2>{
        torch::Library(torch::Library::IMPL, "_", kDeferringKey, __FILE__, __LINE__),
        torch::Library(torch::Library::IMPL, "aten", kDeferringKey, __FILE__, __LINE__)};
    (*added)[0].fallback(torch::CppFunction::makeFallthrough());
    add_kernels((*added)[1]);
    return added;
  }();
}

}  // namespace muster::detail
