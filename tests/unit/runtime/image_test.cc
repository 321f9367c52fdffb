#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/vision/image.h>
#include <stdexcept>
#include <torch/torch.h>

#include "tests/scratch_directory.h"
#include "tests/unit/runtime/image_samples.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor decode(const std::string& file, ImageReadMode mode = ImageReadMode::kRgb) {
  return decode_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, mode);
}

// [3, height, width]
at::Tensor expected_pixels(const ImageSample& sample) {
  at::Tensor pixels = at::empty({sample.height, sample.width, 3}, at::kByte);
  std::ranges::copy(sample.pixels, pixels.data_ptr<std::uint8_t>());
  return pixels.permute({2, 0, 1});
}

bool is_jpeg(const ImageSample& sample) {
  return sample.name.starts_with("jpeg");
}

bool is_compressed(const ImageSample& sample) {
  return is_jpeg(sample) || sample.name.starts_with("png");
}

std::int64_t largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kLong) - b.to(at::kLong)).abs().max().item<std::int64_t>();
}

// Pillow may have used another libjpeg, which may round in another way.
std::int64_t tolerance(const ImageSample& sample) {
  return is_jpeg(sample) || sample.name == "tiff_jpeg" ? 2 : 0;
}

TEST(Image, DecodesAllKindsAsPillowDoes) {
  for (const ImageSample& sample : image_samples()) {
    const at::Tensor image = decode(sample.file);
    ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{3, sample.height, sample.width})) << sample.name;
    ASSERT_EQ(image.scalar_type(), at::kByte);
    EXPECT_TRUE(image.permute({1, 2, 0}).is_contiguous()) << "the channels of a pixel lie side by side";
    EXPECT_LE(largest_difference(image, expected_pixels(sample)), tolerance(sample)) << sample.name;
  }
}

TEST(Image, GrayIsTheLuminance) {
  for (const ImageSample& sample : image_samples()) {
    const at::Tensor image = decode(sample.file, ImageReadMode::kGray);
    ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{1, sample.height, sample.width})) << sample.name;
    const at::Tensor colors = expected_pixels(sample).to(at::kLong);
    const at::Tensor luminance =
        (19595 * colors[0] + 38470 * colors[1] + 7471 * colors[2] + 0x8000).div(0x10000, "trunc");
    // A JPEG holds the luminance itself. The expected one is computed from colors: rounded and clipped twice.
    EXPECT_LE(largest_difference(image[0], luminance), 2 * tolerance(sample)) << sample.name;
  }
}

// The last bytes may not belong to the picture: padding of a line, white space, or the offset of the next
// page.
TEST(Image, EveryTruncationIsRefused) {
  for (const ImageSample& sample : image_samples()) {
    const std::size_t harmless = is_compressed(sample) ? 0 : 4;
    for (std::size_t length = 0; length < sample.file.size(); ++length) {
      const std::string cut = sample.file.substr(0, length);
      if (length + harmless < sample.file.size()) {
        EXPECT_THROW(decode(cut), std::runtime_error) << sample.name << " " << length;
        continue;
      }
      try {
        EXPECT_LE(largest_difference(decode(cut), expected_pixels(sample)), tolerance(sample)) << sample.name;
      } catch (const std::runtime_error&) {
      }
    }
    EXPECT_LE(largest_difference(decode(sample.file), expected_pixels(sample)), tolerance(sample))
        << "the decoder still works";
  }
}

TEST(Image, DamageIsAnErrorOrStillAPicture) {
  for (const ImageSample& sample : image_samples()) {
    int refused = 0;
    for (std::size_t at = 0; at < sample.file.size(); ++at) {
      std::string damaged = sample.file;
      damaged[at] = static_cast<char>(~damaged[at]);
      try {
        EXPECT_EQ(decode(damaged).dim(), 3);
      } catch (const std::runtime_error& error) {
        EXPECT_THAT(error.what(), HasSubstr("cannot decode an image: "));
        ++refused;
      }
    }
    EXPECT_GT(refused, is_compressed(sample) ? 50 : 3) << sample.name;
  }
}

