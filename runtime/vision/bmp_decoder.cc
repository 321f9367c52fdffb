// Reads bitmaps of Windows and OS/2 (BITMAPCOREHEADER to BITMAPV5HEADER) as Pillow's BmpImagePlugin does,
// even where that deviates from the format's specification.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "runtime/data/datasets/number_at.h"
#include "runtime/vision/image_decoder.h"

namespace muster {

namespace {

using BmpColor = std::array<std::uint8_t, 3>;  // red, green, blue
using BmpPalette = std::array<BmpColor, 256>;

enum BmpCompression : std::uint32_t { kBmpRaw = 0, kBmpRle8 = 1, kBmpRle4 = 2, kBmpBitFields = 3 };

constexpr std::size_t kBmpFileHeader = 14;

struct BmpHeader {
  std::uint32_t header_size = 0;
  std::uint32_t pixels_at = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool top_down = false;
  unsigned bits = 0;
  std::uint32_t compression = kBmpRaw;
  std::uint32_t color_count = 0;
  std::size_t palette_entry_bytes = 4;

  std::size_t row_bytes() const { return (static_cast<std::size_t>(width) * bits + 7) / 8; }
  std::size_t stride() const { return (static_cast<std::size_t>(width) * bits + 31) / 32 * 4; }
  bool is_rle() const { return compression == kBmpRle8 || compression == kBmpRle4; }
};

Expected<BmpHeader> bmp_header_of(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kBmpFileHeader + 4) return ends_early();
  BmpHeader header;
  header.pixels_at = number_at<std::uint32_t>(bytes, 10);
  header.header_size = number_at<std::uint32_t>(bytes, 14);
  constexpr std::uint32_t kKnown[] = {12, 40, 52, 56, 64, 108, 124};
  if (std::ranges::find(kKnown, header.header_size) == std::end(kKnown))
    return failure(ErrorCode::kCorrupt,
                   "BMP: its header has {} bytes; it must have 12, 40, 52, 56, 64, 108 or 124",
                   header.header_size);
  if (bytes.size() < kBmpFileHeader + header.header_size) return ends_early();
  if (header.header_size == 12) {
    header.width = number_at<std::uint16_t>(bytes, 18);
    header.height = number_at<std::uint16_t>(bytes, 20);
    header.bits = number_at<std::uint16_t>(bytes, 24);
    header.palette_entry_bytes = 3;
  } else {
    header.width = number_at<std::uint32_t>(bytes, 18);
    header.height = number_at<std::uint32_t>(bytes, 22);
    header.top_down = bytes[25] == 0xff;  // the height is negative
    if (header.top_down) header.height = (std::int64_t{1} << 32) - header.height;
    header.bits = number_at<std::uint16_t>(bytes, 28);
    header.compression = number_at<std::uint32_t>(bytes, 30);
    header.color_count = number_at<std::uint32_t>(bytes, 46);
  }
  if (header.bits != 1 && header.bits != 4 && header.bits != 8 && header.bits != 16 && header.bits != 24 &&
      header.bits != 32)
    return failure(ErrorCode::kCorrupt, "BMP: {} bits per pixel; 1, 4, 8, 16, 24 or 32 are supported",
                   header.bits);
  if (header.compression > kBmpBitFields || (header.is_rle() && header.bits > 8))
    return failure(ErrorCode::kCorrupt, "BMP: compression {} with {} bits per pixel is not supported",
                   header.compression, header.bits);
  if (header.bits <= 8 && header.color_count == 0) header.color_count = 1U << header.bits;
  return header;
}

// Says which part of a pixel is red, green and blue, for pixels of 16, 24 or 32 bits.
struct BmpFields {
  bool five_six_five = false;                 // for 16 bits; true: green has six bits; false: all have five
  std::array<std::size_t, 3> bytes{2, 1, 0};  // for 24 and 32 bits: where in a pixel red, green and blue are
};

std::optional<BmpFields> bmp_fields_of(unsigned bits, const std::array<std::uint32_t, 3>& masks) {
  using Masks = std::array<std::uint32_t, 3>;
  if (bits == 16) {
    if (masks == Masks{0xf800, 0x7e0, 0x1f}) return BmpFields{.five_six_five = true};
    if (masks == Masks{0x7c00, 0x3e0, 0x1f}) return BmpFields{};
    return std::nullopt;
  }
  if (bits == 32 && masks == Masks{0, 0, 0}) return BmpFields{};
  BmpFields fields;
  for (std::size_t i = 0; i < 3; ++i) {
    const int shift = std::countr_zero(masks[i]);
    if (shift % 8 != 0 || shift >= static_cast<int>(bits) || masks[i] >> shift != 0xff) return std::nullopt;
    fields.bytes[i] = static_cast<std::size_t>(shift) / 8;
  }
  return fields;
}

// Reads the palette as Pillow does. Pillow does not use a palette in two cases. If each color i is just the
// gray level i, it takes each value as a gray level. If the palette has only black and white, it takes 0 as
// black and all other values as white. In all other palettes, the colors that are missing are black.
Expected<BmpPalette> bmp_palette_of(std::span<const std::uint8_t> entries, const BmpHeader& header) {
  const std::size_t step = header.palette_entry_bytes, count = entries.size() / step;
  const bool two = header.color_count <= 2;
  BmpPalette palette{};
  bool gray = count == header.color_count;
  for (std::size_t i = 0; i < count; ++i) {
    const BmpColor color{entries[i * step + 2], entries[i * step + 1], entries[i * step]};
    if (i < palette.size()) palette[i] = color;
    const auto value = static_cast<std::uint8_t>(header.color_count == 2 && i == 1 ? 255 : i);
    gray = gray && color == BmpColor{value, value, value};
  }
  for (std::size_t i = 0; gray && i < palette.size(); ++i)
    palette[i].fill(static_cast<std::uint8_t>(two && i > 0 ? 255 : i));
  if (!gray && count > palette.size())
    return failure(ErrorCode::kCorrupt, "BMP: its palette has {} colors; at most 256 are supported", count);
  return palette;
}

// Reads values that are compressed by run-length encoding (RLE4 and RLE8). If a line ends early, fills it
// with zeros. If the picture ends early, fails.
class BmpRuns {
 public:
  BmpRuns(std::span<const std::uint8_t> bytes, const BmpHeader& header)
      : bytes_(bytes),
        at_(header.pixels_at),
        width_(static_cast<std::size_t>(header.width)),
        size_(width_ * static_cast<std::size_t>(header.height)),
        four_bits_(header.compression == kBmpRle4) {}

