// Copies memory without filling the processor's caches, so that the training keeps what it has there. Also
// does not read the target's old bytes. If the data is larger than the caches, this takes half as long as
// memcpy().
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace muster {

// Copies as memcpy() does; for less than a page, calls memcpy(). Another thread sees the bytes once it is
// told that the copy has ended.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes);

// Also passes all bytes to `look`, in order, in small pieces. This takes hardly any extra time, because the
// copy has to wait for the memory anyway.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size_bytes,
                      const std::function<void(std::span<const std::byte>)>& look);

}  // namespace muster
