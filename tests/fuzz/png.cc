// Any bytes as a PNG: as they are, with corrected checksums, or as the header and lines of a picture.
#include <algorithm>
#include <zlib.h>

#include "tests/fuzz/pictures.h"

namespace muster {
namespace {

constexpr std::string_view kMagic = "\x89PNG\r\n\x1a\n";

std::string big_endian(std::uint64_t number) {
  std::string text;
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(number >> shift);
  return text;
}

std::string chunk(std::string_view type_and_content) {
  const auto* bytes = reinterpret_cast<const Bytef*>(type_and_content.data());
  return big_endian(type_and_content.size() - 4) + std::string(type_and_content) +
         big_endian(crc32(0, bytes, static_cast<uInt>(type_and_content.size())));
}

// The same chunks with correct checksums, up to the first incomplete one.
std::string mended(std::string_view file) {
  std::string result(file.substr(0, kMagic.size()));
  file.remove_prefix(result.size());
  while (file.size() >= 12) {
    std::size_t size = 0;
    for (int i = 0; i < 4; ++i)
      size = size * 256 + static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
    if (size > file.size() - 12) break;
    result += chunk(file.substr(4, size + 4));
    file.remove_prefix(size + 12);
  }
  return result.append(file);
}

// A picture with these lines, which may be too few or too many.
std::string built(FuzzInput input) {
  const std::string width = big_endian(input.byte());
  const std::string height = big_endian(input.byte());
  const std::string_view kind = input.take(5);  // depth, color, compression, filter, interlace
  const std::string_view palette = input.take(input.byte());
  const std::string_view alpha = input.take(input.byte());
  std::string file = std::string(kMagic) + chunk("IHDR" + width + height + std::string(kind));
  if (!palette.empty()) file += chunk("PLTE" + std::string(palette));
  if (!alpha.empty()) file += chunk("tRNS" + std::string(alpha));
  return file + chunk("IDAT" + compressed(input.rest())) + chunk("IEND");
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  std::string file;
  switch (input.byte()) {
    case 'f': file = input.rest(); break;
    case 'm': file = mended(input.rest()); break;
    case 'b': file = built(input); break;
    default: return -1;
  }
  decode_both(make_png_decoder, file, file);
  return 0;
}
