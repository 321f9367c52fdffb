// Finds out which instructions the processor supports.
//
// Safe from any thread, also before main(). Asks the processor only once.
#pragma once

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace muster {

// Returns whether the processor has AVX2 and the kernel saves AVX2's registers.
// __builtin_cpu_supports("avx2") would give the same answer. But a program that contains it asks the
// processor at each start, even if nobody calls it. In a virtual machine that takes 60 us.
inline bool has_avx2() {
#ifdef __x86_64__
  static const bool has = [] {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
    asm("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    constexpr unsigned kSseAndAvxState = 0b110;
    if ((a & kSseAndAvxState) != kSseAndAvxState) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_AVX2) != 0;
  }();
  return has;
#else
  return false;
#endif
}

}  // namespace muster
