// Combines one piece of memory from each rank into one result, by a sum or by another operation.
//
// Each element is combined in the order of the ranks. So the bits of a result depend only on the number of
// ranks. Numbers of the types float16 and bfloat16 are added in float32, and the sum is rounded once.
// Integers wrap around. The loops have a form that compilers can vectorize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::shm {

enum class Type : std::uint8_t { kFloat, kDouble, kHalf, kBFloat16, kInt8, kUInt8, kBool, kInt32, kInt64 };
enum class Reduction : std::uint8_t { kSum, kAverage, kProduct, kMin, kMax, kAnd, kOr, kXor };

std::size_t bytes_of(Type type);

// A function that combines the data of all ranks. `from` has a pointer for each rank, to `count` elements.
// The function writes the result to each pointer in `to`. The memory of `to` can be the same as memory of
// `from`.
using Combine = void(std::span<std::byte* const> to, std::span<const std::byte* const> from,
                     std::size_t count);
// Returns the function that combines elements of this type by this reduction. Returns null if there is none.
// Averages exist only for floating-point types, and bitwise operations only for integers. For bool, a sum is
// computed as the maximum, and a product as the minimum.
Combine* combine_of(Type type, Reduction reduction);

}  // namespace muster::shm