  Status read(std::vector<std::uint8_t>& values) {
    values.clear();
    values.reserve(size_);
    bool more = true;
    while (more && values.size() < size_ && left() >= 2) {
      const std::uint8_t count = bytes_[at_], code = bytes_[at_ + 1];
      at_ += 2;
      more = count > 0 ? repeat(count, code, values) : obey(code, values);
    }
    if (values.size() < size_) return ends_early();
    return {};
  }

 private:
  std::size_t left() const { return bytes_.size() - std::min(at_, bytes_.size()); }
  void fill(std::size_t count, std::vector<std::uint8_t>& values) const {
    values.resize(values.size() + std::min(count, size_ - values.size()));
  }

  bool repeat(std::size_t count, std::uint8_t code, std::vector<std::uint8_t>& values) {
    count = std::min(count, width_ - std::min(x_, width_));
    const std::size_t here = std::min(count, size_ - values.size());
    for (std::size_t i = 0; i < here; ++i)
      values.push_back(!four_bits_ ? code : static_cast<std::uint8_t>(i % 2 == 0 ? code >> 4 : code & 15));
    x_ += count;
    return true;
  }

  bool obey(std::uint8_t code, std::vector<std::uint8_t>& values) {
    if (code == 1) return false;
    if (code == 0) {
      fill((width_ - values.size() % width_) % width_, values);
      x_ = 0;
      return true;
    }
    if (code > 2) return copy(code, values);
    if (left() < 2) return false;
    fill(bytes_[at_] + bytes_[at_ + 1] * width_, values);
    at_ += 2;
    x_ = values.size() % width_;
    return true;
  }

  bool copy(std::size_t count, std::vector<std::uint8_t>& values) {
    const std::size_t here = std::min(count, size_ - values.size());
    const std::size_t byte_count = four_bits_ ? (here + 1) / 2 : here;
    if (left() < byte_count) return false;
    for (std::size_t i = 0; i < here; ++i) {
      const std::uint8_t byte = bytes_[at_ + (four_bits_ ? i / 2 : i)];
      values.push_back(!four_bits_ ? byte : static_cast<std::uint8_t>(i % 2 == 0 ? byte >> 4 : byte & 15));
    }
    x_ += count;
    at_ += byte_count;
    at_ += at_ % 2;
    return true;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_;
  std::size_t width_;
  std::size_t size_;
  std::size_t x_ = 0;  // column; can pass the line's end: values beyond the end are left out
  bool four_bits_;
};

void unpack_bmp_values(const std::uint8_t* row, unsigned bits, std::span<std::uint8_t> values) {
  const unsigned in_byte = 8 / bits, mask = (1U << bits) - 1;
  for (std::size_t x = 0; x < values.size(); ++x) {
    const auto shift = static_cast<unsigned>(in_byte - 1 - x % in_byte) * bits;
    values[x] = static_cast<std::uint8_t>(row[x / in_byte] >> shift & mask);
  }
}

class BmpDecoder : public RgbDecoder {
 protected:
  Expected<ImageShape> open_rgb(std::span<const std::uint8_t> bytes) override {
    auto header = bmp_header_of(bytes);
    if (!header) return std::unexpected(std::move(header).error());
    header_ = *header;
    bytes_ = bytes;
    auto shape = checked_shape({.channels = 3, .height = header_.height, .width = header_.width});
    if (!shape) return shape;
    const Status colors = header_.bits <= 8 ? read_palette() : read_masks();
    if (!colors) return std::unexpected(colors.error());
    const std::size_t needed =
        static_cast<std::size_t>(header_.height - 1) * header_.stride() + header_.row_bytes();
    if (!header_.is_rle() && bytes.size() < header_.pixels_at + needed) return ends_early();
    return shape;
  }

