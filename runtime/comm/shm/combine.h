// Adding up, and whatever else a reduction does, of one piece of memory from each rank.
//
// In the order of the ranks, element by element, so that the bits of a result depend on how many ranks there
// are and on nothing else. float16 and bfloat16 are added up as float32 and rounded once; integers wrap
// around. The loops are written so that a compiler vectorises them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::shm {

enum class Type : std::uint8_t { kFloat, kDouble, kHalf, kBFloat16, kInt8, kUInt8, kBool, kInt32, kInt64 };
enum class Reduction : std::uint8_t { kSum, kAverage, kProduct, kMin, kMax, kAnd, kOr, kXor };

std::size_t bytes_of(Type type);

// Of the `count` elements at each place of `from`, which are the ranks'. The result goes to each place of
// `to`, which may be some of them.
using Combine = void(std::span<std::byte* const> to, std::span<const std::byte* const> from,
                     std::size_t count);
// Null if there is none: averages are of floating point only, and the bit-wise ones are not. Of bools, a sum
// is the greatest, and a product the least.
Combine* combine_of(Type type, Reduction reduction);

}  // namespace muster::shm
