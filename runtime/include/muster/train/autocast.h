// Automatic mixed precision: PyTorch's torch.autocast. While it lives, matrix products and convolutions of
// this thread compute in a type of 16 bits, and what needs more in 32.
//
//   at::Tensor loss;
//   {
//     const auto casting = muster::autocast(job.device().type(), {.dtype = torch::kBFloat16});
//     loss = loss_of(model(images), labels);
//   }
//   loss.backward();  // outside: the types are those of the forward pass
//
// They nest, and {.enabled = false} within one computes as without it. Guards of a thread end in the opposite
// order in which they began. Weights that were cast are kept until the outermost one ends, or one of another
// type begins or ends; without .cache_enabled not at all. (torch::nn::Linear gives its weight
// transposed, and nothing is kept of it; muster::Linear's weight is kept.) Fp16 wants a GradScaler, bf16 does
// not.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>
#include <optional>

namespace muster {

struct AutocastOptions {
  std::optional<at::ScalarType> dtype =
      std::nullopt;  // kBFloat16 or kHalf; none: bf16 on a CPU, fp16 on a GPU
  bool enabled = true;
  bool cache_enabled = true;
};

class [[nodiscard]] Autocast {
 public:
  // std::invalid_argument for another type, or a kind of device that has no autocast.
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
