// Compares networks with torchvision's: weights that Python has written to a file load by name and give the
// same logits.
#include <cstdlib>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/checkpoint/load_model.h>
#include <muster/vision/models.h>
#include <sys/wait.h>

#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr std::int64_t kHidden = 64;  // as in models_parity.py
constexpr std::int64_t kClasses = 7;

// The batch and the logits that the file has in addition to the weights.
struct Answer : torch::nn::Module {
  Answer() {
    images = register_buffer("images", torch::empty({2, 3, 32, 32}));
    logits = register_buffer("logits", torch::empty({2, kClasses}));
    logits_bf16 = register_buffer("logits_bf16", torch::empty({2, kClasses}, torch::kBFloat16));
  }
  at::Tensor images, logits, logits_bf16;
};

template <class Net>
void compare(const std::string& folder, const std::string& name, Net net) {
  SCOPED_TRACE(name);
  const std::string file = folder + "/" + name + ".safetensors";
  const auto loaded = load_model(net, file, {.strict = false});
  EXPECT_THAT(loaded.missing, ElementsAre());
  EXPECT_THAT(loaded.unexpected, ElementsAre("x.images", "x.logits", "x.logits_bf16"));
  Answer answer;
  load_model(answer, file, {.strict = false, .rename = {{"", "x."}}});
  const torch::NoGradGuard no_grad;
  net->eval();
  const at::Tensor logits = net->forward(answer.images);
  const double scale = answer.logits.abs().max().template item<double>();
  EXPECT_GT(scale, 1e-3);
  EXPECT_LT((logits - answer.logits).abs().max().template item<double>(), 1e-5 * std::max(1.0, scale));
  const auto casting = autocast(torch::kCPU, {.dtype = torch::kBFloat16});
  EXPECT_TRUE(net->forward(answer.images).equal(answer.logits_bf16)) << "under autocast";
}

models::VGG small_vgg(int layers, bool batch_norm) {
  return models::VGG(
      models::VGGOptions{.layers = layers, .batch_norm = batch_norm, .hidden = kHidden, .classes = kClasses});
}

TEST(ModelsParity, TorchvisionsWeightsLoadByNameAndGiveItsLogits) {
  ScratchDirectory scratch;
  const std::string command =
      fmt::format("{} -B {} {}", MUSTER_TORCH_PYTHON, MODELS_PARITY_SCRIPT, scratch.path().string());
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "torchvision is not installed";
  ASSERT_EQ(status, 0);
  torch::set_num_threads(1);
  const std::string folder = scratch.path();
  compare(folder, "resnet18", models::resnet18(kClasses));
  compare(folder, "resnet34", models::resnet34(kClasses));
  compare(folder, "resnet50", models::resnet50(kClasses));
  compare(folder, "vgg11", small_vgg(11, false));
  compare(folder, "vgg19_bn", small_vgg(19, true));
  compare(folder, "vit",
          models::VisionTransformer(models::VisionTransformerOptions{.image_size = 32,
                                                                     .patch_size = 8,
                                                                     .layers = 3,
                                                                     .heads = 4,
                                                                     .width = 64,
                                                                     .hidden = 96,
                                                                     .classes = kClasses}));

  // The error names the tensors that do not fit, and the model is unchanged.
  auto other = models::resnet18(5);
  const std::string before = bytes_of(*other);
  const std::string file = folder + "/resnet18.safetensors";
  EXPECT_THAT([&] { load_model(other, file); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(
                  "does not fit the module; of another shape: fc.bias [7] for [5], fc.weight [7, 512] for "
                  "[5, 512]; the module lacks: x.images, x.logits, x.logits_bf16")));
  EXPECT_EQ(bytes_of(*other), before);
  EXPECT_THAT([&] { load_model(other, file, {.best = true}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("step, best and name are for checkpoints")));
  write_bytes(scratch / "not.safetensors", "no header");
  EXPECT_THAT([&] { load_model(other, scratch / "not.safetensors"); },
              ThrowsMessage<std::runtime_error>(
                  StartsWith("load_model: cannot use " + scratch / "not.safetensors" + ": ")));
}

// For VGG's other two networks: without the head, as torchvision counts them.
TEST(Models, HaveTorchvisionsNumbersOfParameters) {
  const auto count = [](int layers) {
    std::int64_t all = 0;
    for (const auto& each : small_vgg(layers, false)->named_parameters())
      if (each.key().starts_with("features.")) all += each.value().numel();
    return all;
  };
  EXPECT_EQ(count(13), 9'404'992);
  EXPECT_EQ(count(16), 14'714'688);
}

TEST(Models, RefuseWrongOptions) {
  EXPECT_THAT([] { models::VGG(models::VGGOptions{.layers = 12}); },
              ThrowsMessage<std::invalid_argument>("VGG: layers is 12; it must be 11, 13, 16 or 19"));
  EXPECT_THAT(
      [] { models::VisionTransformer(models::VisionTransformerOptions{.image_size = 30}); },
      ThrowsMessage<std::invalid_argument>("VisionTransformer: patches of 16 do not divide images of 30"));
}

TEST(Linear, IsATorchLinearAlsoAsACopy) {
  torch::nn::Sequential net(Linear(4, 3), torch::nn::ReLU());
  net->named_parameters()["0.bias"].set_requires_grad(false);
  init_weights(net, {.linear = initializers::normal(2.0)});
  EXPECT_GT(net->named_parameters()["0.weight"].abs().max().item<double>(), 0.6)
      << "the child was found as a linear layer";
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  const at::Tensor x = at::randn({2, 5, 4});
  EXPECT_TRUE(copy->forward(x).equal(net->forward(x)));
  EXPECT_FALSE(copy->named_parameters()["0.bias"].requires_grad());
  copy->named_parameters()["0.weight"].set_data(at::zeros({3, 4}));
  EXPECT_FALSE(copy->forward(x).equal(net->forward(x)));
  EXPECT_NE(copy->ptr(0)->as<torch::nn::Linear>(), nullptr);
}

}  // namespace
}  // namespace muster
