#include <fmt/format.h>
#include <muster/batch_memory.h>
#include <muster/idx_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/argument.h"
#include "runtime/data/convert.h"
#include "runtime/data/idx.h"

namespace muster {

namespace {

IdxArray read_or_throw(const std::string& path, std::size_t dimensions) {
  auto array = read_idx(path);
  if (!array) throw std::runtime_error(array.error().message());
  if (array->shape.size() != dimensions) {
    throw std::runtime_error(
        fmt::format("cannot use {}: it has {} dimensions, not {}", path, array->shape.size(), dimensions));
  }
  return *std::move(array);
}

}  // namespace

IdxDataset::IdxDataset(const std::string& images_path, const std::string& labels_path,
                       IdxNormalization normalization)
    : normalization_(normalization) {
  check_argument(normalization.stddev > 0, "IdxDataset: stddev", normalization.stddev, "above 0");
  IdxArray images = read_or_throw(images_path, 3);
  IdxArray labels = read_or_throw(labels_path, 1);
  if (images.shape[0] != labels.shape[0]) {
    throw std::runtime_error(fmt::format("cannot use {} with {}: {} images and {} labels", images_path,
                                         labels_path, images.shape[0], labels.shape[0]));
  }
  name_ = images_path;
  height_ = images.shape[1];
  width_ = images.shape[2];
  pixels_ = std::move(images.bytes);
  labels_ = std::move(labels.bytes);
}

Example IdxDataset::get(std::int64_t index) const {
  Batch batch = get_batch(std::span(&index, 1));
  return {.data = batch.data[0], .target = batch.target[0]};
}

Batch IdxDataset::get_batch(std::span<const std::int64_t> indices) const {
  detail::check_indices(*this, indices);
  const std::int64_t count = std::ssize(indices);
  const std::int64_t pixels = height_ * width_;
  Batch batch{.data = batch_empty({count, 1, height_, width_}, at::kFloat),
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
