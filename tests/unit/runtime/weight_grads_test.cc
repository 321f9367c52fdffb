// Gradients of inputs now and of weights later equal those of plain autograd. In float64, they are equal bit
// for bit after one microbatch, unless a test says otherwise; sums over several microbatches are equal to
// 1e-12.
#include "runtime/pipeline/weight_grads.h"

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <functional>
#include <gmock/gmock.h>
#include <optional>
#include <source_location>
#include <string>
#include <thread>
#include <torch/torch.h>
#include <vector>

#include "examples/char_lm/gpt.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Forward = std::function<Tensor(const Tensor&)>;

const auto kDouble = torch::TensorOptions(torch::kDouble);

Tensors gradients_of(const Tensors& tensors) {
  Tensors gradients;
  for (const Tensor& each : tensors)
    gradients.push_back(each.grad().defined() ? each.grad().clone() : Tensor());
  return gradients;
}
void forget_gradients(const Tensors& tensors) {
  for (const Tensor& each : tensors) each.mutable_grad() = Tensor();
}
MATCHER_P(EqualsBitForBit, other, "") {
  return at::equal(arg, other);
}
// `tolerance` 0: bit for bit.
void expect_equal(const Tensors& actual, const Tensors& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("number " + std::to_string(i));
    ASSERT_EQ(actual[i].defined(), expected[i].defined());
    if (!actual[i].defined()) continue;
    EXPECT_EQ(actual[i].dtype(), expected[i].dtype());
    EXPECT_EQ(actual[i].strides(), expected[i].strides());
    const Tensor difference = (actual[i] - expected[i]).abs();
    EXPECT_TRUE(at::allclose(actual[i], expected[i], tolerance, tolerance))
        << actual[i].sizes() << ", largest difference "
        << (difference.numel() > 0 ? difference.max() : difference);
  }
}

// The loss's gradient, always the same for a shape.
Tensor some_gradient(const Tensor& output) {
  return torch::linspace(-1.0, 1.0, output.numel(), kDouble).sin().view(output.sizes()).to(output.dtype());
}

// Runs it both ways, with two microbatches each, and compares.
void expect_as_plain(const Forward& forward, const Tensor& input, const Tensors& parameters,
                     double tolerance = 0.0,
                     const std::source_location& where = std::source_location::current()) {
  SCOPED_TRACE("line " + std::to_string(where.line()));
  Tensors inputs;
  if (input.requires_grad()) inputs.push_back(input);
  const Tensor expected = forward(input);
  expected.backward(some_gradient(expected));
  const Tensors input_gradients = gradients_of(inputs);
  const Tensors weight_gradients = gradients_of(parameters);
  forget_gradients(inputs);
  const Tensor again = forward(input);
  again.backward(some_gradient(again) * 0.5);
  const Tensors sums = gradients_of(parameters);
  forget_gradients(inputs);
  forget_gradients(parameters);

  WeightGrads grads;
  const auto deferred = [&] {
    const WeightGrads::Deferring deferring(grads);
    return forward(input);
  };
  const Tensor output = deferred();
  EXPECT_THAT(output, EqualsBitForBit(expected));
  EXPECT_TRUE(output.requires_grad());
  EXPECT_TRUE(grads.empty());
  output.backward(some_gradient(output));
  expect_equal(gradients_of(inputs), input_gradients, tolerance);
  for (const Tensor& each : parameters) EXPECT_FALSE(each.grad().defined());
  EXPECT_FALSE(grads.empty());
  for (const Tensor& each : parameters) EXPECT_EQ(grads.defers(each), each.requires_grad());
  grads.compute();
  EXPECT_TRUE(grads.empty());
  expect_equal(gradients_of(parameters), weight_gradients, tolerance);
  expect_equal(gradients_of(inputs), input_gradients, tolerance);

  forget_gradients(inputs);
  const Tensor second = deferred();
  second.backward(some_gradient(second) * 0.5);
  expect_equal(gradients_of(parameters), weight_gradients, tolerance);
  grads.compute();
  expect_equal(gradients_of(parameters), sums, tolerance == 0.0 ? 1e-12 : tolerance);
  forget_gradients(inputs);
  forget_gradients(parameters);
}

