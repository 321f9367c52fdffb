// Converts the samples of a TIFF to red, green and blue.
//
// The results are the same as from Pillow's TiffImagePlugin and convert("RGB"). Gray of 16 and 32 bits is
// clipped at 255. Colors of 16 bits keep their upper bytes. Transparency is dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/error.h"

namespace muster {

// Values of the file's tags.
struct TiffTags {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint16_t bits = 0;  // per sample
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
    kLevels,  // gray or palette indices, of 1, 2, 4 or 8 bits
    kGray12,
    kGray16,
    kGraySigned16,
    kGray32,  // signed; Pillow reads even unsigned values as signed
    kGrayFloat,
    kRgb,
    kCmyk,
    kByLibtiff,  // YCbCr without JPEG compression: libtiff converts it
  };
  Kind kind = Kind::kLevels;
  std::uint16_t bits = 8;
  std::uint16_t samples = 1;
  bool premultiplied = false;                             // colors are multiplied by alpha
  std::array<std::array<std::uint8_t, 3>, 256> colors{};  // for kLevels

  // Returns how many bytes a row of `width` pixels has, with all samples of each pixel.
  std::size_t row_bytes(std::size_t width) const { return (width * bits * samples + 7) / 8; }
};

// Returns how pixels with these tags must be converted. If their form is not supported, returns an error that
// says which form it is. If the picture has a palette, the caller must set `colors`.
Expected<TiffPixels> tiff_pixels_of(const TiffTags& tags);

// Converts `count` pixels to red, green and blue. The first pixel is at `row`. The samples are in the byte
// order of this machine.
void write_tiff_row(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb);

}  // namespace muster
