// Reduces one piece of memory from each rank to one result, by a sum or another operation.
//
// Each element is reduced in the order of the ranks, so the bits of a result depend only on the number of
// ranks. float16 and bfloat16 are added in float32 and rounded once; integers wrap around. Compilers can
// vectorize the loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::shm {

enum class Type : std::uint8_t { kFloat, kDouble, kHalf, kBFloat16, kInt8, kUInt8, kBool, kInt32, kInt64 };
enum class Reduction : std::uint8_t { kSum, kAverage, kProduct, kMin, kMax, kAnd, kOr, kXor };

std::size_t bytes_of(Type type);

// `from` points to each rank's `count` elements. Writes the result to every place of `to`, which may overlap
// with places of `from`.
using Combine = void(std::span<std::byte* const> to, std::span<const std::byte* const> from,
                     std::size_t count);
// Returns null if the operation does not exist for the type: averages are for floating-point types only,
// bitwise operations for integers only. For bool, a sum is the maximum, and a product is the minimum.
Combine* combine_of(Type type, Reduction reduction);

}  // namespace muster::shm