template <class Module>
void expect_module_as_plain(Module module, const Tensor& input, double tolerance = 0.0,
                            const std::source_location& where = std::source_location::current()) {
  module->to(input.is_floating_point() ? input.scalar_type() : torch::kDouble);
  expect_as_plain([&](const Tensor& tensor) { return module->forward(tensor); }, input, module->parameters(),
                  tolerance, where);
}
Tensor random(at::IntArrayRef sizes) {
  return torch::randn(sizes, kDouble).requires_grad_();
}

TEST(WeightGrads, OfLinearLayersEqualPlainAutograd) {
  torch::manual_seed(1);
  nn::Linear with_bias(5, 3);
  nn::Linear without_bias(nn::LinearOptions(5, 3).bias(false));
  for (auto linear : {with_bias, without_bias}) {
    SCOPED_TRACE(linear->options.bias() ? "with bias" : "without");
    expect_module_as_plain(linear, random({4, 5}));
    expect_module_as_plain(linear, random({2, 4, 5}));
    expect_module_as_plain(linear, random({2, 3, 4, 5}));
    expect_module_as_plain(linear, random({5}), 1e-12);  // plain autograd multiplies a matrix and a vector
    expect_module_as_plain(linear, random({0, 5}));
    expect_module_as_plain(linear, random({4, 5}).detach());  // a first layer
    const Tensor leaf = random({4, 2, 5});
    expect_as_plain([&](const Tensor& input) { return linear->forward(input.transpose(0, 1)); }, leaf,
                    linear->parameters(), 1e-12);  // plain autograd adds one product for each example
    expect_as_plain([&](const Tensor& input) { return linear->forward(input).sum(); }, random({4, 5}),
                    linear->parameters());  // an expanded gradient
  }
}

TEST(WeightGrads, OfProductsEqualPlainAutograd) {
  torch::manual_seed(1);
  const Tensor weight = random({3, 5});
  const Tensor bias = random({3});
  const auto by = [&](const Forward& forward, at::IntArrayRef sizes) {
    expect_as_plain(forward, random(sizes), {weight, bias});
  };
  by([&](const Tensor& input) { return at::linear(input, weight, bias); }, {4, 5});
  by([&](const Tensor& input) { return at::linear(input, weight, bias); }, {2, 4, 5});
  const Tensor matrix = random({5, 3});
  expect_as_plain([&](const Tensor& input) { return input.matmul(matrix); }, random({2, 4, 5}), {matrix});
  expect_as_plain([&](const Tensor& input) { return input.matmul(matrix) += bias; }, random({2, 4, 5}),
                  {matrix, bias});
}

TEST(WeightGrads, AreRightIfABiasIsAddedToAUsedOutput) {
  torch::manual_seed(1);
  nn::Linear linear(5, 3);
  linear->to(torch::kDouble);
  const auto forward = [&](const Tensor& input) {
    Tensor output = input.matmul(linear->weight.t());
    const Tensor before = output * 3;
    output += linear->bias;
    return output + before;
  };
  const Tensor input = random({4, 5});
  forward(input).sum().backward();
  const Tensors expected = gradients_of(linear->parameters());
  linear->zero_grad();
  WeightGrads grads;
  {
    const WeightGrads::Deferring deferring(grads);
    forward(input).sum().backward();
  }
  grads.compute();
  expect_equal(gradients_of(linear->parameters()), expected, 0.0);
}

