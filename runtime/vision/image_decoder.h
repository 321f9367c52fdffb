// Decodes pictures that are in memory: JPEG, PNG, BMP, WebP, TIFF, PBM, PGM and PPM.
//
// open() reads the header, which says how much memory read() needs. The caller must keep the bytes of the
// picture until read() has returned. A decoder can decode one picture after another, and no picture affects a
// later one. Only one thread uses a decoder. If a library reports a failure by longjmp() or by a warning, the
// function returns an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/error.h"

namespace muster {

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const ImageShape&) const = default;
  std::size_t bytes() const { return static_cast<std::size_t>(channels * height * width); }
};

// Decodes one format.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  // Reads the header. If `channels` is 3, read() will write red, green and blue. If it is 1, read() will
  // write the luminance.
  virtual Expected<ImageShape> open(std::span<const std::uint8_t> bytes, int channels) = 0;
  // Writes all pixels, row by row. These are shape.bytes() bytes. Call it once after each call of open() that
  // has succeeded.
  virtual Status read(std::uint8_t* pixels) = 0;
};

// The base of decoders that decode to colors. If the caller wants gray, RgbDecoder computes the luminance
// of the colors.
class RgbDecoder : public ImageDecoder {
 public:
  Expected<ImageShape> open(std::span<const std::uint8_t> bytes, int channels) final;
  Status read(std::uint8_t* pixels) final;

 protected:
  // Reads the header. Returns the shape of the picture with three channels, whatever the file has.
  virtual Expected<ImageShape> open_rgb(std::span<const std::uint8_t> bytes) = 0;
  // Writes all pixels, row by row. Each pixel has three bytes: red, green and blue. This function must write
  // every byte.
  virtual Status read_rgb(std::uint8_t* rgb) = 0;

 private:
  ImageShape shape_;
  std::vector<std::uint8_t> rgb_;
};

std::unique_ptr<ImageDecoder> make_jpeg_decoder();
std::unique_ptr<ImageDecoder> make_png_decoder();
std::unique_ptr<ImageDecoder> make_bmp_decoder();
std::unique_ptr<ImageDecoder> make_pnm_decoder();
// The following two functions return nullptr if Muster was built without the library.
std::unique_ptr<ImageDecoder> make_webp_decoder();
std::unique_ptr<ImageDecoder> make_tiff_decoder();

// A decoder of the calling thread, after it has read the header of a picture.
struct OpenedImage {
  ImageDecoder* decoder = nullptr;
  ImageShape shape;
};
Expected<OpenedImage> open_image(std::span<const std::uint8_t> bytes, int channels);

// Returns `0.299 red + 0.587 green + 0.114 blue`, rounded as Pillow's convert("L") does.
inline std::uint8_t luminance(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16);
}

// checked_shape() refuses a picture with more pixels than this, in any format. Otherwise a damaged header
// could make the program allocate any amount of memory.
constexpr std::int64_t kLargestImagePixels = std::int64_t{1} << 28;
Expected<ImageShape> checked_shape(ImageShape shape);

// Returns the error for a file that is cut off.
inline std::unexpected<Error> ends_early() {
  return failure(ErrorCode::kCorrupt, "the file ends before the picture does");
}

}  // namespace muster
