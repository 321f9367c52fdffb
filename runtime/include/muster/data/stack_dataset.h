// Several datasets combined: sample i is a tuple of the samples i of all of them.
//
//   const muster::StackDataset pairs(images, captions);   // samples are std::tuple<at::Tensor, std::string>
//   for (auto& [pictures, texts] : loader) ...
//
// It is like torch.utils.data.StackDataset of a list. transformed() can turn the tuple into a struct. The
// datasets draw their random numbers one after the other. The datasets must outlive the StackDataset.
#pragma once

#include <array>
#include <cstdint>
#include <muster/data/dataset.h>
#include <muster/data/subset.h>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace muster {

namespace detail {

// If a size differs from the first one, throws std::invalid_argument.
void check_stack(std::span<const std::int64_t> sizes, std::span<const std::string> names);

}  // namespace detail

template <class... Sample>
class StackDataset : public Dataset<std::tuple<Sample...>> {
  static_assert(sizeof...(Sample) > 0, "a StackDataset needs at least one dataset");

 public:
  // Throws std::invalid_argument if the datasets' sizes differ.
  explicit StackDataset(const Dataset<Sample>&... datasets) : datasets_(datasets...) {
    const std::array<std::int64_t, sizeof...(Sample)> sizes{datasets.size()...};
    const std::array<std::string, sizeof...(Sample)> names{datasets.name()...};
    detail::check_stack(sizes, names);
  }

  template <class... Given>
    requires(sizeof...(Given) == sizeof...(Sample) && (std::is_rvalue_reference_v<Given &&> || ...))
  explicit StackDataset(Given&&...) = delete;

  std::int64_t size() const override { return std::get<0>(datasets_).size(); }
  std::tuple<Sample...> get(std::int64_t index) const override {
    detail::check_index(*this, index);
    return std::apply(
        [index](const auto&... dataset) {
          // The elements of a list in braces are computed from left to right, so the datasets are read in
          // order.
          return std::tuple<Sample...>{detail::get_from(dataset, index)...};
        },
        datasets_);
  }
  std::string name() const override {
    return std::apply(
        [](const auto& first, const auto&... more) {
          std::string all = first.name();
          ((all += " with " + more.name()), ...);
          return all;
        },
        datasets_);
  }

 private:
  std::tuple<const Dataset<Sample>&...> datasets_;
};

template <class... Datasets>
StackDataset(const Datasets&...) -> StackDataset<typename Datasets::Sample...>;

}  // namespace muster
