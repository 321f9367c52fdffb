#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <muster/data/batch_memory.h>
#include <muster/data/tensor_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster::detail {

std::int64_t prepare_rows(const std::vector<at::Tensor*>& tensors) {
  std::int64_t count = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor& tensor = *tensors[i];
    if (!tensor.defined() || tensor.dim() == 0) {
      throw std::invalid_argument(fmt::format(
          "TensorDataset: tensor {} of the sample is {}; its first dimension must count the samples", i,
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
  if (!rows.is_cpu()) {
    // The const_cast is safe, because index_select only reads the indices.
    const at::Tensor places = at::from_blob(const_cast<std::int64_t*>(indices.data()),  // NOLINT
                                            {std::ssize(indices)}, at::kLong);
    return rows.index_select(0, places.to(rows.device()));
  }
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = std::ssize(indices);
  at::Tensor batch = batch_empty(shape, rows.scalar_type());
  // Copies one row after the other. index_select() would use several threads, but training needs the cores.
  const auto row_bytes = indices.empty() ? 0 : batch.nbytes() / indices.size();
  const std::int64_t step_bytes = rows.stride(0) * static_cast<std::int64_t>(rows.element_size());
  const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
  auto* to = static_cast<std::byte*>(batch.mutable_data_ptr());
  for (const std::int64_t index : indices) {
    if (row_bytes > 0) std::memcpy(to, from + index * step_bytes, row_bytes);
    to += row_bytes;
  }
  return batch;
}

}  // namespace muster::detail
