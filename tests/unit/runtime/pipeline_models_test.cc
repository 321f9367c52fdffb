// The models of the pipeline examples, and models with stages on several devices of one process.
#include <cmath>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <muster/pipeline/pipeline_devices.h>
#include <muster/vision/models.h>
#include <stdexcept>
#include <torch/torch.h>

#include "examples/char_lm/gpt.h"

namespace muster {
namespace {

using at::Tensor;
using models::ResNet;
using models::ResNetOptions;

// Equals waves() in resnet_golden.py.
Tensor waves(at::IntArrayRef shape, double phase) {
  return torch::sin(torch::arange(c10::multiply_integers(shape), at::kDouble) * 0.7 + phase).reshape(shape);
}

void fill(const std::string& name, int place, const Tensor& tensor) {
  if (name.ends_with("num_batches_tracked")) return;
  Tensor values = waves(tensor.sizes(), place);
  if (tensor.dim() > 1)
    values *= std::sqrt(0.2 / static_cast<double>(tensor[0].numel()));
  else if (!name.ends_with("bias") && !name.ends_with("running_mean"))
    values = 1 + values / 2;
  tensor.copy_(values);
}

std::string shape_of(const Tensor& tensor) {
  return tensor.dim() == 0 ? "-" : fmt::format("{}", fmt::join(tensor.sizes(), ","));
}

TEST(ResNet50, EqualsTorchvisions) {
  ResNet net;
  net->to(at::kDouble);
  std::map<std::string, Tensor> tensors;
  for (const auto& each : net->named_parameters()) tensors[each.key()] = each.value();
  for (const auto& each : net->named_buffers()) tensors[each.key()] = each.value();
  EXPECT_EQ(tensors.size(), 320U);

  struct Line {
    std::string name, shape;
    double value = 0;
  };
  std::vector<Line> lines;
  std::ifstream file(MUSTER_RESNET_GOLDEN);
  for (Line line; file >> line.name >> line.shape >> line.value;) lines.push_back(line);
  ASSERT_EQ(lines.size(), 324U);
  int place = 0;
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 320; ++i) {
      ASSERT_TRUE(tensors.contains(lines[i].name)) << lines[i].name;
      EXPECT_EQ(shape_of(tensors[lines[i].name]), lines[i].shape) << lines[i].name;
      fill(lines[i].name, place++, tensors[lines[i].name]);
    }
  }
  const Tensor images = waves({2, 3, 65, 48}, 0.5);
  net->eval();
  const Tensor evaluated = net(images).detach();
  net->train();
  const Tensor logits = net(images);
  (logits * waves(logits.sizes(), 0.25)).sum().backward();

  place = 0;
  for (const Line& line : lines) {
    const bool is_row = line.name == "training" || line.name == "evaluation";
    Tensor value;
    if (is_row) {
      const Tensor row = (line.name == "training" ? logits : evaluated)[std::stol(line.shape)];
      value = (row * waves(row.sizes(), 0.75)).sum();
    } else {
      const Tensor& tensor = tensors[line.name];
      value =
          tensor.requires_grad() ? (waves(tensor.sizes(), place + 1) * tensor.grad()).sum() : tensor.sum();
    }
    ++place;
    const double found = value.item<double>();
    EXPECT_NEAR(found, line.value, 1e-7 * std::max(1e-3, std::abs(line.value))) << line.name;
  }
}

TEST(ResNet50, ParametersHaveTorchvisionsOrderAndInitialValues) {
  torch::manual_seed(1);
  ResNet net(ResNetOptions{.blocks = {1, 1, 1, 1}, .width = 32, .classes = 10});
  std::vector<std::string> names;
  for (const auto& each : net->named_parameters()) names.push_back(each.key());
  EXPECT_THAT(
      std::vector<std::string>(names.begin(), names.begin() + 13),
      testing::ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
                           "layer1.0.bn1.weight", "layer1.0.bn1.bias", "layer1.0.conv2.weight",
                           "layer1.0.bn2.weight", "layer1.0.bn2.bias", "layer1.0.conv3.weight",
                           "layer1.0.bn3.weight", "layer1.0.bn3.bias", "layer1.0.downsample.0.weight"));
  EXPECT_EQ(names.back(), "fc.bias");
  for (const auto& each : net->named_parameters()) {
    const Tensor& value = each.value();
    if (value.dim() == 4) {
      const double fan_out = static_cast<double>(value.numel()) / static_cast<double>(value.size(1));
      EXPECT_NEAR(value.std().item<double>() * std::sqrt(fan_out / 2), 1, 0.1) << each.key();
    } else if (!each.key().starts_with("fc.")) {
      EXPECT_TRUE(value.eq(each.key().ends_with("bias") ? 0 : 1).all().item<bool>()) << each.key();
    }
  }
}

