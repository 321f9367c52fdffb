// A small training for tests of checkpoints: a network with dropout, batch norm and several buckets, and
// random data to learn.
#pragma once

#include <fstream>
#include <iterator>
#include <muster/muster.h>
#include <torch/torch.h>

namespace muster {

// Example i is drawn from a generator with seed i.
class NoiseDataset : public Dataset<> {
 public:
  explicit NoiseDataset(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(index));
    return {.data = at::randn({12}, generator), .target = at::scalar_tensor(index % 5, at::kLong)};
  }

 private:
  std::int64_t size_;
};

struct SmallNet : torch::nn::Module {
  torch::nn::Linear linear1{nullptr}, linear2{nullptr}, linear3{nullptr}, linear4{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  SmallNet() {
    linear1 = register_module("linear1", torch::nn::Linear(12, 37));
    norm = register_module("norm", torch::nn::BatchNorm1d(37));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    linear2 = register_module("linear2", torch::nn::Linear(37, 61));
    linear3 = register_module("linear3", torch::nn::Linear(61, 29));
    linear4 = register_module("linear4", torch::nn::Linear(29, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = dropout(torch::relu(norm(linear1(x))));
    return linear4(torch::relu(linear3(torch::relu(linear2(y)))));
  }
};

template <class Model, class Optimizer>
void train_one(Model& model, Optimizer& optimizer, Batch& batch) {
  optimizer.zero_grad();
  torch::nn::functional::cross_entropy(model.forward(batch.data), batch.target).backward();
  optimizer.step();
}

// All parameters and buffers, byte for byte.
inline std::string bytes_of(const torch::nn::Module& module) {
  std::string bytes;
  const auto append = [&](const at::Tensor& tensor) {
    const at::Tensor whole = tensor.detach().contiguous();
    bytes.append(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  };
  for (const auto& parameter : module.named_parameters()) append(parameter.value());
  for (const auto& buffer : module.named_buffers()) append(buffer.value());
  return bytes;
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace muster
