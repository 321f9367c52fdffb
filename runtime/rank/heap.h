// How the C library's allocator deals with what a training gives back: it keeps it.
//
// A step allocates and frees the same tens of megabytes. By its defaults glibc returns them to the kernel,
// which zeroes every page again in the next step: 14 to 23 % of what the demonstration computes.
// Process-wide; before there are threads, or at any time.
#pragma once

namespace muster {

// From now on up to 1 GiB of freed memory stays with the process, blocks of 32 MiB and more excepted. False,
// and nothing is changed, if the environment says how to allocate (MALLOC_..., GLIBC_TUNABLES).
bool reuse_step_memory();

}  // namespace muster
