#include <fmt/core.h>
#include <muster/batch_memory.h>
#include <muster/tensor_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster::detail {

std::int64_t prepare_rows(const std::vector<at::Tensor*>& tensors) {
  std::int64_t count = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor& tensor = *tensors[i];
    if (!tensor.defined() || tensor.dim() == 0) {
      throw std::invalid_argument(fmt::format(
          "TensorDataset: tensor {} of the sample is {}; its first dimension must be that of the samples", i,
          tensor.defined() ? "a number without dimensions" : "not defined"));
    }
    if (count < 0) count = tensor.size(0);
    if (tensor.size(0) != count) {
      throw std::invalid_argument(
          fmt::format("TensorDataset: tensor {} of the sample has {} rows and the first one {}", i,
                      tensor.size(0), count));
    }
    tensor = tensor.contiguous();
  }
  if (count < 0) throw std::invalid_argument("TensorDataset: a sample has no tensors");
  return count;
}

at::Tensor gather_rows(const at::Tensor& rows, std::span<const std::int64_t> indices) {
  // index_select only reads them.
  const at::Tensor places =
      at::from_blob(const_cast<std::int64_t*>(indices.data()), {std::ssize(indices)}, at::kLong);  // NOLINT
  if (!rows.is_cpu()) return rows.index_select(0, places.to(rows.device()));
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = std::ssize(indices);
  at::Tensor batch = batch_empty(shape, rows.scalar_type());
  at::index_select_out(batch, rows, 0, places);
  return batch;
}

}  // namespace muster::detail
