// Datasets, worlds and batches of many sizes for properties that must hold for all, and helpers of the
// samplers' tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster {

struct Shape {
  std::int64_t size;
  int ranks;
  std::int64_t batch_size;
  std::uint64_t seed;
};

inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.size << " examples, " << shape.ranks << " ranks, batches of " << shape.batch_size << ", seed "
       << shape.seed;
}

inline void each_shape(const std::function<void(const Shape&)>& see) {
  std::uint64_t seed = 0;
  for (const std::int64_t size : {1, 2, 3, 5, 8, 9, 31, 64, 100, 257}) {
    for (const int ranks : {1, 2, 3, 4, 7, 16}) {
      for (const std::int64_t batch_size : {1, 2, 3, 8, 16, 50}) {
        const Shape shape{size, ranks, batch_size, seed++};
        SCOPED_TRACE(testing::PrintToString(shape));
        see(shape);
      }
    }
  }
}

inline auto refuses(const std::string& text) {
  return testing::ThrowsMessage<std::invalid_argument>(testing::HasSubstr(text));
}

inline std::vector<std::int64_t> up_to(std::int64_t size) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

inline std::vector<std::int64_t> sorted(std::vector<std::int64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace muster
