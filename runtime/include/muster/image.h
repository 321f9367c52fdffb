// Images from JPEG and PNG files, with torchvision.io's names.
//
// What a file is, its first bytes say, not its name. JPEGs come out bit for bit as Pillow has them from the
// same libjpeg-turbo. An image that is cut off or damaged is an error, never a picture that is partly gray;
// what other decoders forgive because it harms no pixel (bytes between the parts of a JPEG) is forgiven here.
// Safe from any thread; each keeps a decoder of its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>
#include <string>

namespace muster {

enum class ImageReadMode {
  kRgb,   // three channels; transparency is dropped
  kGray,  // one: the luminance
};

// uint8 [channels, height, width]. As in torchvision, the channels of a pixel lie side by side in memory
// (contiguous() sets them apart). std::runtime_error says what is wrong, read_image()'s with the path.
at::Tensor read_image(const std::string& path, ImageReadMode mode = ImageReadMode::kRgb);
at::Tensor decode_image(std::span<const std::uint8_t> bytes, ImageReadMode mode = ImageReadMode::kRgb);

}  // namespace muster
