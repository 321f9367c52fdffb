#include <fmt/format.h>
#include <muster/train/check_finite.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/rank/training_loop.h"

namespace muster {

void check_finite(const at::Tensor& values, std::string_view name) {
  const torch::NoGradGuard no_grad;
  const auto finite = at::isfinite(values).sum().item<std::int64_t>();
  const std::int64_t count = values.numel();
  if (finite == count) return;
  const std::string what =
      count == 1 ? fmt::format("{} is {}", name, values.item<double>())
                 : fmt::format("{} of {} values of {} are not finite", count - finite, count, name);
  const std::string batch = batch_in_hand();
  throw std::runtime_error(batch.empty() ? what : fmt::format("{} (in training with {})", what, batch));
}

void check_finite(double value, std::string_view name) {
  check_finite(torch::scalar_tensor(value, torch::kDouble), name);
}

}  // namespace muster
