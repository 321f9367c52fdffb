// Automatic mixed precision: PyTorch's torch.autocast. While the guard exists, this thread computes matrix
// products and convolutions in a 16-bit type, and operations that need more precision in 32 bits.
//
//   at::Tensor loss;
//   {
//     const auto casting = muster::autocast(job.device().type(), {.dtype = torch::kBFloat16});
//     loss = loss_of(model(images), labels);
//   }
//   loss.backward();  // outside: the types are those of the forward pass
//
// Guards nest; with {.enabled = false} an inner one computes without autocast. A thread must destroy its
// guards in the reverse order of their construction. Autocast caches the cast weights until the outermost
// guard ends, or until a guard with another type begins or ends; without .cache_enabled it caches nothing.
// (It caches the weight of a muster::Linear, but not of a torch::nn::Linear, which passes its weight
// transposed.) Use a GradScaler with fp16; bf16 does not need one.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <optional>

namespace muster {

struct AutocastOptions {
  // The 16-bit type: kBFloat16 or kHalf. Empty: kBFloat16 on a CPU, and kHalf on a GPU.
  std::optional<at::ScalarType> dtype = std::nullopt;
  bool enabled = true;
  bool cache_enabled = true;
};

class [[nodiscard]] Autocast {
 public:
  // Throws std::invalid_argument for any other `dtype`, or for a kind of device that has no autocast.
  explicit Autocast(at::DeviceType device, const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
  bool cache_before_;
  bool changes_dtype_ = false;
};

inline Autocast autocast(at::DeviceType device, const AutocastOptions& options = {}) {
  return Autocast(device, options);
}

}  // namespace muster
