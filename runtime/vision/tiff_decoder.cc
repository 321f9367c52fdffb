#include "runtime/vision/image_decoder.h"

#ifdef MUSTER_TIFF

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/text.h"
#include "runtime/vision/tiff_library.h"
#include "runtime/vision/tiff_pixels.h"

namespace muster {

namespace {

constexpr tmsize_t kLargestTiffPart = tmsize_t{1} << 30;            // bytes that libtiff can allocate at once
constexpr std::int64_t kLargestTilePixels = std::int64_t{1} << 24;  // for tiles larger than the picture

// A picture's file in memory. libtiff reads it through this struct, which keeps libtiff's position in the
// file and the first message of libtiff.
struct TiffSource {
  std::span<const std::uint8_t> bytes;
  std::uint64_t at = 0;
  bool decodes = false;  // true while pixels are decoded: see harms_tiff()
  std::string reason;    // libtiff's first message
};

std::string tiff_message(const char* part, const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  return one_line(part == nullptr ? std::string(text) : fmt::format("{}: {}", part, text));
}

int on_tiff_error(TIFF*, void* user, const char* part, const char* format, va_list arguments) {
  auto& source = *static_cast<TiffSource*>(user);
  if (source.reason.empty()) source.reason = tiff_message(part, format, arguments);
  return 1;  // tells libtiff not to print the error
}

// Returns true if a warning of libtiff means that pixels are missing or wrong.
//
// - While pixels are decoded, most warnings are important. For example, if a strip has too few bytes, libtiff
//   leaves the missing pixels unwritten, and reports no error but a warning. Two warnings are harmless: they
//   are about files that old programs have written.
// - Before pixels are decoded, most warnings are about tags that do no harm. Three warnings are important:
//   the file ends inside a tag, a tag fails a sanity check, or there is no palette.
bool harms_tiff(const TiffSource& source, std::string_view format, std::string_view message) {
  if (source.decodes) return !format.starts_with("Old-style LZW") && !format.starts_with("Discarding");
  return format.starts_with("IO error") || format.starts_with("Sanity check") ||
         message.contains("\"ColorMap\"");
}

int on_tiff_warning(TIFF*, void* user, const char* part, const char* format, va_list arguments) {
  auto& source = *static_cast<TiffSource*>(user);
  std::string message = tiff_message(part, format, arguments);
  if (source.reason.empty() && harms_tiff(source, format, message)) source.reason = std::move(message);
  return 1;
}

tmsize_t on_tiff_read(thandle_t handle, void* to, tmsize_t count) {
  auto& source = *static_cast<TiffSource*>(handle);
  if (count <= 0 || source.at >= source.bytes.size()) return 0;
  const std::size_t here = std::min(static_cast<std::size_t>(count), source.bytes.size() - source.at);
  std::memcpy(to, source.bytes.data() + source.at, here);
  source.at += here;
  return static_cast<tmsize_t>(here);
}

tmsize_t on_tiff_write(thandle_t, void*, tmsize_t) {
  return 0;
}

toff_t on_tiff_seek(thandle_t handle, toff_t offset, int from) {
  auto& source = *static_cast<TiffSource*>(handle);
  source.at = offset + (from == SEEK_CUR ? source.at : from == SEEK_END ? source.bytes.size() : 0);
  return source.at;
}

int on_tiff_close(thandle_t) {
  return 0;
}

toff_t on_tiff_size(thandle_t handle) {
  return static_cast<TiffSource*>(handle)->bytes.size();
}

// Gives libtiff the file in memory. libtiff does not write to the file, because it is opened for reading.
int on_tiff_map(thandle_t handle, void** to, toff_t* size) {
  const auto& source = *static_cast<TiffSource*>(handle);
  *to = const_cast<std::uint8_t*>(source.bytes.data());
  *size = source.bytes.size();
  return 1;
}

void on_tiff_unmap(thandle_t, void*, toff_t) {}

// Maps the pixel (x, y) of the file to its place in the picture. A place is `row * width + column`. The tag
// Orientation says how the picture is turned.
struct TiffPlaces {
  std::int64_t width, height;  // of the file
  unsigned orientation;

  bool turned() const { return orientation >= 5 && orientation <= 8; }
  std::size_t operator()(std::int64_t x, std::int64_t y) const {
    const std::int64_t right = width - 1 - x, up = height - 1 - y;
    switch (orientation) {
      case 2: return static_cast<std::size_t>(y * width + right);
      case 3: return static_cast<std::size_t>(up * width + right);
      case 4: return static_cast<std::size_t>(up * width + x);
      case 5: return static_cast<std::size_t>(x * height + y);
      case 6: return static_cast<std::size_t>(x * height + up);
      case 7: return static_cast<std::size_t>(right * height + up);
      case 8: return static_cast<std::size_t>(right * height + y);
      default: return static_cast<std::size_t>(y * width + x);
    }
  }
};

// A strip or a tile.
struct TiffPart {
  std::uint32_t x, y, width, height;
};

class TiffDecoder : public RgbDecoder {
 public:
  TiffDecoder() = default;
  TiffDecoder(const TiffDecoder&) = delete;
  TiffDecoder& operator=(const TiffDecoder&) = delete;
  ~TiffDecoder() override { close(); }

