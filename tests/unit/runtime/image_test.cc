#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/image.h>
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

std::int64_t largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kLong) - b.to(at::kLong)).abs().max().item<std::int64_t>();
}

// Another libjpeg than the one that Pillow had may round in another way.
std::int64_t tolerance(const ImageSample& sample) {
  return sample.name.starts_with("jpeg") ? 2 : 0;
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
    const at::Tensor colors = expected_pixels(sample).to(at::kDouble);
    const at::Tensor luminance = (0.299 * colors[0] + 0.587 * colors[1] + 0.114 * colors[2]).round();
    // Of a JPEG it is what the file holds; from colors it is rounded, and clipped, twice.
    EXPECT_LE(largest_difference(image[0], luminance), sample.name.starts_with("jpeg") ? 4 : 0)
        << sample.name;
  }
}

TEST(Image, EveryTruncationIsRefused) {
  for (const ImageSample& sample : image_samples()) {
    for (std::size_t length = 0; length < sample.file.size(); ++length)
      EXPECT_THROW(decode(sample.file.substr(0, length)), std::runtime_error) << sample.name << " " << length;
    EXPECT_LE(largest_difference(decode(sample.file), expected_pixels(sample)), tolerance(sample))
        << "the decoder serves again";
  }
}

TEST(Image, DamageIsAnErrorOrAPictureAndNothingWorse) {
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
    EXPECT_GT(refused, 50) << sample.name;
  }
}

TEST(Image, BytesBetweenThePartsOfAJpegHarmNothing) {
  const ImageSample sample = image_sample("jpeg");
  std::string file = sample.file;
  file.insert(file.size() - 2, std::string(3, '\0'));
  EXPECT_TRUE(decode(file).equal(decode(sample.file)));
}

TEST(Image, AJpegWithoutTablesDoesNotGetThoseOfThePictureBefore) {
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

TEST(Image, AHeaderThatPromisesTooMuchIsRefused) {
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
  expect("hello", "it is neither a JPEG nor a PNG file");
  expect("", "it is neither a JPEG nor a PNG file");
  EXPECT_THAT([&] { read_image(scratch / "none.jpg"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("none.jpg: No such file or directory")));
  EXPECT_THAT([&] { read_image(scratch.path().string()); },
              ThrowsMessage<std::runtime_error>(HasSubstr("not a regular file")));
}

TEST(Image, WhatItIsItsBytesSayAndNotItsName) {
  const ScratchDirectory scratch;
  std::ofstream(scratch / "a.jpeg", std::ios::binary) << image_sample("png").file;
  EXPECT_TRUE(read_image(scratch / "a.jpeg").equal(expected_pixels(image_sample("png"))));
}

}  // namespace
}  // namespace muster
