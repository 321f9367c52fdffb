// Any bytes as a PBM, PGM or PPM, after the same decoder has read another one.
#include "tests/fuzz/pictures.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const auto magic = [&input] { return std::string("P") + static_cast<char>('1' + input.byte() % 6); };
  const std::string earlier_magic = magic(), file_magic = magic();
  const std::string earlier = earlier_magic + std::string(input.take(input.byte()));
  decode_both(make_pnm_decoder, earlier, file_magic + std::string(input.rest()));
  return 0;
}
