// Makes the C library's allocator keep the memory that a training frees.
//
// A step allocates and frees the same tens of megabytes. By default glibc returns them to the kernel, which
// zeroes every page again in the next step. Zeroing took 14 to 23 % of the demonstration's computing time.
// The setting is for the whole process. Call the function at any time.
#pragma once

namespace muster {

// After this call, the process keeps up to 1 GiB of freed memory for later allocations. Blocks of 32 MiB or
// more still go back to the kernel. If the environment configures the allocator (MALLOC_..., GLIBC_TUNABLES),
// the function changes nothing and returns false.
bool reuse_step_memory();

}  // namespace muster