 protected:
  Expected<ImageShape> open_rgb(std::span<const std::uint8_t> bytes) override {
    close();
    const auto library = tiff_library();
    if (!library) return std::unexpected(library.error());
    tiff_ = *library;
    source_ = {.bytes = bytes, .reason = {}};
    if (!open_file() || !source_.reason.empty()) return damaged();
    tags_ = read_tags();
    tags_.big_endian = bytes[0] == 'M';
    auto shape = checked_shape({.channels = 3, .height = tags_.height, .width = tags_.width});
    if (!shape) return shape;
    if (Status usable = choose_pixels(); !usable) return std::unexpected(std::move(usable).error());
    places_ = {.width = shape->width, .height = shape->height, .orientation = tags_.orientation};
    if (places_.turned()) std::swap(shape->width, shape->height);
    return shape;
  }

  Status read_rgb(std::uint8_t* rgb) override {
    source_.decodes = true;
    if (pixels_.kind == TiffPixels::Kind::kByLibtiff) return read_by_libtiff(rgb);
    return tiff_->TIFFIsTiled(file_) != 0 ? read_tiles(rgb) : read_strips(rgb);
  }

 private:
  std::unexpected<Error> damaged() const {
    return failure(ErrorCode::kCorrupt, "libtiff: {}",
                   source_.reason.empty() ? "no reason given" : source_.reason);
  }

  void close() {
    if (file_ != nullptr) tiff_->TIFFClose(file_);
    file_ = nullptr;
  }

  bool open_file() {
    TIFFOpenOptions* options = tiff_->TIFFOpenOptionsAlloc();
    if (options == nullptr) return false;
    tiff_->TIFFOpenOptionsSetMaxSingleMemAlloc(options, kLargestTiffPart);
    tiff_->TIFFOpenOptionsSetErrorHandlerExtR(options, on_tiff_error, &source_);
    tiff_->TIFFOpenOptionsSetWarningHandlerExtR(options, on_tiff_warning, &source_);
    file_ = tiff_->TIFFClientOpenExt("TIFF", "r", &source_, on_tiff_read, on_tiff_write, on_tiff_seek,
                                     on_tiff_close, on_tiff_size, on_tiff_map, on_tiff_unmap, options);
    tiff_->TIFFOpenOptionsFree(options);
    return file_ != nullptr;
  }

  template <class Value>
  Value tag(std::uint32_t name, Value otherwise) const {
    Value value{};
    return tiff_->TIFFGetFieldDefaulted(file_, name, &value) == 1 ? value : otherwise;
  }