TEST(WeightGrads, OfConvolutionsEqualPlainAutograd) {
  torch::manual_seed(1);
  expect_module_as_plain(nn::Conv1d(nn::Conv1dOptions(4, 6, 3).padding(1)), random({2, 4, 9}));
  expect_module_as_plain(nn::Conv2d(nn::Conv2dOptions(4, 6, 3)), random({2, 4, 8, 8}));
  expect_module_as_plain(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).stride(2).padding(2).dilation(2).groups(2)),
                         random({2, 4, 9, 9}));
  expect_module_as_plain(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).bias(false).padding(torch::kSame)),
                         random({2, 4, 8, 8}));
  expect_module_as_plain(nn::Conv2d(nn::Conv2dOptions(4, 6, 2).padding(torch::kSame)), random({2, 4, 8, 8}));
  expect_module_as_plain(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).padding(1).padding_mode(torch::kCircular)),
                         random({4, 8, 8}));  // no batch
  expect_module_as_plain(nn::Conv2d(4, 6, 3), random({2, 4, 8, 8}).detach());
  expect_module_as_plain(nn::Conv3d(nn::Conv3dOptions(2, 4, 2).stride(2)), random({2, 2, 4, 4, 4}));
  expect_module_as_plain(nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3)), random({2, 4, 9}));
  expect_module_as_plain(
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 6, 3).stride(2).output_padding(1).groups(2)),
      random({2, 4, 5, 5}));
  nn::Conv2d channels_last(4, 6, 3);
  channels_last->to(torch::kDouble);
  channels_last->weight.set_data(channels_last->weight.contiguous(at::MemoryFormat::ChannelsLast));
  expect_module_as_plain(
      channels_last,
      torch::randn({2, 4, 8, 8}, kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_());
}

TEST(WeightGrads, OfEmbeddingsEqualPlainAutograd) {
  torch::manual_seed(1);
  const Tensor indices = torch::tensor({{3, 1, 3}, {0, 2, 3}});
  expect_module_as_plain(nn::Embedding(5, 4), indices);
  expect_module_as_plain(nn::Embedding(nn::EmbeddingOptions(5, 4).padding_idx(1)), indices);
  expect_module_as_plain(nn::Embedding(nn::EmbeddingOptions(5, 4).scale_grad_by_freq(true)), indices);
}

TEST(WeightGrads, OfNormsEqualPlainAutograd) {
  torch::manual_seed(1);
  expect_module_as_plain(nn::LayerNorm(nn::LayerNormOptions({6})), random({2, 3, 6}));
  expect_module_as_plain(nn::LayerNorm(nn::LayerNormOptions({3, 6})), random({2, 3, 6}));
  expect_module_as_plain(nn::LayerNorm(nn::LayerNormOptions({6})), random({4, 6}).detach());
  expect_module_as_plain(nn::BatchNorm1d(4), random({6, 4}));
  expect_module_as_plain(nn::BatchNorm2d(4), random({2, 4, 5, 5}));
  expect_module_as_plain(nn::BatchNorm2d(4), random({2, 4, 5, 5}).detach());
  expect_module_as_plain(nn::BatchNorm3d(2), random({2, 2, 3, 3, 3}));
  nn::BatchNorm2d evaluating(4);
  evaluating->eval();
  expect_module_as_plain(evaluating, random({2, 4, 5, 5}));
  expect_module_as_plain(nn::GroupNorm(2, 4), random({2, 4, 5, 5}));
  expect_module_as_plain(nn::GroupNorm(4, 4), random({3, 4}).detach());
}

