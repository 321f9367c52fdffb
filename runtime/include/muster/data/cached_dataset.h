// Keeps the samples of another dataset in memory after the first read, for datasets that are slow to read.
//
//   muster::CachedDataset cached(images, std::int64_t{8} << 30);            // bytes
//   auto dataset = muster::transformed(cached, augment);                    // the cache comes first
//
// The cache also keeps the random numbers of the first read, so put augmentations after the cache. When the
// memory is full, the remaining samples are read each time. Several threads can read the cache at once. If
// two threads want the same sample before the cache has it, both read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <muster/comm/detail/fields.h>
#include <muster/comm/detail/tensors.h>
#include <muster/data/dataset.h>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace muster {

namespace detail {

void check_cache_limit(std::int64_t limit_bytes);

// Returns the size of a sample in bytes, with everything that the sample refers to.
template <class Value>
std::int64_t bytes_of_sample(const Value& value) {
  const auto sum = [](const auto&... part) { return (std::int64_t{0} + ... + bytes_of_sample(part)); };
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    return tensor_bytes(value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>) {
    return sizeof(Value);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return static_cast<std::int64_t>(sizeof(Value) + value.capacity());
  } else if constexpr (kIsOptional<Value>) {
    return static_cast<std::int64_t>(sizeof(Value)) + (value ? bytes_of_sample(*value) : 0);
  } else if constexpr (requires { std::tuple_size<Value>::value; }) {
    return std::apply(sum, value);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    std::int64_t bytes = sizeof(Value);
    for (const auto& element : value) bytes += bytes_of_sample(element);
    return bytes;
  } else if constexpr (std::is_aggregate_v<Value>) {
    return std::apply(sum, fields(value));
  } else {
    static_assert(kHidesItsTensors<Value>, "a sample has a part of this type, and its size is unknown");
  }
}

// Returns a copy with memory of its own. Changes to the copy do not change the original. The copy does not
// keep alive the storage that the original is a view of.
template <class Sample>
Sample copy_of_sample(const Sample& sample) {
  Sample copy = sample;
  std::vector<at::Tensor*> tensors;
  collect_tensors(copy, tensors);
  for (at::Tensor* tensor : tensors)
    if (tensor->defined()) *tensor = tensor->clone();
  return copy;
}

}  // namespace detail

template <class Sample>
class CachedDataset : public Dataset<Sample> {
 public:
  // Keeps at most `limit_bytes` of samples. `dataset` must outlive the cache.
  CachedDataset(const Dataset<Sample>& dataset, std::int64_t limit_bytes)
      : dataset_(dataset), limit_bytes_(limit_bytes), kept_(static_cast<std::size_t>(dataset.size())) {
    detail::check_cache_limit(limit_bytes);
  }
  CachedDataset(const Dataset<Sample>&&, std::int64_t) = delete;
  CachedDataset(const CachedDataset&) = delete;
  CachedDataset& operator=(const CachedDataset&) = delete;
  ~CachedDataset() override {
    for (const auto& sample : kept_) delete sample.load();
  }

  std::int64_t size() const override { return dataset_.size(); }
  Sample get(std::int64_t index) const override {
    detail::check_index(*this, index);
    std::atomic<const Sample*>& place = kept_[static_cast<std::size_t>(index)];
    if (const Sample* kept = place.load(std::memory_order_acquire)) return detail::copy_of_sample(*kept);
    Sample sample = dataset_.get(index);
    keep(place, sample);
    return sample;
  }
  std::string name() const override { return dataset_.name(); }
  std::int64_t kept_bytes() const { return bytes_; }

 private:
  void keep(std::atomic<const Sample*>& place, const Sample& sample) const {
    const std::int64_t bytes = detail::bytes_of_sample(sample);
    if (bytes_.fetch_add(bytes) + bytes <= limit_bytes_) {
      auto copy = std::make_unique<const Sample>(detail::copy_of_sample(sample));
      const Sample* none = nullptr;
      if (place.compare_exchange_strong(none, copy.get(), std::memory_order_acq_rel)) {
        copy.release();
        return;
      }
    }
    bytes_ -= bytes;
  }

  const Dataset<Sample>& dataset_;
  const std::int64_t limit_bytes_;
  mutable std::vector<std::atomic<const Sample*>> kept_;  // by index; null: not kept
  mutable std::atomic<std::int64_t> bytes_ = 0;
};

}  // namespace muster
