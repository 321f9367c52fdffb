#include <muster/vision/image.h>
#include <stdexcept>
#include <torch/torch.h>
#include <vector>

#include "common/base/file.h"
#include "runtime/data/datasets/convert.h"
#include "runtime/vision/image_file.h"

namespace muster {

namespace {

constexpr std::uint64_t kLargestFileBytes = std::uint64_t{1} << 30;

[[noreturn]] void refuse(const std::string& path, const Error& error) {
  throw std::runtime_error(fmt::format("cannot read {}: {}", path, error.message()));
}

// Returns a tensor [channels, height, width]. In memory, the channels of a pixel lie side by side.
at::Tensor empty_image(const ImageShape& shape) {
  return at::empty_strided({shape.channels, shape.height, shape.width},
                           {1, shape.width * shape.channels, shape.channels}, at::kByte);
}

}  // namespace

ImageFile::ImageFile(std::string path, ImageReadMode mode) : path_(std::move(path)) {
  auto bytes = read_regular_file(path_, kLargestFileBytes);
  if (!bytes) throw std::runtime_error(bytes.error().message());
  bytes_ = *std::move(bytes);
  const auto image =
      open_image({reinterpret_cast<const std::uint8_t*>(bytes_.data()), bytes_.size()}, channel_count(mode));
  if (!image) refuse(path_, image.error());
  image_ = *image;
}

void ImageFile::read(std::uint8_t* pixels) const {
  if (const Status status = image_.decoder->read(pixels); !status) refuse(path_, status.error());
}

void ImageFile::read_planes(std::uint8_t* planes) const {
  const ImageShape& shape = image_.shape;
  if (shape.channels == 1) return read(planes);
  thread_local std::vector<std::uint8_t> rows;
  rows.resize(shape.bytes());
  read(rows.data());
  split_pixels(rows.data(), shape.height * shape.width, planes);
}

at::Tensor read_image(const std::string& path, ImageReadMode mode) {
  const ImageFile file(path, mode);
  at::Tensor pixels = empty_image(file.shape());
  file.read(pixels.mutable_data_ptr<std::uint8_t>());
  return pixels;
}

at::Tensor decode_image(std::span<const std::uint8_t> bytes, ImageReadMode mode) {
  const auto image = open_image(bytes, channel_count(mode));
  if (!image) throw std::runtime_error("cannot decode an image: " + image.error().message());
  at::Tensor pixels = empty_image(image->shape);
  const Status status = image->decoder->read(pixels.mutable_data_ptr<std::uint8_t>());
  if (!status) throw std::runtime_error("cannot decode an image: " + status.error().message());
  return pixels;
}

}  // namespace muster
