#include "runtime/rank/heap.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <vector>

namespace muster {
namespace {

constexpr int kBlocks = 20;
constexpr std::size_t kBytes = 3 << 20;
constexpr long kPages = kBlocks * static_cast<long>(kBytes) / 4096;

// As a step does: all blocks are used, then all are given back.
[[maybe_unused]] void step() {
  std::vector<void*> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::malloc(kBytes));
    std::memset(blocks.back(), i, kBytes);
  }
  for (void* block : blocks) std::free(block);
}

[[maybe_unused]] long page_faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

TEST(Heap, KeepsWhatAStepGivesBackForTheNextUnlessTheUserHasChosen) {
  setenv("MALLOC_TRIM_THRESHOLD_", "100000", 1);
  EXPECT_FALSE(reuse_step_memory());
  unsetenv("MALLOC_TRIM_THRESHOLD_");
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)  // which allocate themselves
  ASSERT_TRUE(reuse_step_memory());
  step();
  const long before = page_faults();
  for (int i = 0; i < 5; ++i) step();
  const long faults = page_faults() - before;
  EXPECT_LT(faults, kPages / 10) << "of the " << 5 * kPages << " pages that were used";
#endif
}

}  // namespace
}  // namespace muster