// The stages of the layers, cut before the layers with these numbers.
std::vector<std::shared_ptr<StageModule>> stages_of(const PipelineLayers& layers, std::vector<int> cuts) {
  std::vector<std::shared_ptr<StageModule>> stages;
  cuts.push_back(layers.size());
  int first = 0;
  for (const int last : cuts) stages.push_back(layers.build(std::exchange(first, last), last));
  return stages;
}

template <class Values>
std::map<std::string, Tensor> by_name(const Values& values) {
  std::map<std::string, Tensor> named;
  for (const auto& each : values) named[each.key()] = each.value();
  return named;
}

void expect_equal(const std::map<std::string, Tensor>& found, const std::map<std::string, Tensor>& expected,
                  bool of_gradients) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const Tensor& other = found.at(name);
    EXPECT_TRUE(of_gradients ? other.grad().equal(value.grad()) : other.equal(value)) << name;
  }
}

// Compares a model with its list of layers; parameters of equal names have equal values.
template <class Model>
void expect_layers_to_be(Model& undivided, const PipelineLayers& layers, const Tensor& input) {
  for (int cut = 1; cut < layers.size(); ++cut) {
    SCOPED_TRACE(cut);
    const auto stages = stages_of(layers, {cut});
    std::map<std::string, Tensor> parts;
    const torch::NoGradGuard no_grad;
    for (const auto& stage : stages)
      for (const auto& [name, value] : by_name(stage->named_parameters())) {
        ASSERT_TRUE(undivided->named_parameters().contains(name)) << name;
        value.copy_(undivided->named_parameters()[name]);
        parts[name] = value;
      }
    EXPECT_EQ(parts.size(), undivided->named_parameters().size());
    torch::manual_seed(3);
    const Tensor whole = undivided(input);
    torch::manual_seed(3);
    EXPECT_TRUE(stages[1]->forward(stages[0]->forward({input})).at(0).equal(whole));
  }
}

TEST(Gpt, EqualsItsLayersInSequence) {
  torch::manual_seed(2);
  const GptOptions options{.vocabulary = 11, .context = 8, .width = 16, .heads = 2, .layers = 3};
  Gpt net(options);
  expect_layers_to_be(net, gpt_layers(options, 4), torch::randint(11, {4, 8}));
}

TEST(Gpt, LayersHaveInitialValuesOfTheSameDistributions) {
  const GptOptions options{.vocabulary = 90, .context = 64, .width = 64, .layers = 2};
  Gpt net(options);
  const auto layers = by_name(gpt_layers(options, 4).build(0, 4)->named_parameters());
  for (const auto& [name, value] : by_name(net->named_parameters())) {
    const Tensor& other = layers.at(name);
    if (value.std().item<double>() == 0)
      EXPECT_TRUE(other.equal(value)) << name;
    else
      EXPECT_NEAR(other.std().item<double>() / value.std().item<double>(), 1, 0.1) << name;
  }
}

// In the middle of layer1 and of layer3.
const std::vector<int> kCuts{2, 5};
constexpr ResNetOptions kSmall{.blocks = {2, 1, 2, 1}, .width = 4, .classes = 5};

TEST(ResNet50, EqualsItsLayersInSequence) {
  EXPECT_EQ(models::resnet_layers({}).size(), 18);
  ResNet net(kSmall);
  expect_layers_to_be(net, PipelineLayers(models::resnet_layers(kSmall), 6), torch::randn({2, 3, 48, 48}));
}

std::shared_ptr<StageModule> undivided_resnet() {
  auto whole = PipelineLayers(models::resnet_layers(kSmall), 5).build(0, 8);
  whole->to(at::kDouble);
  return whole;
}

std::vector<DeviceStage> resnet_on_devices() {
  std::vector<DeviceStage> stages;
  for (const auto& stage : stages_of(PipelineLayers(models::resnet_layers(kSmall), 5), kCuts)) {
    stage->to(at::kDouble);
    stages.emplace_back(stage, at::kCPU);
  }
  return stages;
}

TEST(ModelParallel, EqualsTheUndividedModel) {
  const auto undivided = undivided_resnet();
  ModelParallel model(resnet_on_devices());
  const Tensor images = torch::randn({6, 3, 32, 32}, at::kDouble);
  const Tensor expected = undivided->forward({images}).at(0);
  const Tensor logits = model.forward(images);
  EXPECT_TRUE(logits.equal(expected));
  expected.square().sum().backward();
  logits.square().sum().backward();
  expect_equal(by_name(model.named_parameters()), by_name(undivided->named_parameters()), true);
  expect_equal(by_name(model.named_buffers()), by_name(undivided->named_buffers()), false);
}

