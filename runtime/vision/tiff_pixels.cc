#ifdef MUSTER_TIFF

#include "runtime/vision/tiff_pixels.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <tiff.h>

namespace muster {

namespace {

using TiffKind = TiffPixels::Kind;

std::string_view tiff_photometric_name(std::uint16_t photometric) {
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE: return "gray (white is 0)";
    case PHOTOMETRIC_MINISBLACK: return "gray";
    case PHOTOMETRIC_RGB: return "RGB";
    case PHOTOMETRIC_PALETTE: return "palette";
    case PHOTOMETRIC_MASK: return "mask";
    case PHOTOMETRIC_SEPARATED: return "CMYK";
    case PHOTOMETRIC_YCBCR: return "YCbCr";
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB: return "L*a*b*";
    case 32803: return "raw camera data";
    default: return "another color space";
  }
}

std::string_view tiff_format_name(std::uint16_t format) {
  switch (format) {
    case SAMPLEFORMAT_UINT: return "whole numbers";
    case SAMPLEFORMAT_INT: return "signed numbers";
    case SAMPLEFORMAT_IEEEFP: return "floating-point numbers";
    default: return "numbers of another kind";
  }
}

std::unexpected<Error> not_read(const TiffTags& tags, std::string_view more = {}) {
  return failure(
      ErrorCode::kInvalidArgument,
      "TIFF: {} of {} x {} bits ({}{}) is not supported: convert it to gray, RGB or CMYK of 8 bits",
      tiff_photometric_name(tags.photometric), tags.samples, tags.bits, tiff_format_name(tags.sample_format),
      more);
}

// A pixel has samples for its colors, and can have more samples after them, for example alpha. Returns true
// if the file lists each of these other samples as an extra sample (tag ExtraSamples). The conversion ignores
// extra samples.
bool extra_samples_are(const TiffTags& tags, std::size_t color_count) {
  return tags.samples == color_count + tags.extra_samples.size();
}

bool is_level_bits(std::uint16_t bits) {
  return bits == 1 || bits == 2 || bits == 4 || bits == 8;
}

void set_gray_levels(TiffPixels& pixels, bool inverted) {
  const unsigned most = (1U << pixels.bits) - 1;
  for (unsigned i = 0; i <= most; ++i)
    pixels.colors[i].fill(static_cast<std::uint8_t>((inverted ? most - i : i) * 255 / most));
}

Expected<TiffPixels> gray_pixels(const TiffTags& tags) {
  const bool inverted = tags.photometric == PHOTOMETRIC_MINISWHITE;
  TiffPixels pixels{.kind = TiffKind::kLevels, .bits = tags.bits, .samples = tags.samples};
  if (!extra_samples_are(tags, 1) || tags.samples > 2) return not_read(tags);
  if (tags.samples == 2) {
    if (tags.extra_samples[0] == EXTRASAMPLE_ASSOCALPHA) return not_read(tags, ", multiplied by alpha");
    if (tags.bits != 8 || inverted || tags.sample_format != SAMPLEFORMAT_UINT) return not_read(tags);
    set_gray_levels(pixels, false);
    return pixels;
  }
  const bool is_uint = tags.sample_format == SAMPLEFORMAT_UINT;
  const bool is_int = tags.sample_format == SAMPLEFORMAT_INT && !inverted;
  if ((is_uint && is_level_bits(tags.bits)) || (is_int && tags.bits == 8))
    set_gray_levels(pixels, inverted);
  else if (is_uint && tags.bits == 12 && !inverted && !tags.big_endian)
    pixels.kind = TiffKind::kGray12;
  else if (is_uint && tags.bits == 16 && !(inverted && tags.big_endian))
    pixels.kind = TiffKind::kGray16;  // Pillow does not invert it
  else if (is_int && tags.bits == 16)
    pixels.kind = TiffKind::kGraySigned16;
  else if (tags.bits == 32 && (is_int || (is_uint && !inverted && !tags.big_endian)))
    pixels.kind = TiffKind::kGray32;
  else if (tags.bits == 32 && tags.sample_format == SAMPLEFORMAT_IEEEFP)
    pixels.kind = TiffKind::kGrayFloat;  // Pillow does not invert it either
  else
    return not_read(tags);
  return pixels;
}

// libtiff converts JPEG-compressed YCbCr to RGB while it decodes.
Expected<TiffPixels> ycbcr_pixels(const TiffTags& tags) {
  if (tags.compression == COMPRESSION_NONE) return not_read(tags, ", uncompressed");
  TiffPixels pixels{.kind = TiffKind::kRgb, .bits = tags.bits, .samples = tags.samples};
  if (tags.bits != 8 || tags.sample_format != SAMPLEFORMAT_UINT || !tags.extra_samples.empty())
    return not_read(tags);
  if (tags.samples == 1) {
    pixels.kind = TiffKind::kLevels;
    set_gray_levels(pixels, false);
    return pixels;
  }
  if (tags.samples != 3) return not_read(tags);
  if (tags.compression != COMPRESSION_JPEG || tags.planar != PLANARCONFIG_CONTIG)
    pixels.kind = TiffKind::kByLibtiff;
  return pixels;
}

template <class Number>
Number tiff_sample(const std::uint8_t* row, std::size_t index) {
  Number number{};
  std::memcpy(&number, row + index * sizeof number, sizeof number);
  return number;
}

// Clips a value to 0 .. 255. NaN becomes 0.
template <class Number>
std::uint8_t clipped_gray(Number value) {
  return !(value > 0) ? 0 : value >= 255 ? 255 : static_cast<std::uint8_t>(value);
}

std::uint8_t gray_at(const TiffPixels& pixels, const std::uint8_t* row, std::size_t x) {
  switch (pixels.kind) {
    case TiffKind::kGray12: {
      const std::uint8_t* pair = row + x / 2 * 3;
      return clipped_gray(x % 2 == 0 ? pair[0] << 4 | pair[1] >> 4 : (pair[1] & 15) << 8 | pair[2]);
    }
    case TiffKind::kGray16: return clipped_gray(tiff_sample<std::uint16_t>(row, x));
    case TiffKind::kGraySigned16: return clipped_gray(tiff_sample<std::int16_t>(row, x));
    case TiffKind::kGray32: return clipped_gray(tiff_sample<std::int32_t>(row, x));
    default: return clipped_gray(tiff_sample<float>(row, x));
  }
}

void write_levels(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb) {
  const unsigned in_byte = 8U / pixels.bits, mask = (1U << pixels.bits) - 1;
  for (std::size_t x = 0; x < count; ++x) {
    const std::size_t at = x * pixels.samples;
    const auto shift = static_cast<unsigned>(in_byte - 1 - at % in_byte) * pixels.bits;
    rgb = std::ranges::copy(pixels.colors[row[at / in_byte] >> shift & mask], rgb).out;
  }
}

void write_colors(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb) {
  const std::size_t bytes = pixels.bits / 8U, upper = bytes - 1, step = bytes * pixels.samples;
  for (std::size_t x = 0; x < count; ++x, row += step) {
    const unsigned alpha = pixels.premultiplied ? row[3 * bytes + upper] : 255;
    for (std::size_t i = 0; i < 3; ++i) {
      const unsigned value = row[i * bytes + upper];
      *rgb++ = static_cast<std::uint8_t>(alpha == 255 ? value
                                         : alpha == 0 ? 0
                                                      : std::min(255U, value * 255 / alpha));
    }
  }
}

void write_cmyk(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb) {
  const std::size_t bytes = pixels.bits / 8U, upper = bytes - 1, step = bytes * pixels.samples;
  for (std::size_t x = 0; x < count; ++x, row += step) {
    const unsigned light = 255U - row[3 * bytes + upper];
    for (std::size_t i = 0; i < 3; ++i) {
      const unsigned product = row[i * bytes + upper] * light + 128;
      *rgb++ = static_cast<std::uint8_t>(light - (((product >> 8) + product) >> 8));
    }
  }
}

}  // namespace