  TiffTags read_tags() const {
    TiffTags tags{.width = tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0),
                  .height = tag<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0),
                  .bits = tag<std::uint16_t>(TIFFTAG_BITSPERSAMPLE, 1),
                  .samples = tag<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL, 1),
                  .photometric = tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE),
                  .planar = tag<std::uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG),
                  .compression = tag<std::uint16_t>(TIFFTAG_COMPRESSION, COMPRESSION_NONE),
                  .sample_format = tag<std::uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT),
                  .orientation = orientation(),
                  .extra_samples = {}};
    std::uint16_t count = 0;
    const std::uint16_t* kinds = nullptr;
    if (tiff_->TIFFGetFieldDefaulted(file_, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1 && kinds != nullptr)
      tags.extra_samples.assign(kinds, kinds + count);
    return tags;
  }

  // Returns the value of the tag Orientation. Without this tag, returns the value in the XMP data,
  // as Pillow does.
  std::uint16_t orientation() const {
    std::uint16_t value = 0;
    if (tiff_->TIFFGetField(file_, TIFFTAG_ORIENTATION, &value) == 1) return value;
    std::uint32_t size = 0;
    const char* bytes = nullptr;
    if (tiff_->TIFFGetField(file_, TIFFTAG_XMLPACKET, &size, &bytes) != 1 || bytes == nullptr) return 1;
    std::string_view xmp(bytes, size);
    constexpr std::string_view kName = "tiff:Orientation";
    for (std::size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName)) {
      xmp.remove_prefix(at + kName.size());
      const std::size_t begin = xmp.starts_with("=\"") ? 2 : 1;
      if ((begin == 2 || xmp.starts_with('>')) && xmp.size() > begin && xmp[begin] >= '0' &&
          xmp[begin] <= '9')
        return static_cast<std::uint16_t>(xmp[begin] - '0');
    }
    return 1;
  }

  Status choose_pixels() {
    if (tags_.compression == COMPRESSION_OJPEG)
      return failure(ErrorCode::kInvalidArgument, "TIFF: old-style JPEG (compression 6) is not supported");
    if (tiff_->TIFFIsCODECConfigured(tags_.compression) == 0)
      return failure(ErrorCode::kInvalidArgument, "TIFF: this libtiff does not support compression {}",
                     tags_.compression);
    auto pixels = tiff_pixels_of(tags_);
    if (!pixels) return std::unexpected(std::move(pixels).error());
    pixels_ = *pixels;
    if (tags_.photometric == PHOTOMETRIC_PALETTE) {
      std::array<const std::uint16_t*, 3> maps{};
      if (tiff_->TIFFGetField(file_, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) != 1)
        return failure(ErrorCode::kCorrupt, "TIFF: it has no palette");
      for (std::size_t i = 0; i < std::size_t{1} << tags_.bits; ++i)
        for (std::size_t color = 0; color < 3; ++color)
          pixels_.colors[i][color] = static_cast<std::uint8_t>(maps[color][i] / 256);
    }
    if (tags_.photometric == PHOTOMETRIC_YCBCR && pixels_.kind == TiffPixels::Kind::kRgb)
      tiff_->TIFFSetField(file_, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    return check_parts();
  }

  bool is_separate() const { return tags_.planar == PLANARCONFIG_SEPARATE && pixels_.samples > 1; }

  // Checks the strips and tiles. Refuses them if their rows have the wrong number of bytes, or if a tile is
  // too large.
  Status check_parts() {
    if (pixels_.kind == TiffPixels::Kind::kByLibtiff) return {};
    if (is_separate() && pixels_.bits != 8 && pixels_.bits != 16)
      return failure(ErrorCode::kInvalidArgument, "TIFF: planes of {} bits are not supported", pixels_.bits);
    tile_ = {.x = 0,
             .y = 0,
             .width = tags_.width,
             .height = tag<std::uint32_t>(TIFFTAG_ROWSPERSTRIP, tags_.height)};
    std::uint64_t row_bytes = 0;
    if (tiff_->TIFFIsTiled(file_) != 0) {
      tile_.width = tag<std::uint32_t>(TIFFTAG_TILEWIDTH, 0);
      tile_.height = tag<std::uint32_t>(TIFFTAG_TILELENGTH, 0);
      const std::int64_t most = std::max(kLargestTilePixels, std::int64_t{tags_.width} * tags_.height);
      if (tile_.width == 0 || tile_.height == 0 || tile_.height > most / tile_.width)
        return failure(ErrorCode::kCorrupt, "TIFF: tiles of {} x {} pixels do not fit a picture of {} x {}",
                       tile_.width, tile_.height, tags_.width, tags_.height);
      row_bytes = tiff_->TIFFTileRowSize64(file_);
    } else {
      tile_.height = std::min(tile_.height, tags_.height);
      row_bytes = tiff_->TIFFScanlineSize64(file_);
    }
    if (tile_.height == 0 || row_bytes != plane_row_bytes(tile_.width))
      return failure(ErrorCode::kCorrupt,
                     "TIFF: parts of {} rows of {} bytes do not fit a picture of {} x {}", tile_.height,
                     row_bytes, tags_.width, tags_.height);
    return {};
  }

  std::size_t plane_row_bytes(std::size_t width) const {
    return is_separate() ? width * pixels_.bits / 8 : pixels_.row_bytes(width);
  }

  Status read_strips(std::uint8_t* rgb) {
    for (std::uint32_t y = 0; y < tags_.height; y += tile_.height) {
      const TiffPart strip{
          .x = 0, .y = y, .width = tags_.width, .height = std::min(tile_.height, tags_.height - y)};
      const auto read = [&](std::uint16_t plane, void* to, tmsize_t size) {
        return tiff_->TIFFReadEncodedStrip(file_, tiff_->TIFFComputeStrip(file_, y, plane), to, size);
      };
      if (!read_part(strip, read)) return damaged();
      write_part(strip, strip, rgb);
    }
    return {};
  }

  Status read_tiles(std::uint8_t* rgb) {
    for (std::uint32_t y = 0; y < tags_.height; y += tile_.height) {
      for (std::uint32_t x = 0; x < tags_.width; x += tile_.width) {
        const TiffPart tile{.x = x, .y = y, .width = tile_.width, .height = tile_.height};
        const auto read = [&](std::uint16_t plane, void* to, tmsize_t size) {
          return tiff_->TIFFReadEncodedTile(file_, tiff_->TIFFComputeTile(file_, x, y, 0, plane), to, size);
        };
        if (!read_part(tile, read)) return damaged();
        write_part(tile,
                   {.x = x,
                    .y = y,
                    .width = std::min(tile.width, tags_.width - x),
                    .height = std::min(tile.height, tags_.height - y)},
                   rgb);
      }
    }
    return {};
  }

  // Reads a strip or a tile of the file into part_. In part_, the samples of a pixel are next to each other.
  template <class Read>
  bool read_part(const TiffPart& part, const Read& read) {
    const std::size_t size = plane_row_bytes(part.width) * part.height;
    // An uncompressed part cannot be larger than the file, but a damaged header can claim that it is.
    if (tags_.compression == COMPRESSION_NONE && size > source_.bytes.size()) {
      source_.reason = "it is cut off";
      return false;
    }
    const auto read_plane = [&](std::uint16_t plane, std::vector<std::uint8_t>& to) {
      to.assign(size, 0);
      return read(plane, to.data(), static_cast<tmsize_t>(size)) == static_cast<tmsize_t>(size) &&
             source_.reason.empty();
    };
    if (!is_separate()) return read_plane(0, part_);
    const std::size_t bytes = pixels_.bits / 8U, step = bytes * pixels_.samples;
    part_.resize(size * pixels_.samples);
    for (std::uint16_t plane = 0; plane < pixels_.samples; ++plane) {
      if (!read_plane(plane, plane_)) return false;
      for (std::size_t i = 0; i < size; ++i) part_[i / bytes * step + plane * bytes + i % bytes] = plane_[i];
    }
    return true;
  }

  // libtiff decodes a picture in parts, and a part can extend beyond the picture's edges. `seen` is the
  // rectangle of `part` that is in the picture. This function writes the pixels of this rectangle to `rgb`.
  void write_part(const TiffPart& part, const TiffPart& seen, std::uint8_t* rgb) {
    const std::size_t row_bytes = pixels_.row_bytes(part.width);
    for (std::uint32_t y = 0; y < seen.height; ++y) {
      const std::uint8_t* row = part_.data() + y * row_bytes;
      if (places_.orientation < 2 || places_.orientation > 8) {
        write_tiff_row(pixels_, row, seen.width, rgb + 3 * places_(seen.x, seen.y + y));
        continue;
      }
      row_.resize(std::size_t{3} * seen.width);
      write_tiff_row(pixels_, row, seen.width, row_.data());
      for (std::uint32_t x = 0; x < seen.width; ++x)
        std::copy_n(&row_[std::size_t{3} * x], 3, rgb + 3 * places_(seen.x + x, seen.y + y));
    }
  }

  Status read_by_libtiff(std::uint8_t* rgb) {
    char reason[1024] = "";
    TIFFRGBAImage image;
    if (tiff_->TIFFRGBAImageOK(file_, reason) == 0 ||
        tiff_->TIFFRGBAImageBegin(&image, file_, 1, reason) == 0) {
      if (source_.reason.empty()) source_.reason = one_line(reason);
      return damaged();
    }
    // Keeps libtiff from rotating the image: places_ does that.
    image.orientation = image.req_orientation = ORIENTATION_TOPLEFT;
    raster_.resize(std::size_t{tags_.width} * tags_.height);
    const int got = tiff_->TIFFRGBAImageGet(&image, raster_.data(), tags_.width, tags_.height);
    tiff_->TIFFRGBAImageEnd(&image);
    if (got == 0 || !source_.reason.empty()) return damaged();
    const std::uint32_t* pixel = raster_.data();
    for (std::uint32_t y = 0; y < tags_.height; ++y) {
      for (std::uint32_t x = 0; x < tags_.width; ++x, ++pixel) {
        std::uint8_t* to = rgb + 3 * places_(x, y);
        for (int i = 0; i < 3; ++i) to[i] = static_cast<std::uint8_t>(*pixel >> 8 * i);
      }
    }
    return {};
  }

  const TiffLibrary* tiff_ = nullptr;
  TIFF* file_ = nullptr;
  TiffSource source_;
  TiffTags tags_;
  TiffPixels pixels_;
  TiffPlaces places_{};
  TiffPart tile_{};                    // the size of a tile, or of a strip
  std::vector<std::uint8_t> part_;     // all samples of a strip or tile
  std::vector<std::uint8_t> plane_;    // one plane of samples, if the file has separate planes
  std::vector<std::uint8_t> row_;      // one row as RGB
  std::vector<std::uint32_t> raster_;  // for read_by_libtiff()
};

}  // namespace

std::unique_ptr<ImageDecoder> make_tiff_decoder() {
  return std::make_unique<TiffDecoder>();
}

}  // namespace muster

#else

namespace muster {

std::unique_ptr<ImageDecoder> make_tiff_decoder() {
  return nullptr;
}

}  // namespace muster

#endif
