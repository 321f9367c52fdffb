// The functions of XXH3, compiled for processors with AVX2. This file must not include headers that have
// inline functions. The linker could take those functions from this file, with AVX2 code, for other files,
// too.
#include "common/wire/digest_avx2.h"

#include <xxhash.h>

namespace muster {

void xxh3_with_avx2(const void* bytes, std::size_t size_bytes, std::uint64_t& high, std::uint64_t& low) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, size_bytes);
  high = hash.high64;
  low = hash.low64;
}

void add_with_avx2(void* state, const void* bytes, std::size_t size_bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state), bytes, size_bytes);
}

}  // namespace muster
