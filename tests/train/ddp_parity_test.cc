// The same training in C++ and in Python's DistributedDataParallel of the same LibTorch: parameters equal to
// the last bit.
//
// This program makes initial parameters and data, trains every case in C++, lets ddp_parity.py train them,
// and compares bytes.
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <muster/muster.h>
#include <random>
#include <sys/wait.h>

#include "tests/scratch_directory.h"

namespace muster {
namespace {

constexpr int kSteps = 5;
constexpr int kBatch = 6;
constexpr std::size_t kPixels = 12 * 12;

// The line of a case in cases.txt, as ddp_parity.py reads it. A cap of 0 stands for the default.
struct Case {
  std::string name;
  int world_size;
  double bucket_cap_mb;
  bool gradient_as_bucket_view;
  bool find_unused_parameters;
  bool static_graph;
};

const std::vector<Case> kCases{
    {"two_ranks", 2, 0, false, false, false},
    {"two_ranks_small_buckets", 2, 0.01, false, false, false},
    {"two_ranks_static_graph", 2, 0.01, false, false, true},
    {"four_ranks", 4, 0, false, false, false},
    {"four_ranks_small_buckets", 4, 0.01, false, false, false},
    {"four_ranks_bucket_views", 4, 0.01, true, false, false},
    {"four_ranks_find_unused", 4, 0.01, false, true, false},
};

struct Net : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear linear1{nullptr}, linear2{nullptr};
  Net() {
    conv1 = register_module("conv1", torch::nn::Conv2d(1, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    conv2 = register_module("conv2", torch::nn::Conv2d(8, 16, 3));
    linear1 = register_module("linear1", torch::nn::Linear(16 * 4 * 4, 64));
    linear2 = register_module("linear2", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto a = torch::relu(norm(conv1(x)));
    const auto b = torch::max_pool2d(torch::relu(conv2(a)), 2);
    return linear2(torch::relu(linear1(b.flatten(1))));
  }
};

template <class Value>
void write_values(const std::string& path, const std::vector<Value>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(Value)));
}

template <class Value>
std::vector<Value> read_values(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
  return values;
}

// Enough numbers for the largest model and world: parameters, images [step, rank, batch, 1, 12, 12], labels
// [step, rank, batch].
void write_inputs(const ScratchDirectory& folder) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> small(-0.1F, 0.1F), pixel(0.0F, 1.0F);
  std::uniform_int_distribution<std::int64_t> label(0, 9);
  std::vector<float> parameters(30'000), images(kSteps * 4 * kBatch * kPixels);
  std::vector<std::int64_t> labels(kSteps * 4 * kBatch);
  for (auto& value : parameters) value = small(random);
  for (auto& value : images) value = pixel(random);
  for (auto& value : labels) value = label(random);
  write_values(folder / "parameters", parameters);
  write_values(folder / "images", images);
  write_values(folder / "labels", labels);
}

void load_parameters(Net& net, const std::vector<float>& values) {
  const torch::NoGradGuard no_grad;
  std::size_t at = 0;
  for (auto& parameter : net.parameters()) {
    std::memcpy(parameter.data_ptr<float>(), &values.at(at), parameter.nbytes());
    at += static_cast<std::size_t>(parameter.numel());
  }
}

void save_parameters(const Net& net, const std::string& path) {
  std::vector<float> values;
  for (const auto& state : {net.parameters(), net.buffers()})
    for (const auto& tensor : state) {
      const auto flat = tensor.detach().to(torch::kFloat).flatten();
      values.insert(values.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
  write_values(path, values);
}

void train(Job& job, const Case& chosen, const ScratchDirectory& folder) {
  auto net = std::make_shared<Net>();
  load_parameters(*net, read_values<float>(folder / "parameters"));
  auto images = read_values<float>(folder / "images");
  auto labels = read_values<std::int64_t>(folder / "labels");
  DistributedDataParallelOptions options{.find_unused_parameters = chosen.find_unused_parameters,
                                         .gradient_as_bucket_view = chosen.gradient_as_bucket_view,
                                         .static_graph = chosen.static_graph};
  if (chosen.bucket_cap_mb > 0) options.bucket_cap_mb = chosen.bucket_cap_mb;
  DistributedDataParallel model(net, job, options);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t batch = static_cast<std::size_t>(step * 4 + job.rank());
    const auto x = torch::from_blob(&images[batch * kBatch * kPixels], {kBatch, 1, 12, 12});
    const auto y = torch::from_blob(&labels[batch * kBatch], {kBatch}, torch::kLong);
    model.zero_grad();
    torch::nn::functional::cross_entropy(model(x), y).backward();
    optimizer.step();
  }
  save_parameters(*net, folder / (chosen.name + ".cpp." + std::to_string(job.rank())));
}

TEST(DdpParity, ParametersEqualThoseOfPythonToTheLastBit) {
  ScratchDirectory folder;
  write_inputs(folder);
  std::ofstream cases(folder / "cases.txt");
  for (const Case& each : kCases) {
    cases << each.name << ' ' << each.world_size << ' ' << each.bucket_cap_mb << ' '
          << each.gradient_as_bucket_view << ' ' << each.find_unused_parameters << ' ' << each.static_graph
          << '\n';
    spawn([&](Job& job) { train(job, each, folder); }, each.world_size);
  }
  cases.close();
  const std::string command =
      std::string(MUSTER_TORCH_PYTHON) + " " + DDP_PARITY_SCRIPT + " " + folder.path().string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  for (const Case& each : kCases)
    for (int rank = 0; rank < each.world_size; ++rank) {
      const auto ours = read_values<std::uint32_t>(folder / (each.name + ".cpp." + std::to_string(rank)));
      const auto python =
          read_values<std::uint32_t>(folder / (each.name + ".python." + std::to_string(rank)));
      EXPECT_GT(ours.size(), 1000U);
      EXPECT_TRUE(ours == python) << each.name << ", rank " << rank;
    }
}

}  // namespace
}  // namespace muster