TEST(Image, BytesBetweenTheSegmentsOfAJpegAreHarmless) {
  const ImageSample sample = image_sample("jpeg");
  std::string file = sample.file;
  file.insert(file.size() - 2, std::string(3, '\0'));
  EXPECT_TRUE(decode(file).equal(decode(sample.file)));
}

TEST(Image, AJpegWithoutTablesDoesNotUseThePreviousPictures) {
  const ImageSample sample = image_sample("jpeg");
  const std::size_t tables = sample.file.find("\xff\xdb");
  ASSERT_NE(tables, std::string::npos);
  const auto size = static_cast<std::size_t>(static_cast<unsigned char>(sample.file[tables + 2]) * 256 +
                                             static_cast<unsigned char>(sample.file[tables + 3]));
  std::string file = sample.file;
  file.erase(tables, size + 2);
  decode(sample.file);
  EXPECT_THAT([&] { decode(file); },
              ThrowsMessage<std::runtime_error>(HasSubstr("Quantization table 0x00 was not defined")));
}

TEST(Image, AHeaderWithTooManyPixelsIsRefused) {
  std::string file = image_sample("jpeg").file;
  const std::size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT([&] { decode(file); },
              ThrowsMessage<std::runtime_error>(HasSubstr("65500 x 65500 pixels are more than 268435456")));
}

TEST(Image, ErrorsNameTheFileAndTheReason) {
  const ScratchDirectory scratch;
  const auto expect = [&](const std::string& bytes, const std::string& reason) {
    std::ofstream(scratch / "a.jpg", std::ios::binary) << bytes;
    EXPECT_THAT([&] { read_image(scratch / "a.jpg"); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(scratch / "a.jpg"), HasSubstr(reason))));
  };
  const std::string jpeg = image_sample("jpeg").file, png = image_sample("png").file;
  expect(jpeg.substr(0, jpeg.size() - 40), "Premature end of JPEG file");
  expect(png.substr(0, png.size() - 40), "the file ends before the picture does");
  const std::string bmp = image_sample("bmp").file, ppm = image_sample("ppm").file;
  expect(bmp.substr(0, bmp.size() - 40), "the file ends before the picture does");
  expect(ppm.substr(0, ppm.size() - 40), "the file ends before the picture does");
  expect("hello", "its first bytes are not those of a JPEG, PNG, BMP, WebP, TIFF, PPM, PGM or PBM file");
  expect("", "the file is empty");
  expect("BM" + std::string(30, '\1'), "BMP: its header has 16843009 bytes");
  expect("P6 3 3 70000 ", "PNM: the largest value is 70000; it must be from 1 to 65535");
  expect("P6 3 x3 255 ", "PNM: there must be a whole number of at most 10 digits before byte 6");
  expect("P2 1 1 9 10 ", "PNM: 10 before byte 12 is more than 9");
  expect("P6 0 5 255 ", "it has no pixels: 0 x 5");
  EXPECT_THAT([&] { read_image(scratch / "none.jpg"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("none.jpg: No such file or directory")));
  EXPECT_THAT([&] { read_image(scratch.path().string()); },
              ThrowsMessage<std::runtime_error>(HasSubstr("not a regular file")));
}

TEST(Image, PicturesOfOtherKindsAreRefusedByName) {
  using namespace std::string_literals;
  const auto expect = [](std::string bytes, const std::string& reason) {
    bytes.resize(200);
    EXPECT_THAT([&] { decode(bytes); },
                ThrowsMessage<std::runtime_error>(HasSubstr("cannot decode an image: it is " + reason)));
  };
  expect("GIF89a", "a GIF picture, which Muster does not read: convert it, for example with `magick");
  expect("\0\0\0 ftypavif"s, "an AVIF picture");
  expect("\0\0\0 ftypheic"s, "an HEIC picture");
  expect("\0\0\0 ftypisom"s, "a video");
  expect("\0\0\0\x0cjP  \r\n\x87\n"s, "a JPEG 2000 picture");
  expect("\xff\x0a"s, "a JPEG XL picture");
  expect("<?xml version='1.0'?>\n<svg ", "an SVG drawing");
  expect(std::string(128, '\0') + "DICM", "a DICOM file");
  expect("P7\nWIDTH 3\n", "a PAM picture");
  expect("version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer, not the file itself");
  expect("<!DOCTYPE html>", "not a picture, but an HTML page");
}

