#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "runtime/comm/shm/combine.h"

namespace muster::shm {
namespace {

// The vectors of two ranks or more, combined in place and elsewhere, with the same result. Also with so many
// elements that there are whole blocks and a rest.
template <class T>
std::vector<T> combined(Type type, Reduction reduction, const std::vector<std::vector<T>>& ranks) {
  constexpr std::size_t kTimes = 130;
  Combine* const combine = combine_of(type, reduction);
  EXPECT_NE(combine, nullptr);
  EXPECT_EQ(bytes_of(type), sizeof(T));
  const auto bytes_in = [](std::vector<T>& values) { return reinterpret_cast<std::byte*>(values.data()); };
  const std::size_t count = ranks[0].size();
  std::vector<T> result(count), also(count);
  std::vector<std::vector<T>> few = ranks, many;
  std::vector<std::byte*> few_at, many_at;
  for (std::vector<T>& each : few) {
    many.emplace_back();
    for (std::size_t i = 0; i < kTimes; ++i) many.back().insert(many.back().end(), each.begin(), each.end());
    few_at.push_back(bytes_in(each));
    many_at.push_back(bytes_in(many.back()));
  }
  combine(std::vector{bytes_in(result), bytes_in(also)},
          std::vector<const std::byte*>(few_at.begin(), few_at.end()), count);
  EXPECT_EQ(std::memcmp(result.data(), also.data(), count * sizeof(T)), 0);
  combine(few_at, std::vector<const std::byte*>(few_at.begin(), few_at.end()), count);
  for (const std::vector<T>& each : few)
    EXPECT_EQ(std::memcmp(each.data(), result.data(), count * sizeof(T)), 0);
  combine(many_at, std::vector<const std::byte*>(many_at.begin(), many_at.end()), count * kTimes);
  for (const std::vector<T>& each : many)
    for (std::size_t i = 0; i < kTimes; ++i)
      EXPECT_EQ(std::memcmp(each.data() + i * count, result.data(), count * sizeof(T)), 0);
  return result;
}

TEST(Combine, AddsFloatsInTheOrderOfTheRanks) {
  std::vector<std::vector<float>> ranks(3, std::vector<float>(5000));
  for (std::size_t i = 0; i < 5000; ++i)
    for (std::size_t rank = 0; rank < 3; ++rank)
      ranks[rank][i] =
          std::ldexp(1.0F + static_cast<float>(i) * 1e-4F, static_cast<int>(i * (rank + 1) % 60) - 30);
  const auto sums = combined(Type::kFloat, Reduction::kSum, ranks);
  const auto means = combined(Type::kFloat, Reduction::kAverage, ranks);
  for (std::size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(sums[i], (ranks[0][i] + ranks[1][i]) + ranks[2][i]) << i;
    EXPECT_EQ(means[i], ((ranks[0][i] + ranks[1][i]) + ranks[2][i]) / 3.0F) << i;
  }
}

TEST(Combine, DoesWhatItsNameSays) {
  using Bytes = std::vector<std::uint8_t>;
  const std::vector<Bytes> bytes{{250, 3, 0x0f}, {10, 7, 0x3c}};
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kSum, bytes), (Bytes{4, 10, 0x4b}));  // wraps around
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kProduct, bytes), (Bytes{196, 21, 0x84}));
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kMin, bytes), (Bytes{10, 3, 0x0f}));
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kMax, bytes), (Bytes{250, 7, 0x3c}));
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kAnd, bytes), (Bytes{10, 3, 0x0c}));
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kOr, bytes), (Bytes{250, 7, 0x3f}));
  EXPECT_EQ(combined(Type::kUInt8, Reduction::kXor, bytes), (Bytes{240, 4, 0x33}));
  const std::vector<Bytes> bools{{1, 0, 1, 0}, {1, 1, 0, 0}};
  EXPECT_EQ(combined(Type::kBool, Reduction::kSum, bools), (Bytes{1, 1, 1, 0}));
  EXPECT_EQ(combined(Type::kBool, Reduction::kProduct, bools), (Bytes{1, 0, 0, 0}));
  EXPECT_EQ(combined<std::int8_t>(Type::kInt8, Reduction::kSum, {{127, -128}, {1, -1}}),
            (std::vector<std::int8_t>{-128, 127}));
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(combined<std::int64_t>(Type::kInt64, Reduction::kSum, {{kMost}, {1}}),
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()}));
  EXPECT_EQ(combined<std::int32_t>(Type::kInt32, Reduction::kMin, {{5, -7}, {-6, 9}}),
            (std::vector<std::int32_t>{-6, -7}));
  EXPECT_EQ(combined<double>(Type::kDouble, Reduction::kProduct, {{1.5, 3}, {4, 0.5}}),
            (std::vector<double>{6, 1.5}));
}

TEST(Combine, HasNothingForWhatMakesNoSense) {
  for (const auto type : {Type::kFloat, Type::kDouble, Type::kHalf, Type::kBFloat16})
    for (const auto reduction : {Reduction::kAnd, Reduction::kOr, Reduction::kXor})
      EXPECT_EQ(combine_of(type, reduction), nullptr);
  for (const auto type : {Type::kInt8, Type::kUInt8, Type::kBool, Type::kInt32, Type::kInt64})
    EXPECT_EQ(combine_of(type, Reduction::kAverage), nullptr);
}

// Every float16 there is, through float32 and back: unchanged, except the bits of NaNs.
TEST(Combine, RoundsHalfFloatsToThemselves) {
  std::vector<std::uint16_t> all, zeros(65536);
  for (unsigned bits = 0; bits < 65536; ++bits) all.push_back(static_cast<std::uint16_t>(bits));
  const auto sums = combined<std::uint16_t>(Type::kHalf, Reduction::kMax, {all, all});
  const auto brain = combined<std::uint16_t>(Type::kBFloat16, Reduction::kMax, {all, all});
  for (unsigned bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7fff) <= 0x7c00) EXPECT_EQ(sums[bits], bits);
    if ((bits & 0x7fff) > 0x7c00) EXPECT_GT(sums[bits] & 0x7fff, 0x7c00) << bits;
    if ((bits & 0x7fff) <= 0x7f80) EXPECT_EQ(brain[bits], bits);
  }
}

TEST(Combine, RoundsHalfFloatsToTheNearestAndTiesToEven) {
  // 1 + 1/2048 lies between 1 and the next one; 1 + 3/2048 nearer to the even one above it.
  using Halves = std::vector<std::uint16_t>;
  EXPECT_EQ(combined<std::uint16_t>(Type::kHalf, Reduction::kSum,
                                    {{0x3c00, 0x3c01, 0x7bff}, {0x1000, 0x1000, 0x7bff}}),
            (Halves{0x3c00, 0x3c02, 0x7c00}));
  EXPECT_EQ(combined<std::uint16_t>(Type::kBFloat16, Reduction::kSum, {{0x3f80, 0x3f81}, {0x3b80, 0x3b80}}),
            (Halves{0x3f80, 0x3f82}));
}

}  // namespace
}  // namespace muster::shm
