#include <atomic>
#include <exception>
#include <fmt/format.h>
#include <muster/data/dataset.h>
#include <stdexcept>

#include "common/base/log.h"
#include "runtime/rank/uncaught.h"

namespace muster::detail {

void rethrow_bad_sample(const std::string& dataset, std::int64_t index) {
  std::throw_with_nested(std::runtime_error(
      fmt::format("cannot load sample {} of {}: {}", index, dataset, current_exception_text())));
}

void warn_of_skipped(const std::string& dataset, std::int64_t index) {
  constexpr int kTold = 10;
  static std::atomic<int> count = 0;
  const int before = count++;
  if (before < kTold)
    log::warning("sample {} of {} is skipped: {}{}", index, dataset, current_exception_text(),
                 before + 1 == kTold ? " (there will be no warnings of further ones)" : "");
}

void refuse_index(const std::string& dataset, std::int64_t index, std::int64_t size) {
  throw std::out_of_range(fmt::format("index {} is out of range: {} has {} samples", index, dataset, size));
}

}  // namespace muster::detail
