// Makes the C library's allocator keep the memory that a training frees.
//
// A step allocates and frees the same tens of megabytes. By default glibc returns them to the kernel, which
// zeroes every page again in the next step. Zeroing took 14 to 23 % of the demonstration's computing time.
// Process-wide; call it at any time.
#pragma once

namespace muster {

// From now on the process keeps up to 1 GiB of freed memory; blocks of 32 MiB and more still go back. Returns
// false, and changes nothing, if the environment configures the allocator (MALLOC_..., GLIBC_TUNABLES).
bool reuse_step_memory();

}  // namespace muster
