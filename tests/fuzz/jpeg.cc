// Any bytes as a JPEG, after the same decoder has read another one.
#include "tests/fuzz/pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const int channels = input.byte() % 2 == 0 ? 3 : 1;
  const std::size_t earlier_size = input.byte() * 256 + input.byte();
  const std::string_view earlier = input.take(earlier_size);
  decode_twice(make_jpeg_decoder, earlier, input.rest(), channels);
  return 0;
}
