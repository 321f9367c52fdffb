#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <png.h>
#include <vector>

#include "runtime/vision/image_decoder.h"

namespace muster {

namespace {

struct PngSource {
  const std::uint8_t* next = nullptr;
  std::size_t left = 0;
  std::jmp_buf escape{};
  char text[128] = {};
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->text, message, sizeof source->text - 1);
  std::longjmp(source->escape, 1);
}

void on_warning(png_structp, png_const_charp) {}  // ignored: warnings are about chunks without pixels

void on_read(png_structp png, png_bytep to, std::size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file ends before the picture does");
  std::copy_n(source->next, count, to);
  source->next += count;
  source->left -= count;
}

// Converts gray of 16 bits as Pillow's convert() does, that is, a value above 255 becomes 255. For all other
// images of 16 bits, Pillow takes the upper byte instead.
std::uint8_t clipped(const std::uint8_t* gray_16) {
  return gray_16[0] != 0 ? 255 : gray_16[1];
}

// libpng reports an error by longjmp(), which does not call destructors. So functions that call setjmp() must
// not hold objects with destructors. The same is true for callbacks that call longjmp().
class PngDecoder : public ImageDecoder {
 public:
  PngDecoder() = default;
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() override { close(); }

  Expected<ImageShape> open(std::span<const std::uint8_t> bytes, int channels) override {
    close();
    source_.next = bytes.data();
    source_.left = bytes.size();
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return failure(ErrorCode::kInternal, "libpng ran out of memory");
    if (!read_header()) return damaged();
    const auto shape = checked_shape({.channels = channels,
                                      .height = png_get_image_height(png_, info_),
                                      .width = png_get_image_width(png_, info_)});
    if (shape) shape_ = *shape;
    return shape;
  }

  Status read(std::uint8_t* pixels) override {
    const auto channels = static_cast<std::size_t>(shape_.channels);
    const std::size_t count = shape_.bytes() / channels, of_pixel = is_gray_16_ ? 2 : 3;
    const bool in_place = of_pixel == channels;
    if (!in_place) decoded_.resize(count * of_pixel);
    std::uint8_t* from = in_place ? pixels : decoded_.data();
    rows_.clear();
    for (std::int64_t y = 0; y < shape_.height; ++y)
      rows_.push_back(from + static_cast<std::size_t>(y * shape_.width) * of_pixel);
    if (!read_rows()) return damaged();
    for (std::size_t i = 0; is_gray_16_ && i < count; ++i)
      std::fill_n(pixels + i * channels, channels, clipped(from + 2 * i));
    for (std::size_t i = 0; !in_place && !is_gray_16_ && i < count; ++i) pixels[i] = luminance(from + 3 * i);
    return {};
  }

 private:
  std::unexpected<Error> damaged() { return failure(ErrorCode::kCorrupt, "{}", source_.text); }

  void close() {
    png_destroy_read_struct(&png_, &info_, nullptr);
    png_ = nullptr;
    info_ = nullptr;
  }

  bool read_header() {
    if (setjmp(source_.escape) != 0) return false;
    png_set_read_fn(png_, &source_, on_read);
    // Skips texts, profiles and times. Otherwise libpng would allocate any size that a damaged chunk claims.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    is_gray_16_ =
        png_get_bit_depth(png_, info_) == 16 && png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
    if (!is_gray_16_) {
      png_set_expand(png_);  // palettes, and gray of less than 8 bits
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows() {
    if (setjmp(source_.escape) != 0) return false;
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
    return true;
  }

  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  ImageShape shape_;
  std::vector<png_bytep> rows_;
  bool is_gray_16_ = false;  // 16-bit gray without alpha
  std::vector<std::uint8_t> decoded_;
};

}  // namespace

std::unique_ptr<ImageDecoder> make_png_decoder() {
  return std::make_unique<PngDecoder>();
}

}  // namespace muster