TEST(ModelParallel, PutsAllStagesIntoEvalMode) {
  struct Doubled : torch::nn::Module {
    Tensor forward(const Tensor& x) { return is_training() ? 2 * x : x; }
  };
  ModelParallel model({{std::make_shared<Doubled>(), at::kCPU}, {Doubled(), at::kCPU}});
  EXPECT_EQ(model.forward(torch::ones({1})).item<double>(), 4);
  model.eval();
  EXPECT_EQ(model.forward(torch::ones({1})).item<double>(), 1);
  model.train();
  EXPECT_EQ(model.forward(torch::ones({1})).item<double>(), 4);
}

TEST(ModelParallel, TakesASequentialAsAStage) {
  struct Pair : torch::nn::Module {
    std::tuple<Tensor, Tensor> forward(const Tensor& x) { return {x, 2 * x}; }
  };
  struct Sum : torch::nn::Module {
    Tensor forward(const Tensor& x, const Tensor& y) { return x + y; }
  };
  torch::nn::Sequential first(torch::nn::Linear(3, 3), torch::nn::ReLU());
  ModelParallel model(
      {{first, at::kCPU}, {Pair(), at::kCPU}, {torch::nn::Sequential(Sum(), torch::nn::Tanh()), at::kCPU}});
  const Tensor x = torch::randn({2, 3});
  EXPECT_TRUE(model.forward(x).equal(torch::tanh(first->forward(x) * 3)));
}

TEST(ModelParallel, RefusesTwoTensorsOfOneName) {
  torch::nn::Linear shared(2, 2);
  EXPECT_NO_THROW(ModelParallel({{shared, at::kCPU}, {shared, at::kCPU}}));
  try {
    ModelParallel model({{torch::nn::Sequential(torch::nn::Linear(2, 2)), at::kCPU},
                         {torch::nn::Sequential(torch::nn::Linear(2, 2)), at::kCPU}});
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "ModelParallel: two stages each have a 0.weight, and these are different tensors: "
                 "give the modules in the stages other names, such as those of the undivided model");
  }
  EXPECT_THROW(ModelParallel({}), std::invalid_argument);
}

TEST(PipelineParallel, EqualsTheUndividedModelOnEachPartOfTheBatch) {
  for (const std::int64_t split_size : {1, 2, 3, 4, 7, 20}) {
    SCOPED_TRACE(split_size);
    const auto undivided = undivided_resnet();
    PipelineParallel model(resnet_on_devices(), split_size);
    const Tensor images = torch::randn({7, 3, 48, 48}, at::kDouble);
    std::vector<Tensor> parts;
    for (const Tensor& part : images.split(split_size)) parts.push_back(undivided->forward({part}).at(0));
    const Tensor expected = torch::cat(parts);
    const Tensor logits = model.forward(images);
    EXPECT_TRUE(logits.equal(expected));
    expected.square().sum().backward();
    logits.square().sum().backward();
    for (const auto& [name, parameter] : by_name(undivided->named_parameters()))
      EXPECT_TRUE(torch::allclose(by_name(model.named_parameters())[name].grad(), parameter.grad(), 1e-10))
          << name;
    expect_equal(by_name(model.named_buffers()), by_name(undivided->named_buffers()), false);
  }
}

TEST(PipelineParallel, ComputesTheNextPartInTheStageBefore) {
  std::vector<std::string> order;
  struct Note : torch::nn::Module {
    Note(std::string of, std::vector<std::string>& notes) : name(std::move(of)), order(&notes) {}
    Tensor forward(const Tensor& x) {
      order->push_back(name + std::to_string(x[0].item<std::int64_t>()));
      return x;
    }
    std::string name;
    std::vector<std::string>* order;
  };
  PipelineParallel model({{Note("a", order), at::kCPU}, {Note("b", order), at::kCPU}}, 1);
  EXPECT_TRUE(model.forward(torch::arange(3)).equal(torch::arange(3)));
  EXPECT_THAT(order, testing::ElementsAre("a0", "a1", "b0", "a2", "b1", "b2"));
}

TEST(PipelineParallel, RefusesInputsThatItCannotCut) {
  EXPECT_THROW(PipelineParallel({{torch::nn::Linear(2, 2), at::kCPU}}, 0), std::invalid_argument);
  struct Sum : torch::nn::Module {
    Tensor forward(const Tensor& a, const Tensor& b) { return a + b; }
  };
  PipelineParallel model({{Sum(), at::kCPU}}, 2);
  const Tensor three = torch::arange(3);
  EXPECT_TRUE(model.forward(std::vector<Tensor>{three, three}).at(0).equal(2 * three));
  EXPECT_THROW(model.forward(std::vector<Tensor>{torch::ones({4, 1}), torch::ones({2, 1})}),
               std::invalid_argument);
}

}  // namespace
}  // namespace muster
