#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

struct ConvNetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& images) {
    const auto x = torch::relu(norm(conv(images)));
    return linear(dropout(x.flatten(1)));
  }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4 * 6 * 6, 10));
};
TORCH_MODULE(ConvNet);

// Words to words, with one table for inputs and outputs.
struct TiedImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& words) {
    const auto rest = std::get<0>(memory(words_in(words)));
    return torch::matmul(body->forward(rest), words_in->weight.t());
  }
  torch::nn::Embedding words_in = register_module("words_in", torch::nn::Embedding(50, 8));
  torch::nn::LSTM memory =
      register_module("memory", torch::nn::LSTM(torch::nn::LSTMOptions(8, 8).batch_first(true)));
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})),
                                                    torch::nn::GELU(), torch::nn::Linear(8, 8)));
};
TORCH_MODULE(Tied);

// A Sequential inside another one: its forward() must not be a template.
struct InnerImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  torch::Tensor forward(const torch::Tensor& x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Inner);

const LayerSummary& layer(const ModelSummary& summary, const std::string& name) {
  for (const LayerSummary& each : summary.layers)
    if (each.name == name) return each;
  throw std::runtime_error("the summary has no layer " + name);
}

TEST(Summary, KnowsTheShapesOfLayersWithParametersAndOfTheModel) {
  ConvNet net;
  const ModelSummary all = summary(net, {2, 1, 8, 8});
  std::vector<std::string> names, types;
  for (const LayerSummary& each : all.layers) {
    names.push_back(each.name);
    types.push_back(each.type);
  }
  EXPECT_THAT(names, ElementsAre("", "conv", "norm", "dropout", "linear"));
  EXPECT_THAT(types, ElementsAre("ConvNet", "Conv2d", "BatchNorm2d", "Dropout", "Linear"));
  EXPECT_EQ(layer(all, "").output_shape, (Shape{2, 10}));
  EXPECT_EQ(layer(all, "conv").output_shape, (Shape{2, 4, 6, 6}));
  EXPECT_EQ(layer(all, "norm").output_shape, (Shape{2, 4, 6, 6}));
  EXPECT_EQ(layer(all, "dropout").output_shape, std::nullopt) << "no operator shows its output";
  EXPECT_EQ(layer(all, "linear").output_shape, (Shape{2, 10}));
}

TEST(Summary, CountsParametersAndBytes) {
  ConvNet net;
  net->conv->weight.set_requires_grad(false);
  const ModelSummary all = summary(net, torch::zeros({2, 1, 8, 8}));
  EXPECT_EQ(layer(all, "conv").parameters, 40);
  EXPECT_EQ(layer(all, "conv").trainable, 4);
  EXPECT_EQ(all.parameters, 40 + 8 + 1450);
  EXPECT_EQ(all.trainable, all.parameters - 36);
  EXPECT_EQ(all.parameter_bytes, 4 * all.parameters);
  EXPECT_EQ(all.gradient_bytes, 4 * all.trainable);
  EXPECT_EQ(all.buffer_bytes, 2 * 4 * 4 + 8) << "mean and variance, and a count of 64 bits";
  // At least the inputs of the layers are kept: those of norm, relu's result, and the flat one.
  EXPECT_GE(all.activation_bytes.value_or(0), 2 * 4 * (2 * 4 * 6 * 6));
  EXPECT_GE(all.peak_bytes.value_or(0), all.activation_bytes.value_or(0));
  EXPECT_LT(all.peak_bytes.value_or(0), 1 << 20);
}

TEST(Summary, SeesEmbeddingsRecurrentLayersAndLayersInASequential) {
  Tied net;
  const ModelSummary all = summary(net, torch::zeros({3, 5}, torch::kLong));
  EXPECT_EQ(layer(all, "").output_shape, (Shape{3, 5, 50}));
  EXPECT_EQ(layer(all, "words_in").output_shape, (Shape{3, 5, 8}))
      << "not the shape of the weight's later use";
  EXPECT_EQ(layer(all, "memory").output_shape, (Shape{3, 5, 8}));
  EXPECT_EQ(layer(all, "body").output_shape, (Shape{3, 5, 8}));
  EXPECT_EQ(layer(all, "body.1").output_shape, (Shape{3, 5, 8})) << "a GELU has no parameters";
  EXPECT_EQ(layer(all, "body.2").depth, 2);
  EXPECT_EQ(layer(all, "words_in").parameters, 400);
}

TEST(Summary, HasAllShapesOfASequential) {
  torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(64, 16),
                            Inner(torch::nn::ReLU(), torch::nn::Dropout(0.1)), torch::nn::Linear(16, 10));
  const ModelSummary all = summary(net, {7, 1, 8, 8});
  for (const LayerSummary& each : all.layers) EXPECT_TRUE(each.output_shape.has_value()) << each.name;
  EXPECT_EQ(layer(all, "0").output_shape, (Shape{7, 64}));
  EXPECT_EQ(layer(all, "2.1").output_shape, (Shape{7, 16}));
}

TEST(Summary, CountsASharedParameterOnce) {
  torch::nn::Linear shared(8, 8);
  torch::nn::Sequential net;
  net->push_back(shared);
  net->push_back(shared);
  const ModelSummary all = summary(net, {1, 8});
  EXPECT_EQ(all.parameters, 72);
  EXPECT_EQ(layer(all, "1").parameters, 0);
}

TEST(Summary, WithoutInputsHasParametersOnly) {
  ConvNet net;
  const ModelSummary all = summary(net);
  EXPECT_EQ(all.parameters, 1498);
  EXPECT_EQ(layer(all, "conv").output_shape, std::nullopt);
  EXPECT_EQ(all.activation_bytes, std::nullopt);
}

TEST(Summary, LeavesModelAndRandomNumbersUnchanged) {
  ConvNet net;
  net->dropout->eval();
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  summary(net, torch::ones({2, 1, 8, 8}));
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
  EXPECT_TRUE(net->is_training());
  EXPECT_TRUE(net->norm->is_training());
  EXPECT_FALSE(net->dropout->is_training());
  EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 0);
  EXPECT_FALSE(net->conv->weight.grad().defined());
}

TEST(Summary, RethrowsTheModelsErrorAndLeavesItUnchanged) {
  ConvNet net;
  EXPECT_THROW(summary(net, {2, 3, 8, 8}), c10::Error);
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(layer(summary(net, {2, 1, 8, 8}), "conv").output_shape, (Shape{2, 4, 6, 6}));
}

TEST(Summary, IsPrintedAsATable) {
  ConvNet net;
  net->linear->weight.set_requires_grad(false);
  const std::string table = summary(net, {2, 1, 8, 8}).table();
  for (const char* line :
       {"layer      type         output shape  parameters\n", "ConvNet    ConvNet      [2, 10]       -\n",
        "  conv     Conv2d       [2, 4, 6, 6]  40\n", "  dropout  Dropout      -             -\n",
        "  linear   Linear       [2, 10]       1,450 frozen\n",
        "1,498 parameters: 58 trainable, 1,440 frozen\n",
        "memory: parameters 0.01 MiB, gradients 0.00 MiB, buffers 0.00 MiB, activations 0.0"}) {
    EXPECT_THAT(table, HasSubstr(line));
  }
}

}  // namespace
}  // namespace muster
