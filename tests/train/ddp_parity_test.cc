// Compares trainings in C++ with Python's DistributedDataParallel of the same LibTorch: gradients of every
// step, parameters and buffers are equal to the last bit.
//
// This program writes initial parameters and data, trains every case in C++, runs ddp_parity.py on the same
// cases, and compares bytes.
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <muster/muster.h>
#include <optional>
#include <random>
#include <sstream>
#include <sys/wait.h>

#include "tests/require.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

constexpr int kSteps = 10;
constexpr int kBatch = 6;
constexpr std::size_t kPixels = 12 * 12;

// A line of cases.txt, which ddp_parity.py reads: ranks, bucket_cap_mb (0 for the default), and traits:
// - join=6,10: see first_steps()
// - clip=2: the norm for clipping
// - powersgd=2, batched=2: the rank of the approximation
// - localsgd=5: the first step that ranks make alone, or in pairs
// - wrapped: with the optimizer that averages
struct Case {
  int world_size;
  double bucket_cap_mb;
  std::string traits;

  bool has(const std::string& trait) const { return (" " + traits + " ").contains(" " + trait + " "); }
  // The text after "name=" among the traits.
  std::optional<std::string> value_of(const std::string& name) const {
    std::istringstream words(traits);
    for (std::string word; words >> word;)
      if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
    return std::nullopt;
  }
  // How many steps a rank trains in a first join; it trains the rest in a second one. None: no join.
  std::optional<int> first_steps(int rank) const {
    const auto counts = value_of("join");
    if (!counts) return std::nullopt;
    std::istringstream numbers(*counts);
    int steps = 0;
    for (char comma = 0; rank >= 0; --rank) numbers >> steps >> comma;
    return steps;
  }
  std::string line() const { return fmt::format("{} {} {}", world_size, bucket_cap_mb, traits); }
};

// A cap of 0.01 MiB makes several buckets, which are rebuilt after the first step. (PowerSGD gets one bucket:
// with several, Python's hooks run in another order on each rank, on threads of Gloo.)
const std::vector<Case> kCases{
    {2, 0, ""},
    {2, 0.01, ""},
    {2, 0.01, "no_sync"},
    {2, 0.01, "find_unused branches"},
    {2, 0.01, "static_graph"},
    {2, 0.01, "bucket_views"},
    {4, 0, ""},
    {4, 0.01, ""},
    {4, 0.01, "no_sync"},
    {4, 0.01, "bucket_views no_sync"},
    {4, 0, "find_unused"},
    {4, 0.01, "find_unused branches"},
    {4, 0.01, "find_unused branches no_sync"},
    {4, 0.01, "find_unused branches bucket_views"},
    {4, 0.01, "static_graph"},
    {4, 0.01, "static_graph branches bucket_views"},
    {4, 0.01, "bucket_views"},
    {2, 0.01, "join=6,10"},
    {2, 0.01, "join=10,6 by_active_ranks"},
    {2, 0.01, "join=0,10"},
    {4, 0, "join=6,10,8,10"},
    {4, 0.01, "join=10,1,8,3"},
    {4, 0.01, "join=6,10,8,10 by_active_ranks"},
    {4, 0.01, "join=10,1,8,3 no_sync bucket_views"},
    {4, 0.01, "join=6,10,8,10 find_unused branches"},
    {4, 0.01, "join=6,9,8,9 static_graph"},
    {2, 0.01, "fp16"},
    {2, 0.01, "bf16 bucket_views"},
    {4, 0.01, "fp16 bucket_views no_sync"},
    {4, 0.01, "fp16 join=6,10,8,10"},
    {4, 0.01, "bf16"},
    {2, 0, "powersgd=1"},
    {2, 0, "powersgd=2 cold"},
    {4, 0, "powersgd=4 bucket_views"},
    {2, 0, "batched=1"},
    {4, 0, "batched=3 bucket_views"},
    {4, 0.01, "localsgd=5"},
    {2, 0.01, "localsgd=5 alone wrapped"},
    {2, 0.01, "clip=2"},
    {2, 0.01, "clip=inf"},
    {4, 0.01, "clip=3.5 find_unused branches"},
};

