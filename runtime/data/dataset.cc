#include <exception>
#include <fmt/core.h>
#include <muster/dataset.h>
#include <stdexcept>

namespace muster::detail {

void on_bad_sample(const std::string& dataset, std::int64_t index, std::vector<std::int64_t>* skipped) {
  if (skipped != nullptr) return skipped->push_back(index);
  try {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(
        std::runtime_error(fmt::format("cannot load sample {} of {}: {}", index, dataset, error.what())));
  }
}

}  // namespace muster::detail
