// Any bytes as a TIFF: as they are, or as the pixels of a file with more consistent tags.
#include "tests/fuzz/pictures.h"

namespace muster {
namespace {

constexpr std::size_t kHeader = 8;

class TiffText {
 public:
  explicit TiffText(bool big_endian) : big_endian_(big_endian) {}
  std::string number(std::size_t value, int bytes) const {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * (big_endian_ ? bytes - 1 - i : i));
    return text;
  }
  void add(unsigned tag, std::size_t value, std::size_t count = 1) {
    entries_ += number(tag, 2) + number(4, 2) + number(count, 4) + number(value, 4);
    ++count_;
  }
  std::string file(std::string_view pixels) const {
    return (big_endian_ ? "MM" : "II") + number(42, 2) + number(kHeader + pixels.size(), 4) +
           std::string(pixels) + number(count_, 2) + entries_ + number(0, 4);
  }

 private:
  bool big_endian_;
  std::string entries_;
  std::size_t count_ = 0;
};

// A picture of one strip or tile, whose pixels may be too few or too many.
std::string built(FuzzInput input) {
  constexpr unsigned kCompressions[] = {1, 2, 3, 4, 5, 7, 8, 32773, 32809, 50000, 50001, 34925};
  TiffText tiff(input.byte() % 2 == 1);
  const unsigned width = input.byte(), height = input.byte(), bits = input.byte(), photometric = input.byte();
  const unsigned compression = kCompressions[input.byte() % std::size(kCompressions)],
                 samples = input.byte() % 8;
  const unsigned orientation = input.byte(), planar = input.byte(), extra = input.byte(),
                 format = input.byte();
  const unsigned tile = input.byte(), fill_order = input.byte(), predictor = input.byte();
  std::string pixels(input.rest());
  if (compression == 8) pixels = compressed(pixels);
  tiff.add(256, width);
  tiff.add(257, height);
  tiff.add(258, bits);
  tiff.add(259, compression);
  tiff.add(262, photometric);
  tiff.add(266, fill_order);
  if (tile == 0) tiff.add(273, kHeader);
  tiff.add(274, orientation);
  tiff.add(277, samples);
  if (tile == 0) tiff.add(278, height);
  if (tile == 0) tiff.add(279, pixels.size());
  tiff.add(284, planar);
  if (predictor < 4) tiff.add(317, predictor);
  if (photometric == 3) tiff.add(320, kHeader, bits < 9 ? std::size_t{3} << bits : 0);
  if (tile != 0) {
    tiff.add(322, tile % 16 * 16);
    tiff.add(323, tile / 16 * 16);
    tiff.add(324, kHeader);
    tiff.add(325, pixels.size());
  }
  if (extra < 3) tiff.add(338, extra);
  tiff.add(339, format);
  return tiff.file(pixels);
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  std::string file;
  switch (input.byte()) {
    case 'f': file = input.rest(); break;
    case 'b': file = built(input); break;
    default: return -1;
  }
  if (file.empty()) return -1;
  decode_both(make_tiff_decoder, file, file);
  return 0;
}
