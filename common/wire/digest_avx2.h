// The functions that digest.cc calls on a processor with AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// Computes the XXH3-128 of the bytes. `high` and `low` are the halves of the result.
void xxh3_with_avx2(const void* bytes, std::size_t size_bytes, std::uint64_t& high, std::uint64_t& low);
// Adds the bytes to `state`, an XXH3_state_t.
void add_with_avx2(void* state, const void* bytes, std::size_t size_bytes);

}  // namespace muster
