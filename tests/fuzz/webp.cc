// Any bytes as a WebP: as they are, or with correct sizes of the file and of its parts.
#include <algorithm>

#include "tests/fuzz/pictures.h"

namespace muster {
namespace {

std::string little_endian(std::size_t number) {
  std::string text;
  for (const int shift : {0, 8, 16, 24}) text += static_cast<char>(number >> shift);
  return text;
}

// A name of four letters and two bytes of size, then as much content as there is.
std::string built(FuzzInput input) {
  std::string parts;
  while (!input.empty()) {
    const std::string name(input.take(4));
    const std::size_t size = input.byte() * 256 + input.byte();
    const std::string content(input.take(size));
    parts += (name + "    ").substr(0, 4) + little_endian(content.size()) + content;
    if (content.size() % 2 != 0) parts += '\0';
  }
  return "RIFF" + little_endian(parts.size() + 4) + "WEBP" + parts;
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  std::string file;
  switch (input.byte()) {
    case 'f': file = "RIFF" + std::string(input.take(4)) + "WEBP" + std::string(input.rest()); break;
    case 'b': file = built(input); break;
    default: return -1;
  }
  if (file.size() < 12) return -1;
  decode_both(make_webp_decoder, file, file);
  return 0;
}
