// Any bytes as a BMP, after the same decoder has read another one.
#include "tests/fuzz/pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const std::string_view earlier = input.take(input.byte());
  decode_both(make_bmp_decoder, "BM" + std::string(earlier), "BM" + std::string(input.rest()));
  return 0;
}