TEST(WeightGrads, LeaveRunningStatisticsAsOneForwardLeavesThem) {
  torch::manual_seed(1);
  const Tensor input = torch::randn({6, 4});
  nn::BatchNorm1d plain(4);
  nn::BatchNorm1d deferred(4);
  plain->forward(input).sum().backward();
  WeightGrads grads;
  {
    const WeightGrads::Deferring deferring(grads);
    deferred->forward(input).sum().backward();
  }
  grads.compute();
  EXPECT_THAT(deferred->running_mean, EqualsBitForBit(plain->running_mean));
  EXPECT_THAT(deferred->running_var, EqualsBitForBit(plain->running_var));
  EXPECT_EQ(deferred->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(WeightGrads, AreOnlyForParametersThatNeedThem) {
  torch::manual_seed(1);
  for (const bool weight : {true, false}) {
    SCOPED_TRACE(weight ? "weights only" : "biases only");
    const auto freeze = [&](auto module) {
      (weight ? module->bias : module->weight).set_requires_grad(false);
      return module;
    };
    expect_module_as_plain(freeze(nn::Linear(5, 3)), random({4, 5}));
    expect_module_as_plain(freeze(nn::Conv2d(4, 6, 3)), random({2, 4, 8, 8}));
    expect_module_as_plain(freeze(nn::LayerNorm(nn::LayerNormOptions({6}))), random({2, 3, 6}));
    expect_module_as_plain(freeze(nn::BatchNorm1d(4)), random({6, 4}));
    expect_module_as_plain(freeze(nn::GroupNorm(2, 4)), random({2, 4, 5, 5}));
  }
  nn::Linear frozen(5, 3);
  for (Tensor& each : frozen->parameters()) each.set_requires_grad(false);
  WeightGrads grads;
  const Tensor input = torch::randn({2, 5}).requires_grad_();
  {
    const WeightGrads::Deferring deferring(grads);
    frozen->forward(input).sum().backward();
  }
  EXPECT_TRUE(input.grad().defined());
  EXPECT_TRUE(grads.empty());
  EXPECT_FALSE(grads.defers(frozen->weight));
}

// Requires that backward() computes the gradients although they are deferred.
void expect_not_deferred(const Forward& forward, const Tensor& input, const Tensors& parameters) {
  forward(input).sum().backward();
  const Tensors expected = gradients_of(parameters);
  forget_gradients(parameters);
  WeightGrads grads;
  const WeightGrads::Deferring deferring(grads);
  forward(input).sum().backward();
  EXPECT_TRUE(grads.empty());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_FALSE(grads.defers(parameters[i]));
    ASSERT_TRUE(parameters[i].grad().defined());
    EXPECT_THAT(parameters[i].grad().to_dense(), EqualsBitForBit(expected[i].to_dense()));
  }
  forget_gradients(parameters);
}

TEST(WeightGrads, AreComputedAtOnceIfALayerIsNotSeparable) {
  torch::manual_seed(1);
  const Tensor input = torch::randn({4, 5});
  const Tensor weight = torch::randn({3, 5}).requires_grad_();
  expect_not_deferred([&](const Tensor& x) { return weight.matmul(x.t()); }, input, {weight});
  expect_not_deferred([&](const Tensor& x) { return F::linear(x, weight * 2); }, input, {weight});
  expect_not_deferred([&](const Tensor& x) { return at::linear(x, weight * 2); }, input, {weight});
  const Tensor bias = torch::randn({4, 3}).requires_grad_();
  const auto addmm = [&](const Tensor& x) { return at::addmm(bias, x, weight.t()); };
  expect_not_deferred(addmm, input, {weight, bias});
  nn::Embedding sparse(nn::EmbeddingOptions(5, 4).sparse(true));
  expect_not_deferred([&](const Tensor& x) { return sparse->forward(x); }, torch::tensor({1, 3}),
                      sparse->parameters());
  const Tensor complex = torch::randn({3, 5}, at::kComplexDouble).requires_grad_();
  expect_not_deferred([&](const Tensor& x) { return at::real(at::linear(x, complex)); },
                      torch::randn({4, 5}, at::kComplexDouble), {complex});
  nn::PReLU prelu;
  expect_not_deferred([&](const Tensor& x) { return prelu->forward(x); }, input, prelu->parameters());
  nn::Linear hooked(5, 3);
  int calls = 0;
  for (Tensor& each : hooked->parameters()) each.register_hook([&](const Tensor&) { ++calls; });
  expect_not_deferred([&](const Tensor& x) { return hooked->forward(x); }, input, hooked->parameters());
  EXPECT_EQ(calls, 4);
}

TEST(WeightGrads, WaitOnlyForForwardPassesThatDeferOnThisThread) {
  nn::Linear linear(5, 3);
  const Tensor input = torch::randn({4, 5});
  WeightGrads grads;
  WeightGrads inner;
  {
    const WeightGrads::Deferring deferring(grads);
    {
      const torch::NoGradGuard no_grad;
      EXPECT_FALSE(linear->forward(input).requires_grad());
    }
    {
      const torch::InferenceMode inference;
      EXPECT_FALSE(linear->forward(input).requires_grad());
    }
    std::thread([&] { linear->forward(input).sum().backward(); }).join();
    EXPECT_TRUE(linear->weight.grad().defined());
    linear->zero_grad();
    {
      const WeightGrads::Deferring innermost(inner);
      linear->forward(input).sum().backward();
    }
    EXPECT_FALSE(inner.empty());
    EXPECT_TRUE(grads.empty());
    linear->forward(input).sum().backward();
    EXPECT_FALSE(grads.empty());
  }
  EXPECT_FALSE(linear->weight.grad().defined());
  linear->forward(input).sum().backward();
  EXPECT_TRUE(linear->weight.grad().defined());
}

TEST(WeightGrads, OfSeveralMicrobatchesAreComputedInAnyOrder) {
  torch::manual_seed(1);
  nn::Sequential model(nn::Linear(5, 7), nn::Tanh(), nn::Linear(7, 3));
  model->to(torch::kDouble);
  Tensors inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(random({6, 5}));
  for (const Tensor& input : inputs) model->forward(input).pow(2).sum().backward();
  const Tensors expected = gradients_of(model->parameters());
  const Tensors input_gradients = gradients_of(inputs);
  forget_gradients(model->parameters());
  forget_gradients(inputs);

  std::vector<WeightGrads> grads(4);
  Tensors outputs;
  for (std::size_t i = 0; i < 4; ++i) {
    const WeightGrads::Deferring deferring(grads[i]);
    outputs.push_back(model->forward(inputs[i]).pow(2).sum());
  }
  outputs[1].backward();
  std::thread([&] { outputs[0].backward(); }).join();
  grads[0].compute();
  outputs[3].backward();
  grads[3].compute();
  outputs[2].backward();
  grads[1].compute();
  grads[2].compute();
  expect_equal(gradients_of(model->parameters()), expected, 1e-12);
  expect_equal(gradients_of(inputs), input_gradients, 0.0);
}

// Two layers share its weight.
TEST(WeightGrads, OfALayerUsedTwiceAreSummed) {
  torch::manual_seed(1);
  nn::Linear linear(5, 5);
  linear->to(torch::kDouble);
  expect_as_plain(
      [&](const Tensor& input) {
        return F::linear(linear->forward(linear->forward(input).relu_()), linear->weight);
      },
      random({4, 5}), linear->parameters(), 1e-12);
}

TEST(WeightGrads, OfAWholeTransformerEqualPlainAutograd) {
  torch::manual_seed(1);
  const Tensor text = torch::randint(11, {3, 6}, torch::kLong);
  // The table of characters is used twice.
  expect_module_as_plain(Gpt(GptOptions{.vocabulary = 11, .context = 6, .width = 16, .dropout = 0}), text,
                         1e-12);
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(16, 4).dropout(0)), 2);
  expect_module_as_plain(encoder, random({6, 3, 16}), 1e-12);
}

