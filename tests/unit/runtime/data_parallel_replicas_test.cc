// Compares DataParallel with several copies of a model on the CPU with the model itself.
#include <barrier>
#include <gmock/gmock.h>
#include <muster/parallel/data_parallel.h>
#include <torch/torch.h>

namespace muster {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

std::vector<c10::Device> cpus(int count) {
  return std::vector<c10::Device>(static_cast<std::size_t>(count), c10::Device(c10::kCPU));
}

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    torch::manual_seed(5);
    first = register_module("first", torch::nn::Linear(6, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(16).momentum(1.0)));
    second = register_module("second", torch::nn::Linear(16, 3));
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x, double scale) { return second(torch::relu(norm(first(x)))) * scale; }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

Tensor inputs(int count) {
  torch::manual_seed(9);
  return torch::randn({count, 6}, torch::kDouble);
}

void expect_same_gradients(const NetImpl& left, const NetImpl& right) {
  for (std::size_t i = 0; i < left.parameters().size(); ++i)
    EXPECT_TRUE(torch::allclose(left.parameters()[i].grad(), right.parameters()[i].grad(), 1e-12, 1e-14))
        << i;
}

TEST(DataParallel, TrainsAsOneProcessDoes) {
  auto net = std::make_shared<NetImpl>(), alone = std::make_shared<NetImpl>();
  net->norm->eval();  // in train mode its result depends on the size of the batch
  alone->norm->eval();
  DataParallel<NetImpl> model(net, cpus(3));
  torch::optim::Adam optimizer(net->parameters(), 0.01), other(alone->parameters(), 0.01);
  for (int step = 0; step < 5; ++step) {
    const Tensor x = inputs(8 - step);  // parts of 3, 3 and 2; the last batch of 2 and 2
    optimizer.zero_grad();
    other.zero_grad();
    const Tensor output = model(x, 2.0);
    EXPECT_TRUE(torch::allclose(output, alone->forward(x, 2.0), 1e-12, 1e-14));
    output.pow(2).mean().backward();
    alone->forward(x, 2.0).pow(2).mean().backward();
    expect_same_gradients(*net, *alone);
    optimizer.step();
    other.step();
  }
}

TEST(DataParallel, AddsUpTheGradientsOfSeveralForwardPasses) {
  auto net = std::make_shared<NetImpl>(), alone = std::make_shared<NetImpl>();
  net->eval();
  alone->eval();
  DataParallel<NetImpl> model(net, cpus(2));
  const Tensor first = model(inputs(4), 1.0), second = model(inputs(6), 1.0);
  (first.sum() + second.sum()).backward();
  (alone->forward(inputs(4), 1.0).sum() + alone->forward(inputs(6), 1.0).sum()).backward();
  expect_same_gradients(*net, *alone);
}

TEST(DataParallel, KeepsTheBuffersOfTheFirstPart) {
  auto net = std::make_shared<NetImpl>(), alone = std::make_shared<NetImpl>();
  DataParallel<NetImpl> model(net, cpus(2));
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model(inputs(8), 1.0).requires_grad());
  alone->forward(inputs(8).slice(0, 0, 4), 1.0);
  EXPECT_TRUE(torch::allclose(net->norm->running_mean, alone->norm->running_mean));
}

TEST(DataParallel, UsesAsManyReplicasAsThereAreExamples) {
  auto net = std::make_shared<NetImpl>();
  net->eval();
  DataParallel<NetImpl> model(net, cpus(4));
  EXPECT_EQ(model(inputs(2), 1.0).size(0), 2);
}

// A module whose parts wait for each other.
struct MeetingImpl : torch::nn::Cloneable<MeetingImpl> {
  void reset() override { weight = register_parameter("weight", torch::ones({1})); }
  MeetingImpl() { reset(); }
  Tensor forward(const Tensor& x, std::barrier<>& barrier) {
    barrier.arrive_and_wait();
    if (x[0].item<float>() == 1) throw std::runtime_error("a part that fails");
    return (x * weight).sum();
  }
  Tensor weight;
};

TEST(DataParallel, RunsItsPartsAtTheSameTimeAndRethrowsAnError) {
  DataParallel<MeetingImpl> model(std::make_shared<MeetingImpl>(), cpus(2));
  std::barrier<> barrier(2);
  EXPECT_EQ(model(torch::tensor({2.0F, 3.0F}), barrier).sizes(), (std::vector<std::int64_t>{2})) << "numbers";
  EXPECT_THROW(model(torch::tensor({0.0F, 1.0F}), barrier), std::runtime_error);
  EXPECT_EQ(model(torch::tensor({2.0F, 3.0F}), barrier).sum().item<float>(), 5.0F)
      << "it works after the error";
}

void expect_invalid(const std::function<void()>& body, const std::string& text) {
  try {
    body();
    ADD_FAILURE() << "taken: " << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(DataParallel, RefusesInputsThatItCannotCut) {
  auto net = std::make_shared<torch::nn::LinearImpl>(2, 2);
  expect_invalid([&] { DataParallel<torch::nn::LinearImpl> model(net, {}); }, "no device is given");
  expect_invalid([&] { DataParallel<torch::nn::LinearImpl> model(net, {c10::Device(c10::kMeta)}); },
                 "a parameter is on cpu; all must be on the first device, meta");
  DataParallel<torch::nn::BilinearImpl> two(std::make_shared<torch::nn::BilinearImpl>(2, 2, 2), cpus(2));
  expect_invalid([&] { two(torch::zeros({4, 2}), torch::zeros({5, 2})); },
                 "inputs have the shapes [4, 2] and [5, 2]");
  DataParallel<torch::nn::LinearImpl> one(net, cpus(2));
  expect_invalid([&] { one(torch::tensor(1.0F)); }, "inputs have the shapes [] and []");
}

}  // namespace
}  // namespace muster