Expected<TiffPixels> tiff_pixels_of(const TiffTags& tags) {
  constexpr std::uint16_t kMostSamples = 6;
  if (tags.samples > kMostSamples) return not_read(tags);
  const bool is_uint = tags.sample_format == SAMPLEFORMAT_UINT;
  const bool whole_bytes = is_uint && (tags.bits == 8 || tags.bits == 16);
  TiffPixels pixels{.kind = TiffKind::kRgb, .bits = tags.bits, .samples = tags.samples};
  switch (tags.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK: return gray_pixels(tags);
    case PHOTOMETRIC_RGB:
      if (!whole_bytes || !extra_samples_are(tags, 3)) return not_read(tags);
      pixels.premultiplied = !tags.extra_samples.empty() && tags.extra_samples[0] == EXTRASAMPLE_ASSOCALPHA;
      return pixels;
    case PHOTOMETRIC_PALETTE:
      if (!is_uint || !is_level_bits(tags.bits) || !extra_samples_are(tags, 1)) return not_read(tags);
      if (tags.samples > 1 && tags.bits != 8) return not_read(tags);
      pixels.kind = TiffKind::kLevels;
      return pixels;
    case PHOTOMETRIC_SEPARATED:
      if (!whole_bytes || !extra_samples_are(tags, 4)) return not_read(tags);
      pixels.kind = TiffKind::kCmyk;
      return pixels;
    case PHOTOMETRIC_YCBCR: return ycbcr_pixels(tags);
    default: return not_read(tags);
  }
}

void write_tiff_row(const TiffPixels& pixels, const std::uint8_t* row, std::size_t count, std::uint8_t* rgb) {
  if (pixels.kind == TiffKind::kLevels) return write_levels(pixels, row, count, rgb);
  if (pixels.kind == TiffKind::kCmyk) return write_cmyk(pixels, row, count, rgb);
  if (pixels.kind != TiffKind::kRgb) {
    for (std::size_t x = 0; x < count; ++x) rgb = std::fill_n(rgb, 3, gray_at(pixels, row, x));
  } else if (pixels.bits == 8 && pixels.samples == 3) {
    std::copy_n(row, 3 * count, rgb);
  } else {
    write_colors(pixels, row, count, rgb);
  }
}

}  // namespace muster

#endif