nn::Sequential small_conv_net() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)), nn::BatchNorm2d(8),
                        nn::ReLU(nn::ReLUOptions().inplace(true)), nn::MaxPool2d(2),
                        nn::Conv2d(nn::Conv2dOptions(8, 8, 3).groups(2)), nn::GroupNorm(2, 8),
                        nn::ReLU(nn::ReLUOptions().inplace(true)), nn::Flatten(), nn::Linear(72, 5));
}

TEST(WeightGrads, OfAWholeConvolutionalNetEqualPlainAutograd) {
  torch::manual_seed(1);
  expect_module_as_plain(small_conv_net(), random({2, 3, 10, 10}));
  expect_module_as_plain(small_conv_net(), torch::randn({2, 3, 10, 10}).requires_grad_(), 1e-5);
  expect_module_as_plain(small_conv_net(), torch::randn({2, 3, 10, 10}, torch::kBFloat16), 0.05);
}

TEST(WeightGrads, UnderAutocastHaveTheTypeOfTheirParameters) {
  torch::manual_seed(1);
  const auto under_autocast = [](nn::Sequential model) {
    return [model](const Tensor& input) mutable {
      at::autocast::set_autocast_enabled(at::kCPU, true);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      const Tensor output = model->forward(input);
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
      EXPECT_EQ(output.dtype(), at::kBFloat16);
      return output;
    };
  };
  nn::Sequential net = small_conv_net();
  expect_as_plain(under_autocast(net), torch::randn({2, 3, 10, 10}).requires_grad_(), net->parameters(),
                  1e-6);
  nn::Sequential transformer(Gpt(GptOptions{.vocabulary = 11, .context = 6, .width = 16, .dropout = 0}));
  expect_as_plain(under_autocast(transformer), torch::randint(11, {3, 6}, torch::kLong),
                  transformer->parameters(), 1e-6);
}

