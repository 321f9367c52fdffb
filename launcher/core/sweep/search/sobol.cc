#include "launcher/core/sweep/search/sobol.h"

#include <array>
#include <bit>

#include "common/base/check.h"
#include "launcher/core/sweep/search/random.h"

namespace muster::launcher::sweep {
namespace {

constexpr int kDigits = 32;

// The facts about one dimension: a primitive polynomial over the integers modulo 2, with its coefficients as
// bits, and the first direction numbers.
struct Direction {
  std::uint32_t polynomial;
  std::array<std::uint32_t, 9> first;
};

// clang-format off
constexpr std::array<Direction, kSobolDimensions> kDirections = {{
    {1, {}}, {3, {1}}, {7, {1, 3}}, {11, {1, 3, 1}}, {13, {1, 1, 1}}, {19, {1, 1, 3, 3}},
    {25, {1, 3, 5, 13}}, {37, {1, 1, 5, 5, 17}}, {41, {1, 1, 5, 5, 5}}, {47, {1, 1, 7, 11, 19}},
    {55, {1, 1, 5, 1, 1}}, {59, {1, 1, 1, 3, 11}}, {61, {1, 3, 5, 5, 31}}, {67, {1, 3, 3, 9, 7, 49}},
    {91, {1, 1, 1, 15, 21, 21}}, {97, {1, 3, 1, 13, 27, 49}}, {103, {1, 1, 1, 15, 7, 5}},
    {109, {1, 3, 1, 15, 13, 25}}, {115, {1, 1, 5, 5, 19, 61}}, {131, {1, 3, 7, 11, 23, 15, 103}},
    {137, {1, 3, 7, 13, 13, 15, 69}}, {143, {1, 1, 3, 13, 7, 35, 63}}, {145, {1, 3, 5, 9, 1, 25, 53}},
    {157, {1, 3, 1, 13, 9, 35, 107}}, {167, {1, 3, 1, 5, 27, 61, 31}}, {171, {1, 1, 5, 11, 19, 41, 61}},
    {185, {1, 3, 5, 3, 3, 13, 69}}, {191, {1, 1, 7, 13, 1, 19, 1}}, {193, {1, 3, 7, 5, 13, 19, 59}},
    {203, {1, 1, 3, 9, 25, 29, 41}}, {211, {1, 3, 5, 13, 23, 1, 55}}, {213, {1, 3, 7, 3, 13, 59, 17}},
    {229, {1, 3, 1, 3, 5, 53, 69}}, {239, {1, 1, 5, 5, 23, 33, 13}}, {241, {1, 1, 7, 7, 1, 61, 123}},
    {247, {1, 1, 7, 9, 13, 61, 49}}, {253, {1, 3, 3, 5, 3, 55, 33}}, {285, {1, 3, 1, 15, 31, 13, 49, 245}},
    {299, {1, 3, 5, 15, 31, 59, 63, 97}}, {301, {1, 3, 1, 11, 11, 11, 77, 249}},
    {333, {1, 3, 1, 11, 27, 43, 71, 9}}, {351, {1, 1, 7, 15, 21, 11, 81, 45}},
    {355, {1, 3, 7, 3, 25, 31, 65, 79}}, {357, {1, 3, 1, 1, 19, 11, 3, 205}},
    {361, {1, 1, 5, 9, 19, 21, 29, 157}}, {369, {1, 3, 7, 11, 1, 33, 89, 185}},
    {391, {1, 3, 3, 3, 15, 9, 79, 71}}, {397, {1, 3, 7, 11, 15, 39, 119, 27}},
    {425, {1, 1, 3, 1, 11, 31, 97, 225}}, {451, {1, 1, 1, 3, 23, 43, 57, 177}},
    {463, {1, 3, 7, 7, 17, 17, 37, 71}}, {487, {1, 3, 1, 5, 27, 63, 123, 213}},
    {501, {1, 1, 3, 5, 11, 43, 53, 133}}, {529, {1, 3, 5, 5, 29, 17, 47, 173, 479}},
    {539, {1, 3, 3, 11, 3, 1, 109, 9, 69}}, {545, {1, 1, 1, 5, 17, 39, 23, 5, 343}},
    {557, {1, 3, 1, 5, 25, 15, 31, 103, 499}}, {563, {1, 1, 1, 11, 11, 17, 63, 105, 183}},
    {601, {1, 1, 5, 11, 9, 29, 97, 231, 363}}, {607, {1, 1, 5, 15, 19, 45, 41, 7, 383}},
    {617, {1, 3, 7, 7, 31, 19, 83, 137, 221}}, {623, {1, 1, 1, 3, 23, 15, 111, 223, 83}},
    {631, {1, 1, 5, 13, 31, 15, 55, 25, 161}}, {637, {1, 1, 3, 13, 25, 47, 39, 87, 257}},
}};
// clang-format on

using Matrix = std::array<std::uint32_t, kDigits>;  // direction number k, shifted to the highest bits

// Computes the direction numbers of a dimension with the recurrence of Bratley and Fox (Algorithm 659, ACM
// Trans. Math. Softw. 14, 1988).
constexpr Matrix matrix_of(const Direction& direction) {
  Matrix matrix{};
  const int degree = std::bit_width(direction.polynomial) - 1;
  for (int k = 0; k < kDigits; ++k) {
    if (degree == 0) {  // the first dimension: van der Corput's sequence
      matrix[k] = std::uint32_t{1} << (kDigits - 1 - k);
    } else if (k < degree) {
      matrix[k] = direction.first[k] << (kDigits - 1 - k);
    } else {
      matrix[k] = matrix[k - degree] ^ (matrix[k - degree] >> degree);
      for (int j = 1; j < degree; ++j)
        if ((direction.polynomial >> (degree - j)) & 1) matrix[k] ^= matrix[k - j];
    }
  }
  return matrix;
}

constexpr std::array<Matrix, kSobolDimensions> kMatrices = [] {
  std::array<Matrix, kSobolDimensions> matrices{};
  for (std::size_t i = 0; i < kSobolDimensions; ++i) matrices[i] = matrix_of(kDirections[i]);
  return matrices;
}();

}  // namespace

std::uint32_t sobol_digits(std::size_t dimension, std::uint32_t index) {
  CHECK(dimension < kSobolDimensions, "dimension {}", dimension);
  // Like most programs, this uses the Gray code of the index. Without the Gray code, the first 2^k points
  // would be the same set for each k, but in another order.
  const std::uint32_t code = index ^ (index >> 1);
  std::uint32_t digits = 0;
  for (int k = 0; k < kDigits; ++k)
    if ((code >> k) & 1) digits ^= kMatrices[dimension][k];
  return digits;
}

std::uint32_t owen_scrambled(std::uint32_t digits, std::uint64_t seed, std::size_t dimension) {
  const std::uint64_t key = mixed(mixed(seed) + dimension + 1);
  std::uint32_t scrambled = 0;
  for (int k = 0; k < kDigits; ++k) {
    // The digits before this one. A 1 stands in front of them, because 0 and 00 would otherwise look the
    // same.
    const std::uint64_t prefix = (std::uint64_t{1} << k) | (std::uint64_t{digits} >> (kDigits - k));
    const std::uint32_t flip = mixed(key ^ mixed(prefix)) & 1;
    scrambled = (scrambled << 1) | (((digits >> (kDigits - 1 - k)) & 1) ^ flip);
  }
  return scrambled;
}

std::vector<double> sobol_point(std::size_t dimensions, std::uint32_t index, std::uint64_t seed) {
  std::vector<double> point;
  for (std::size_t i = 0; i < dimensions; ++i)
    point.push_back(owen_scrambled(sobol_digits(i, index), seed, i) * 0x1p-32);
  return point;
}

}  // namespace muster::launcher::sweep