// With `branches` one parameter is never used, and each rank chooses its last layer in each step: some steps
// use both layers, some one. With a static graph the choice is always the same.
struct Net : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear linear1{nullptr}, linear2{nullptr}, other{nullptr}, never{nullptr};
  explicit Net(bool branches) {
    conv1 = register_module("conv1", torch::nn::Conv2d(1, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    conv2 = register_module("conv2", torch::nn::Conv2d(8, 16, 3));
    linear1 = register_module("linear1", torch::nn::Linear(16 * 4 * 4, 64));
    linear2 = register_module("linear2", torch::nn::Linear(64, 10));
    if (!branches) return;
    other = register_module("other", torch::nn::Linear(64, 10));
    never = register_module("never", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(const torch::Tensor& x, bool use_other) {
    const auto a = torch::relu(norm(conv1(x)));
    const auto b = torch::max_pool2d(torch::relu(conv2(a)), 2);
    const auto c = torch::relu(linear1(b.flatten(1)));
    return use_other ? other(c) : linear2(c);
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

// Writes enough numbers for the largest model and world: parameters, images [step, rank, part, batch, 1, 12,
// 12], labels [step, rank, part, batch].
void write_inputs(const ScratchDirectory& folder) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> small(-0.1F, 0.1F), pixel(0.0F, 1.0F);
  std::uniform_int_distribution<std::int64_t> label(0, 9);
  std::vector<float> parameters(30'000), images(kSteps * 4 * 2 * kBatch * kPixels);
  std::vector<std::int64_t> labels(kSteps * 4 * 2 * kBatch);
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

void append(const torch::Tensor& tensor, std::vector<float>& values) {
  const auto flat = tensor.detach().to(torch::kFloat).flatten();
  values.insert(values.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
}

class Training {
 public:
  Training(const Job& job, const Case& chosen, const ScratchDirectory& folder)
      : case_(chosen),
        rank_(job.rank()),
        net_(std::make_shared<Net>(chosen.has("branches"))),
        images_(read_values<float>(folder / "images")),
        labels_(read_values<std::int64_t>(folder / "labels")) {
    load_parameters(*net_, read_values<float>(folder / "parameters"));
    DistributedDataParallelOptions options{.find_unused_parameters = chosen.has("find_unused"),
                                           .gradient_as_bucket_view = chosen.has("bucket_views"),
                                           .static_graph = chosen.has("static_graph")};
    if (chosen.has("fp16")) options.comm_hook = CommHook::kFp16Compress;
    if (chosen.has("bf16")) options.comm_hook = CommHook::kBf16Compress;
    if (chosen.bucket_cap_mb > 0) options.bucket_cap_mb = chosen.bucket_cap_mb;
    model_.emplace(net_, job, options);
    if (const auto rank = chosen.value_of("powersgd")) {
      const bool warm = !chosen.has("cold");
      power_.emplace(job, PowerSGDOptions{.matrix_approximation_rank = std::stoi(*rank),
                                          .start_powerSGD_iter = 3,
                                          .min_compression_rate = 1.5,
                                          .use_error_feedback = warm,
                                          .warm_start = warm,
                                          .random_seed = 7});
      model_->register_comm_hook(powerSGD_hook(*power_));
    }
    if (const auto rank = chosen.value_of("batched")) {
      power_.emplace(job, PowerSGDOptions{.matrix_approximation_rank = std::stoi(*rank),
                                          .start_powerSGD_iter = 3,
                                          .random_seed = 7});
      model_->register_comm_hook(batched_powerSGD_hook(*power_));
    }
    if (const auto start = chosen.value_of("localsgd")) {
      std::optional<Group> subgroup;
      if (!chosen.has("alone")) {
        const Group first = job.new_group({0, 1}), second = job.new_group({2, 3});
        subgroup = rank_ < 2 ? first : second;
      }
      local_.emplace(job, subgroup, std::stoi(*start));
      model_->register_comm_hook(post_localSGD_hook(*local_));
      averager_.emplace(job, 3, std::stoi(*start));
    }
    optimizer_.emplace(model_->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    if (chosen.has("wrapped")) wrapped_.emplace(*optimizer_, *averager_);
  }

  // Returns the gradients of all steps, then parameters and buffers.
  std::vector<float> run() {
    if (const auto first = case_.first_steps(rank_)) {
      const JoinOptions options{.divide_by_initial_world_size = !case_.has("by_active_ranks")};
      model_->join([&] { train(0, *first); }, options);
      model_->join([&] { train(*first, kSteps); }, options);
    } else {
      train(0, kSteps);
    }
    if (case_.bucket_cap_mb > 0 && !case_.has("find_unused"))
      require(model_->bucket_order().size() > 1, "several rebuilt buckets");
    for (const auto& parameter : net_->parameters()) append(parameter, values_);
    for (const auto& buffer : net_->buffers()) append(buffer, values_);
    return values_;
  }

 private:
  void train(int begin, int end) {
    for (int step = begin; step < end; ++step) {
      model_->zero_grad();
      if (case_.has("no_sync")) {
        const auto guard = model_->no_sync();
        backward(step, 1);
      }
      backward(step, 0);
      if (const auto norm_type = case_.value_of("clip"))
        append(clip_grad_norm_(*model_, 0.5, std::stod(*norm_type)), values_);
      if (wrapped_)
        wrapped_->step();
      else
        optimizer_->step();
      if (averager_ && !wrapped_) averager_->average_parameters(net_->parameters());
      for (const auto& parameter : net_->parameters())
        append(parameter.grad().defined() ? parameter.grad() : torch::full({1}, -1.0F), values_);
    }
  }

  void backward(int step, int part) {
    const auto batch = static_cast<std::size_t>((step * 4 + rank_) * 2 + part);
    const auto x = torch::from_blob(&images_[batch * kBatch * kPixels], {kBatch, 1, 12, 12});
    const auto y = torch::from_blob(&labels_[batch * kBatch], {kBatch}, torch::kLong);
    const bool use_other = case_.has("find_unused") && case_.has("branches") && (step + rank_) % 3 == 0;
    torch::nn::functional::cross_entropy((*model_)(x, use_other), y).backward();
  }

  Case case_;
  int rank_;
  std::shared_ptr<Net> net_;
  std::vector<float> images_;
  std::vector<std::int64_t> labels_;
  std::optional<DistributedDataParallel<Net>> model_;
  std::optional<torch::optim::SGD> optimizer_;
  std::optional<PowerSGDState> power_;
  std::optional<PostLocalSGDState> local_;
  std::optional<PeriodicModelAverager> averager_;
  std::optional<PostLocalSGDOptimizer> wrapped_;
  std::vector<float> values_;
};

std::string file_of(std::size_t index, const char* who, int rank) {
  return fmt::format("{}.{}.{}", index, who, rank);
}

// Trains all cases of this size in one world, as ddp_parity.py does.
void train_all(const Job& job, const ScratchDirectory& folder) {
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    if (kCases[i].world_size != job.world_size()) continue;
    try {
      write_values(folder / file_of(i, "cpp", job.rank()), Training(job, kCases[i], folder).run());
    } catch (const std::exception& error) {
      throw std::runtime_error(kCases[i].line() + ": " + error.what());
    }
  }
}

TEST(DdpParity, GradientsAndParametersEqualPythonsToTheLastBit) {
  ScratchDirectory folder;
  write_inputs(folder);
  std::ofstream cases(folder / "cases.txt");
  for (const Case& each : kCases) cases << each.line() << '\n';
  cases.close();
  for (const int world_size : {2, 4}) spawn([&](Job& job) { train_all(job, folder); }, world_size);
  const std::string command =
      std::string(MUSTER_TORCH_PYTHON) + " " + DDP_PARITY_SCRIPT + " " + folder.path().string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  for (std::size_t i = 0; i < kCases.size(); ++i)
    for (int rank = 0; rank < kCases[i].world_size; ++rank) {
      const auto ours = read_values<std::uint32_t>(folder / file_of(i, "cpp", rank));
      const auto python = read_values<std::uint32_t>(folder / file_of(i, "python", rank));
      EXPECT_GT(ours.size(), 100'000U);
      EXPECT_TRUE(ours == python) << kCases[i].line() << ", rank " << rank;
    }
}

}  // namespace
}  // namespace muster
