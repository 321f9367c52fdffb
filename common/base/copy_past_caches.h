// A copy that leaves the processor's caches to training, and does not read what it overwrites: of a state
// that is larger than they are, it takes half as long as memcpy() of its parts.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace muster {

// As memcpy(), which it is for less than a page; later loads of any thread that is told of its end see the
// bytes.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes);

// The same. `look` is handed all of the bytes meanwhile, in their order and a little at a time: a copy waits
// for the memory, so that what is worked out between its stores takes hardly any time of its own.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::function<void(std::span<const std::byte>)>& look);

}  // namespace muster
