#include "runtime/rank/warm_seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <cstdint>
#include <mutex>

namespace muster {
namespace {

const std::uint64_t drawn_before_main = at::detail::getDefaultCPUGenerator().current_seed();

}  // namespace

void draw_seed_unless_chosen() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  if (generator.current_seed() == drawn_before_main) generator.seed();
}

}  // namespace muster
