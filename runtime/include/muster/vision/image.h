// Images from JPEG, PNG, BMP, WebP, TIFF, PBM, PGM and PPM files, with torchvision.io's names.
//
// The first bytes of a file, not its name, determine its format. Pixels equal those of Pillow's
// convert("RGB"), bit for bit if both use the same libraries; docs/data.md lists the exceptions. A truncated
// or damaged image throws instead of returning a partly gray picture; damage that affects no pixel (bytes
// between the segments of a JPEG) is ignored, as in other decoders. For other formats, such as GIF and AVIF,
// the error names the format. Any thread can call the functions; each thread keeps its own decoders. libtiff
// is loaded with the first TIFF.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>
#include <string>

namespace muster {

enum class ImageReadMode {
  kRgb,   // three channels; transparency is dropped
  kGray,  // one channel: the luminance, as Pillow's convert("L"); for a JPEG the stored luminance
};

// These functions return a uint8 tensor [channels, height, width]. As in torchvision, the channels of a pixel
// are adjacent in memory; contiguous() separates them. If the image cannot be read, they throw
// std::runtime_error, which says why. The error of read_image() also names the path.
at::Tensor read_image(const std::string& path, ImageReadMode mode = ImageReadMode::kRgb);
at::Tensor decode_image(std::span<const std::uint8_t> bytes, ImageReadMode mode = ImageReadMode::kRgb);

}  // namespace muster
