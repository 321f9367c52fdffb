#include <cstring>
#include <fmt/format.h>
#include <muster/data/batch_memory.h>
#include <muster/data/idx_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/argument.h"
#include "runtime/data/datasets/convert.h"
#include "runtime/data/datasets/idx.h"

namespace muster {

namespace {

IdxArray read_or_throw(const std::string& path) {
  auto array = read_idx_array(path);
  if (!array) throw std::runtime_error(array.error().message());
  return *std::move(array);
}

at::ScalarType scalar_type_of(IdxType type) {
  switch (type) {
    case IdxType::kUnsignedByte: return at::kByte;
    case IdxType::kSignedByte: return at::kChar;
    case IdxType::kShort: return at::kShort;
    case IdxType::kInt: return at::kInt;
    case IdxType::kFloat: return at::kFloat;
    case IdxType::kDouble: return at::kDouble;
  }
  return at::kByte;
}

at::Tensor tensor_of_array(const IdxArray& array) {
  const at::Tensor tensor = at::empty(std::vector<std::int64_t>(array.shape.begin(), array.shape.end()),
                                      scalar_type_of(array.type));
  if (!array.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), array.bytes.data(), array.bytes.size());
  return tensor;
}

}  // namespace

at::Tensor read_idx(const std::string& path) {
  return tensor_of_array(read_or_throw(path));
}

IdxDataset::IdxDataset(const std::string& images_path, const std::string& labels_path,
                       IdxNormalization normalization)
    : normalization_(normalization) {
  check_argument(normalization.stddev > 0, "IdxDataset: stddev", normalization.stddev, "above 0");
  IdxArray images = read_or_throw(images_path);
  const std::size_t dimensions = images.shape.size();
  if (images.type != IdxType::kUnsignedByte || dimensions < 3 || dimensions > 4) {
    throw std::runtime_error(
        fmt::format("cannot use {}: it is {} of {} dimensions, "
                    "and images are bytes [n, height, width] or [n, channels, height, width]; "
                    "for other arrays use TensorDataset(read_idx(...), read_idx(...))",
                    images_path, c10::toString(scalar_type_of(images.type)), dimensions));
  }
  const at::Tensor labels = read_idx(labels_path);
  if (labels.dim() != 1 || labels.is_floating_point()) {
    throw std::runtime_error(
        fmt::format("cannot use {}: it is {} of {} dimensions, and labels are whole numbers [n]", labels_path,
                    c10::toString(labels.scalar_type()), labels.dim()));
  }
  if (static_cast<std::int64_t>(images.shape[0]) != labels.size(0)) {
    throw std::runtime_error(fmt::format("cannot use {} with {}: {} images and {} labels", images_path,
                                         labels_path, images.shape[0], labels.size(0)));
  }
  name_ = images_path;
  channels_ = dimensions == 4 ? images.shape[1] : 1;
  height_ = images.shape[dimensions - 2];
  width_ = images.shape[dimensions - 1];
  pixels_ = std::move(images.bytes);
  const at::Tensor numbers = labels.to(at::kLong);
  const auto* begin = numbers.const_data_ptr<std::int64_t>();
  labels_.assign(begin, begin + numbers.numel());
}

Example IdxDataset::get(std::int64_t index) const {
  Batch batch = get_batch(std::span(&index, 1));
  return {.data = batch.data[0], .target = batch.target[0]};
}

Batch IdxDataset::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  const std::int64_t count = std::ssize(indices);
  const std::int64_t pixels = channels_ * height_ * width_;
  Batch batch{.data = batch_empty({count, channels_, height_, width_}, at::kFloat),
              .target = batch_empty({count}, at::kLong)};
  const PixelScale scale{.mean = normalization_.mean, .stddev = normalization_.stddev};
  auto* value = batch.data.mutable_data_ptr<float>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    normalize_pixels(pixels_.data() + index * pixels, pixels, scale, value);
    value += pixels;
    *target++ = labels_[static_cast<std::size_t>(index)];
  }
  return batch;
}

}  // namespace muster
