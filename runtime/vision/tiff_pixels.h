// How the samples of a TIFF become red, green and blue.
//
// As Pillow's TiffImagePlugin and its convert("RGB") do it: gray of 16 and 32 bits is clipped at 255, colors
// of 16 bits keep their upper bytes, transparency is dropped. Plain functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/error.h"

namespace muster {

// Values of tags.
struct TiffTags {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint16_t bits = 0;  // a sample
  std::uint16_t samples = 0;
  std::uint16_t photometric = 0;
  std::uint16_t planar = 0;
  std::uint16_t compression = 0;
  std::uint16_t sample_format = 0;
  std::uint16_t orientation = 1;
  std::vector<std::uint16_t> extra_samples;
  bool big_endian = false;
};

struct TiffPixels {
  enum class Kind {
    kLevels,  // gray of 1, 2, 4 or 8 bits, and indices
    kGray12,
    kGray16,
    kGraySigned16,
    kGray32,  // signed, as Pillow takes unsigned ones, too
    kGrayFloat,
    kRgb,
    kCmyk,
    kByLibtiff,  // YCbCr that is not JPEG's
  };
  Kind kind = Kind::kLevels;
  std::uint16_t bits = 8;
  std::uint16_t samples = 1;
  bool premultiplied = false;                             // by the alpha that follows the colors
  std::array<std::array<std::uint8_t, 3>, 256> colors{};  // of kLevels

  // What libtiff gives for a row of all samples.
  std::size_t row_bytes(std::size_t width) const { return (width * bits * samples + 7) / 8; }
};

// An error names what is not read. The colors of a palette are set by the caller.
Expected<TiffPixels> tiff_pixels_of(const TiffTags& tags);

// `count` pixels from `row` on, in this machine's order of bytes.
void write_tiff_row(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb);

}  // namespace muster
