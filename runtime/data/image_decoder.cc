#include "runtime/data/image_decoder.h"

#include <algorithm>
#include <array>

namespace muster {

namespace {

template <std::size_t Count>
bool begins_with(std::span<const std::uint8_t> bytes, const std::array<std::uint8_t, Count>& magic) {
  return bytes.size() >= Count && std::ranges::equal(bytes.first(Count), magic);
}

constexpr std::array<std::uint8_t, 3> kJpeg{0xff, 0xd8, 0xff};
constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

}  // namespace

Expected<OpenedImage> open_image(std::span<const std::uint8_t> bytes, int channels) {
  thread_local const std::unique_ptr<ImageDecoder> jpeg = make_jpeg_decoder();
  thread_local const std::unique_ptr<ImageDecoder> png = make_png_decoder();
  ImageDecoder* decoder = begins_with(bytes, kJpeg) ? jpeg.get() : png.get();
  if (decoder == png.get() && !begins_with(bytes, kPng))
    return failure(ErrorCode::kCorrupt, "it is neither a JPEG nor a PNG file");
  auto shape = decoder->open(bytes, channels);
  if (!shape) return std::unexpected(std::move(shape).error());
  return OpenedImage{.decoder = decoder, .shape = *shape};
}

Expected<ImageShape> checked_shape(ImageShape shape) {
  // Neither format has more than 2^31 rows or columns: the product does not overflow.
  if (shape.height * shape.width <= kLargestImagePixels) return shape;
  return failure(ErrorCode::kCorrupt, "{} x {} pixels are more than {}", shape.width, shape.height,
                 kLargestImagePixels);
}

}  // namespace muster
