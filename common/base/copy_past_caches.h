// A copy that leaves the processor's caches to training, and does not read what it overwrites: of a state
// that is larger than they are, it takes half as long as memcpy() of its parts.
#pragma once

#include <cstddef>

namespace muster {

// As memcpy(), which it is for less than a page; later loads of any thread that is told of its end see the
// bytes. `next`, if given: the caller reads as many bytes from there afterwards, and they come into the cache
// meanwhile; for a source that is in the cache already. It need not be memory.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::byte* next = nullptr);

}  // namespace muster
