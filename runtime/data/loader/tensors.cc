#include <muster/comm/detail/tensors.h>
#include <torch/torch.h>

namespace muster::detail {

std::vector<at::Tensor> dense_parts(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  switch (tensor.layout()) {
    case at::kStrided: return {tensor};
    case at::kSparse: return {tensor._indices(), tensor._values()};
    case at::kSparseCsr:
    case at::kSparseBsr: return {tensor.crow_indices(), tensor.col_indices(), tensor.values()};
    case at::kSparseCsc:
    case at::kSparseBsc: return {tensor.ccol_indices(), tensor.row_indices(), tensor.values()};
    default: return {};
  }
}

std::int64_t tensor_bytes(const at::Tensor& tensor) {
  std::int64_t bytes = 0;
  for (const at::Tensor& part : dense_parts(tensor)) bytes += static_cast<std::int64_t>(part.nbytes());
  return bytes;
}

}  // namespace muster::detail