TEST(Image, AnUnsupportedTiffIsNamed) {
  std::string file = image_sample("tiff").file;
  const auto set = [&file](char tag, std::uint16_t value) {
    const std::string entry{tag, '\1', '\3', '\0', '\1', '\0', '\0', '\0'};
    const std::size_t at = file.find(entry);
    ASSERT_NE(at, std::string::npos) << int(tag);
    file[at + 8] = static_cast<char>(value & 255);
    file[at + 9] = static_cast<char>(value >> 8);
  };
  set('\x06', 8);  // photometric interpretation
  EXPECT_THAT([&] { decode(file); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("TIFF: L*a*b* of 3 x 8 bits (whole numbers) is not supported: convert it")));
  set('\x06', 6);
  EXPECT_THAT([&] { decode(file); }, ThrowsMessage<std::runtime_error>(HasSubstr(
                                         "TIFF: YCbCr of 3 x 8 bits (whole numbers, uncompressed)")));
  set('\x03', 6);  // compression
  EXPECT_THAT([&] { decode(file); },
              ThrowsMessage<std::runtime_error>(HasSubstr("old-style JPEG (compression 6)")));
  set('\x03', 333);
  EXPECT_THAT([&] { decode(file); },
              ThrowsMessage<std::runtime_error>(HasSubstr("this libtiff does not support compression 333")));
}

// By default libtiff prints problems to stderr, and leaves the rest of a damaged JPEG or fax in a TIFF gray.
TEST(Image, ADamagedTiffIsAnErrorAndNothingIsPrinted) {
  for (const auto& [name, reason] : {std::pair{"tiff_jpeg", "libtiff: JPEGLib: "},
                                     {"tiff_group4", "libtiff: Fax4Decode: "},
                                     {"tiff_lzw", "libtiff: TIFF: "}}) {
    std::string file = image_sample(name).file;
    const std::size_t begin = name == std::string("tiff_jpeg") ? file.find("\xff\xda") + 14 : 8;
    std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(begin), 12,
                name == std::string("tiff_lzw") ? '\x7f' : '\0');
    testing::internal::CaptureStderr();
    EXPECT_THAT([&] { decode(file); }, ThrowsMessage<std::runtime_error>(HasSubstr(reason))) << name;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

// A row has 4 pixels of 1 bit, and padding up to a byte. The palette's second color is the first gray.
TEST(Image, APaletteThatBeginsWithGraysIsUsed) {
  using namespace std::string_literals;
  const auto header = [](int bits, const std::string& palette, int colors) {
    std::string info = "\x28\0\0\0\4\0\0\0\1\0\0\0\1\0"s + static_cast<char>(bits) + std::string(17, '\0') +
                       static_cast<char>(colors) + std::string(7, '\0');
    return "BM"s + std::string(8, '\0') + static_cast<char>(54 + palette.size()) + "\0\0\0"s + info + palette;
  };
  const std::string black_and_white = "\0\0\0\0\xff\xff\xff\0"s;
  const at::Tensor expected = torch::tensor({0, 255, 255, 0}, at::kByte);
  EXPECT_TRUE(decode(header(1, black_and_white, 2) + "\x60\0\0\0"s)[0][0].equal(expected));
  EXPECT_TRUE(decode(header(8, black_and_white, 2) + "\0\1\1\0"s)[0][0].equal(expected));
}

TEST(Image, ItsBytesDecideTheFormatAndNotItsName) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "a.jpeg", std::ios::binary) << image_sample("png").file;
  EXPECT_TRUE(read_image(scratch / "a.jpeg").equal(expected_pixels(image_sample("png"))));
}

}  // namespace
}  // namespace muster
