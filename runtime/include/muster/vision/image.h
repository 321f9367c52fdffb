// Images from JPEG, PNG, BMP, WebP, TIFF, PBM, PGM and PPM files, with torchvision.io's names.
//
// What a file is, its first bytes say, not its name. Pixels are those of Pillow's convert("RGB"), bit for bit
// where both have the same libraries; docs/data.md has the exceptions. An image that is cut off or damaged is
// an error, never a picture that is partly gray; what other decoders forgive because it harms no pixel (bytes
// between the parts of a JPEG) is forgiven here. Other pictures, such as GIF and AVIF, are refused by name.
// Safe from any thread; each keeps decoders of its own. libtiff is loaded at the first TIFF.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>
#include <string>

namespace muster {

enum class ImageReadMode {
  kRgb,   // three channels; transparency is dropped
  kGray,  // one: the luminance, as Pillow's convert("L"); of a JPEG the one that the file holds
};

// uint8 [channels, height, width]. As in torchvision, the channels of a pixel lie side by side in memory
// (contiguous() sets them apart). std::runtime_error says what is wrong, read_image()'s with the path.
at::Tensor read_image(const std::string& path, ImageReadMode mode = ImageReadMode::kRgb);
at::Tensor decode_image(std::span<const std::uint8_t> bytes, ImageReadMode mode = ImageReadMode::kRgb);

}  // namespace muster