TEST(WeightGrads, KeepActivationsOnlyUntilTheyAreComputed) {
  nn::Linear linear(5, 3);
  WeightGrads grads;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> activation;
  {
    const Tensor input = torch::randn({4, 5}).requires_grad_();
    const Tensor hidden = input * 2;
    activation.emplace(hidden.storage().getWeakStorageImpl());
    const WeightGrads::Deferring deferring(grads);
    linear->forward(hidden).sum().backward();
  }
  EXPECT_FALSE(activation->expired());
  grads.compute();
  EXPECT_TRUE(activation->expired());
}

TEST(WeightGrads, KeepNoGraphAlive) {
  nn::Linear linear(5, 3);
  WeightGrads grads;
  std::optional<compat::WeakNodePtr> before;
  {
    const Tensor hidden = torch::randn({4, 5}).requires_grad_() * 2;
    before.emplace(hidden.grad_fn());
    const WeightGrads::Deferring deferring(grads);
    linear->forward(hidden).sum().backward();
  }
  EXPECT_TRUE(before->expired());
}

template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST(WeightGrads, ThrowInsteadOfGivingWrongGradients) {
  using testing::HasSubstr;
  nn::Linear linear(5, 3);
  const Tensor input = torch::randn({4, 5});
  WeightGrads grads;
  std::optional<WeightGrads> gone(std::in_place);
  Tensor output;
  Tensor orphan;
  {
    const WeightGrads::Deferring deferring(grads);
    output = linear->forward(input);
  }
  {
    const WeightGrads::Deferring deferring(*gone);
    orphan = linear->forward(input);
  }
  gone.reset();
  EXPECT_THAT(error_of([&] { orphan.sum().backward(); }), HasSubstr("no longer exists"));
  EXPECT_THAT(error_of([&] { output.sum().backward({}, true, true); }), HasSubstr("create_graph"));
  output.sum().backward();
  EXPECT_THAT(error_of([&] { output.sum().backward(); }), HasSubstr("second time"));
  input.add_(1.0);
  EXPECT_THAT(error_of([&] { grads.compute(); }), HasSubstr("modified by an inplace operation"));
}

TEST(WeightGrads, LetProfilersSeeALayerOnce) {
  nn::Linear linear(5, 3);
  static std::vector<std::string> seen;
  seen.clear();
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                                -> std::unique_ptr<at::ObserverContext> {
                                   seen.emplace_back(function.name());
                                   return nullptr;
                                 }).scopes({at::RecordScope::FUNCTION}));
  WeightGrads grads;
  {
    const WeightGrads::Deferring deferring(grads);
    linear->forward(torch::ones({4, 5}));
  }
  at::removeCallback(handle);
  EXPECT_EQ(std::ranges::count(seen, "aten::addmm"), 1) << testing::PrintToString(seen);
}

}  // namespace
}  // namespace muster
