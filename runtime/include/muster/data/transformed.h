// A dataset whose samples go through a function: the `transform` of torchvision's datasets.
//
//   const auto dataset = muster::transformed(images, transforms::RandomHorizontalFlip());
//
// The function takes the sample and returns another, of any type that can be collated. For samples of type
// Example, the function can also take and return a tensor, which is the sample's data. Several threads call
// it at once. It must draw random numbers from sample_random().
#pragma once

#include <concepts>
#include <muster/data/dataset.h>
#include <string>
#include <type_traits>
#include <utility>

namespace muster {

namespace detail {

template <class Function, class Sample>
auto transform_sample(const Function& function, Sample sample) {
  if constexpr (std::invocable<const Function&, Sample>) {
    return function(std::move(sample));
  } else {
    static_assert(std::is_same_v<Sample, Example> && std::invocable<const Function&, at::Tensor>,
                  "the function takes neither the sample nor, of an Example, its data");
    sample.data = function(std::move(sample.data));
    return sample;
  }
}

template <class Function, class Sample>
using TransformedSample = decltype(transform_sample(std::declval<const Function&>(), std::declval<Sample>()));

}  // namespace detail

template <class Sample, class Function>
class Transformed : public Dataset<detail::TransformedSample<Function, Sample>> {
 public:
  // `dataset` must outlive this object.
  Transformed(const Dataset<Sample>& dataset, Function function)
      : dataset_(dataset), function_(std::move(function)) {}

  std::int64_t size() const override { return dataset_.size(); }
  detail::TransformedSample<Function, Sample> get(std::int64_t index) const override {
    detail::check_index(*this, index);
    return detail::transform_sample(function_, dataset_.get(index));
  }
  std::string name() const override { return dataset_.name(); }

 private:
  const Dataset<Sample>& dataset_;
  Function function_;
};

template <class Sample, class Function>
Transformed<Sample, Function> transformed(const Dataset<Sample>& dataset, Function function) {
  return {dataset, std::move(function)};
}
template <class Sample, class Function>
void transformed(const Dataset<Sample>&& dataset, Function function) = delete;

}  // namespace muster