  Status read_rgb(std::uint8_t* rgb) override {
    const auto width = static_cast<std::size_t>(header_.width);
    values_.resize(width);
    if (header_.is_rle()) {
      if (Status read = BmpRuns(bytes_, header_).read(values_); !read) return read;
    }
    for (std::int64_t y = 0; y < header_.height; ++y) {
      const auto line = static_cast<std::size_t>(header_.top_down ? y : header_.height - 1 - y);
      if (header_.is_rle()) {
        rgb = write_colors(std::span(values_).subspan(line * width, width), rgb);
        continue;
      }
      const std::uint8_t* row = bytes_.data() + header_.pixels_at + line * header_.stride();
      if (header_.bits < 8) unpack_bmp_values(row, header_.bits, values_);
      if (header_.bits <= 8)
        rgb = write_colors(header_.bits == 8 ? std::span(row, width) : std::span<const std::uint8_t>(values_),
                           rgb);
      else
        rgb = header_.bits == 16 ? write_16(row, rgb) : write_bytes(row, rgb);
    }
    return {};
  }

 private:
  // The pixels come after the palette or, if there is none, after the color masks. A header can leave out
  // where the pixels begin. Then read_palette() and read_masks() set header_.pixels_at.
  Status read_palette() {
    const std::size_t at = kBmpFileHeader + header_.header_size;
    if (header_.color_count > 65536)
      return failure(ErrorCode::kCorrupt, "BMP: its palette has {} colors; at most 256 are supported",
                     header_.color_count);
    const std::size_t size = std::min(header_.palette_entry_bytes * header_.color_count, bytes_.size() - at);
    auto palette = bmp_palette_of(bytes_.subspan(at, size), header_);
    if (!palette) return std::unexpected(std::move(palette).error());
    palette_ = *palette;
    if (header_.pixels_at == 0 || header_.pixels_at == at)
      header_.pixels_at = static_cast<std::uint32_t>(at + header_.palette_entry_bytes * header_.color_count);
    return {};
  }

  Status read_masks() {
    std::size_t at = kBmpFileHeader + header_.header_size;
    fields_ = {};
    if (header_.compression == kBmpBitFields) {
      const std::size_t masks_at = header_.header_size >= 52 ? 54 : at;
      if (header_.header_size < 52) at += 12;
      if (bytes_.size() < masks_at + 12) return ends_early();
      std::array<std::uint32_t, 3> masks{};
      for (std::size_t i = 0; i < 3; ++i) masks[i] = number_at<std::uint32_t>(bytes_, masks_at + 4 * i);
      const auto fields = bmp_fields_of(header_.bits, masks);
      if (!fields)
        return failure(ErrorCode::kCorrupt,
                       "BMP: masks {:x}, {:x} and {:x} with {} bits per pixel are not supported", masks[0],
                       masks[1], masks[2], header_.bits);
      fields_ = *fields;
    }
    if (header_.pixels_at == 0) header_.pixels_at = static_cast<std::uint32_t>(at);
    return {};
  }

  std::uint8_t* write_colors(std::span<const std::uint8_t> values, std::uint8_t* rgb) const {
    for (const std::uint8_t value : values) rgb = std::ranges::copy(palette_[value], rgb).out;
    return rgb;
  }

  std::uint8_t* write_16(const std::uint8_t* row, std::uint8_t* rgb) const {
    for (std::int64_t x = 0; x < header_.width; ++x, row += 2) {
      const unsigned pixel = row[0] + row[1] * 256U;
      const bool six = fields_.five_six_five;
      *rgb++ = static_cast<std::uint8_t>((pixel >> (six ? 11 : 10) & 31) * 255 / 31);
      *rgb++ = static_cast<std::uint8_t>(six ? (pixel >> 5 & 63) * 255 / 63 : (pixel >> 5 & 31) * 255 / 31);
      *rgb++ = static_cast<std::uint8_t>((pixel & 31) * 255 / 31);
    }
    return rgb;
  }

  std::uint8_t* write_bytes(const std::uint8_t* row, std::uint8_t* rgb) const {
    const std::size_t step = header_.bits / 8;
    for (std::int64_t x = 0; x < header_.width; ++x, row += step)
      for (const std::size_t byte : fields_.bytes) *rgb++ = row[byte];
    return rgb;
  }

  BmpHeader header_;
  std::span<const std::uint8_t> bytes_;
  BmpPalette palette_{};
  BmpFields fields_;
  std::vector<std::uint8_t> values_;  // of one line, or of all lines
};

}  // namespace

std::unique_ptr<ImageDecoder> make_bmp_decoder() {
  return std::make_unique<BmpDecoder>();
}

}  // namespace muster
