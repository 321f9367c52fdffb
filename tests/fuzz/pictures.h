// Checks that any decoder of pictures must pass for any input; for the fuzzers of all formats.
//
// The decoding libraries are compiled without the fuzzer's counters, so the fuzzer learns from the decoders'
// errors what an input reached in them.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <vector>
#include <zlib.h>

#include "common/base/check.h"
#include "runtime/vision/image_decoder.h"
#include "tests/fuzz/input.h"

namespace muster {

inline constexpr std::int64_t kFuzzedPixels = 1 << 16;  // larger pictures only take longer
[[gnu::section("__libfuzzer_extra_counters")]] inline std::uint8_t reasons[1 << 12];

// As zlib writes it.
inline std::string compressed(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  CHECK(compress2(reinterpret_cast<Bytef*>(result.data()), &size,
                  reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1) == Z_OK);
  result.resize(size);
  return result;
}

struct Picture {
  ImageShape shape;  // empty: refused
  std::vector<std::uint8_t> pixels;
  bool operator==(const Picture&) const = default;
};

inline void note_reason(const Error& error) {
  check_refusal(error);
  reasons[std::hash<std::string>()(error.message()) % std::size(reasons)] = 1;
}

// Fills the memory of the pixels with `before` first.
inline Picture decode(ImageDecoder& decoder, std::string_view file, int channels, std::uint8_t before) {
  // An allocation of exact size, so that the sanitizer finds reads beyond the end.
  const std::vector<std::uint8_t> bytes(file.begin(), file.end());
  const auto shape = decoder.open(bytes, channels);
  if (!shape) {
    note_reason(shape.error());
    return {};
  }
  CHECK(shape->channels == channels && shape->height >= 1 && shape->width >= 1, "{} x {}", shape->width,
        shape->height);
  CHECK(shape->height * shape->width <= kLargestImagePixels);
  if (shape->height * shape->width > kFuzzedPixels) return {};
  std::vector<std::uint8_t> pixels(shape->bytes(), before);
  if (const Status read = decoder.read(pixels.data()); !read) {
    note_reason(read.error());
    return {};
  }
  return {.shape = *shape, .pixels = std::move(pixels)};
}

// Decodes `file` with a new decoder, and with one that has decoded `earlier` before.
inline Picture decode_twice(const std::function<std::unique_ptr<ImageDecoder>()>& make_decoder,
                            std::string_view earlier, std::string_view file, int channels) {
  Picture picture = decode(*make_decoder(), file, channels, 0);
  const auto used = make_decoder();
  decode(*used, earlier, channels, 0);
  CHECK(decode(*used, file, channels, 0xff) == picture,
        "a picture depends on the earlier one, or a pixel is not written");
  return picture;
}

// The gray picture must have the luminance of the colors.
inline void decode_both(const std::function<std::unique_ptr<ImageDecoder>()>& make_decoder,
                        std::string_view earlier, std::string_view file) {
  const Picture color = decode_twice(make_decoder, earlier, file, 3);
  const Picture gray = decode_twice(make_decoder, earlier, file, 1);
  CHECK(gray.pixels.size() * 3 == color.pixels.size());
  for (std::size_t i = 0; i < gray.pixels.size(); ++i)
    CHECK(gray.pixels[i] == luminance(&color.pixels[3 * i]), "pixel {}", i);
}

}  // namespace muster
