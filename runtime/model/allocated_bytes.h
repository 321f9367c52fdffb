// Counts the bytes that this thread allocates and frees on any device. It counts as long as the guard exists
// that these lines create:
//
//   const auto bytes = std::make_shared<AllocatedBytes>();
//   const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, bytes);
#pragma once

#include <algorithm>
#include <c10/core/Allocator.h>
#include <cstddef>
#include <cstdint>

namespace muster {

class AllocatedBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t size, std::size_t, std::size_t,
                         c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace muster
