// Copies memory without putting it into the processor's caches, so that what the training has in the caches
// stays there. The old bytes of the target are not even read. If the data is larger than the caches, this
// takes half as long as memcpy().
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace muster {

// Copies in the same way as memcpy(), but past the caches. If there is less than a page, calls memcpy().
// Another thread sees the bytes once it has been told that the copy has ended.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes);

// Does the same, and also passes all bytes to `look`, in their order and in small pieces. This takes hardly
// any more time, because the copy has to wait for the memory anyway.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::function<void(std::span<const std::byte>)>& look);

}  // namespace muster
