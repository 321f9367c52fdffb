// A dataset of numbers for the tests of loaders, so that batches can be compared.
#pragma once

#include <ATen/ATen.h>
#include <atomic>
#include <cstdint>
#include <muster/data/data_loader.h>
#include <stdexcept>
#include <vector>

namespace muster {

// Example i is the number i.
class Numbers : public Dataset<> {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index) const override {
    if (index == bad_) throw std::runtime_error("torn image");
    ++reads_;
    return {.data = at::full({2}, static_cast<double>(index)), .target = at::scalar_tensor(index, at::kLong)};
  }
  void spoil(std::int64_t index) { bad_ = index; }
  std::int64_t reads() const { return reads_; }

 private:
  std::int64_t size_;
  std::int64_t bad_ = -1;
  mutable std::atomic<std::int64_t> reads_ = 0;
};

inline std::vector<std::int64_t> numbers(const Batch& batch) {
  const at::Tensor target = batch.target.contiguous();
  return {target.data_ptr<std::int64_t>(), target.data_ptr<std::int64_t>() + target.numel()};
}

using Batches = std::vector<std::vector<std::int64_t>>;
inline Batches rest(DataLoader<Example>& loader, std::int64_t epochs) {
  Batches all;
  for (auto& batch : loader.epochs(epochs)) all.push_back(numbers(batch));
  return all;
}

}  // namespace muster
