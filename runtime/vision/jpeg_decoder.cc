#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on
#include <vector>

#include "common/base/check.h"
#include "runtime/vision/image_decoder.h"

namespace muster {

namespace {

// Returns true if the warning with this code means that pixels are missing or wrong. Other warnings, such as
// about extra bytes between two segments, are common in files that all programs can show.
bool harms_pixels(int code) {
  constexpr int kHarmful[] = {JWRN_JPEG_EOF, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_MUST_RESYNC,
                              JWRN_ARITH_BAD_CODE};
  return std::ranges::find(kHarmful, code) != std::end(kHarmful);
}

// The state of libjpeg's error handlers. `manager` must be the first member. libjpeg passes only the address
// of `manager` to a handler, and the handler casts it to the address of the whole struct.
struct Errors {
  jpeg_error_mgr manager{};
  std::jmp_buf escape{};
  char text[JMSG_LENGTH_MAX] = {};
};

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  info->err->format_message(info, errors->text);
  std::longjmp(errors->escape, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && harms_pixels(info->err->msg_code)) leave(info);
}

// Converts inverted CMYK to RGB, as Pillow does. Adobe's programs write inverted CMYK, and Pillow assumes
// that all CMYK in JPEGs is inverted.
void rgb_of_cmyk(const std::uint8_t* cmyk, std::uint8_t* rgb) {
  for (int channel = 0; channel < 3; ++channel) {
    const unsigned product = (255U - cmyk[channel]) * cmyk[3] + 128;
    rgb[channel] = static_cast<std::uint8_t>(cmyk[3] - (((product >> 8) + product) >> 8));
  }
}

// libjpeg reports an error by longjmp(), which does not call destructors. So functions that call setjmp()
// must not hold objects with destructors. The same is true for callbacks that call longjmp().
class JpegDecoder : public ImageDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = on_message;
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }

  Expected<ImageShape> open(std::span<const std::uint8_t> bytes, int channels) override {
    // Makes a new decompressor. An old one has the tables of the previous picture, and would use them for a
    // picture that has no tables.
    jpeg_destroy_decompress(&info_);
    CHECK(create(), "libjpeg: {}", errors_.text);
    channels_ = channels;
    if (!read_header(bytes.data(), bytes.size())) return damaged();
    return checked_shape({.channels = channels, .height = info_.image_height, .width = info_.image_width});
  }

  Status read(std::uint8_t* pixels) override {
    const bool four = info_.out_color_space == JCS_CMYK;
    if (four) cmyk_.resize(std::size_t{4} * info_.image_width);
    if (!(four ? read_cmyk(pixels) : read_rows(pixels))) return damaged();
    return {};
  }

 private:
  std::unexpected<Error> damaged() { return failure(ErrorCode::kCorrupt, "{}", errors_.text); }

  bool create() {
    if (setjmp(errors_.escape) != 0) return false;
    jpeg_create_decompress(&info_);
    return true;
  }

  bool read_header(const std::uint8_t* bytes, std::size_t size) {
    if (setjmp(errors_.escape) != 0) return false;
    jpeg_mem_src(&info_, bytes, size);
    jpeg_read_header(&info_, TRUE);
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : channels_ == 1 ? JCS_GRAYSCALE : JCS_RGB;
    return true;
  }

  bool read_rows(std::uint8_t* pixels) {
    if (setjmp(errors_.escape) != 0) return false;
    jpeg_start_decompress(&info_);
    const std::size_t row_bytes = std::size_t{info_.output_width} * static_cast<std::size_t>(channels_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[4];
      const JDIMENSION count = std::min<JDIMENSION>(4, info_.output_height - info_.output_scanline);
      for (JDIMENSION i = 0; i < count; ++i) rows[i] = pixels + (info_.output_scanline + i) * row_bytes;
      jpeg_read_scanlines(&info_, rows, count);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  bool read_cmyk(std::uint8_t* pixels) {
    if (setjmp(errors_.escape) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = cmyk_.data();
      jpeg_read_scanlines(&info_, &row, 1);
      for (JDIMENSION x = 0; x < info_.output_width; ++x, pixels += channels_) {
        std::uint8_t rgb[3];
        rgb_of_cmyk(row + std::size_t{4} * x, rgb);
        if (channels_ == 1)
          *pixels = luminance(rgb);
        else
          std::copy_n(rgb, 3, pixels);
      }
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  Errors errors_;
  jpeg_decompress_struct info_{};
  int channels_ = 0;
  std::vector<std::uint8_t> cmyk_;  // one row
};

}  // namespace

std::unique_ptr<ImageDecoder> make_jpeg_decoder() {
  return std::make_unique<JpegDecoder>();
}

}  // namespace muster
