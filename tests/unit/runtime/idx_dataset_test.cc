#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/data/idx_dataset.h>
#include <stdexcept>
#include <torch/torch.h>
#include <zlib.h>

#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string idx(std::vector<std::uint8_t> shape, const std::string& bytes) {
  std::string text{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::uint8_t extent : shape) text += std::string{0, 0, 0, static_cast<char>(extent)};
  return text + bytes;
}

class IdxDatasetTest : public testing::Test {
 protected:
  std::string plain(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name, std::ios::binary) << text;
    return scratch_ / name;
  }
  std::string zipped(const std::string& name, const std::string& text) {
    gzFile file = gzopen((scratch_ / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return scratch_ / name;
  }
  void expect_refused(const std::string& images, const std::string& reason) {
    EXPECT_THAT(([&] { IdxDataset(images, labels_); }), ThrowsMessage<std::runtime_error>(HasSubstr(reason)));
    EXPECT_THAT(([&] { IdxDataset(images, labels_); }), ThrowsMessage<std::runtime_error>(HasSubstr(images)));
  }

  ScratchDirectory scratch_;
  const std::string images_ = idx({3, 1, 2}, std::string{0, '\xff', 10, 20, 30, 40});
  const std::string labels_ = plain("labels", idx({3}, std::string{7, 8, 9}));
};

TEST_F(IdxDatasetTest, ReadsPlainAndCompressedFiles) {
  for (const std::string& path : {plain("images", images_), zipped("images.gz", images_)}) {
    const IdxDataset dataset(path, labels_, {.mean = 0.5, .stddev = 0.25});
    ASSERT_EQ(dataset.size(), 3);
    const Example first = dataset.get(0);
    EXPECT_TRUE(first.data.equal(torch::tensor({{{-2.0F, 2.0F}}})));
    const std::vector<std::int64_t> order{2, 0};
    const Batch batch = dataset.get_batch(order);
    EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{2, 1, 1, 2}));
    EXPECT_TRUE(batch.target.equal(torch::tensor({9, 7}, at::kLong)));
    EXPECT_TRUE(batch.data[1].equal(first.data));
    EXPECT_THAT([&] { dataset.get(-1); },
                ThrowsMessage<std::out_of_range>("index -1 is out of range: " + path + " has 3 samples"));
  }
}

// 257 pixels: full vectors and a remainder.
TEST_F(IdxDatasetTest, EveryPixelIsNormalizedToTheBit) {
  std::string bytes;
  for (int pixel = 0; pixel < 257; ++pixel) bytes += static_cast<char>(pixel);
  std::string text{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1};
  const IdxDataset dataset(plain("images", text + bytes), plain("label", idx({1}, "x")),
                           {.mean = 0.2860F, .stddev = 0.3530F});
  const at::Tensor pixels = torch::arange(257).remainder(256).to(at::kFloat).reshape({1, 1, 257});
  EXPECT_TRUE(dataset.get(0).data.equal((pixels / 255 - 0.2860F) / 0.3530F));
}

TEST_F(IdxDatasetTest, EveryTruncationIsRefused) {
  const std::string packed_path = zipped("whole.gz", images_);
  std::ifstream file(packed_path, std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t length = 0; length < images_.size(); ++length) {
    EXPECT_THROW(IdxDataset(plain("torn", images_.substr(0, length)), labels_), std::runtime_error) << length;
  }
  for (std::size_t length = 0; length < packed.size(); ++length) {
    EXPECT_THROW(IdxDataset(plain("torn.gz", packed.substr(0, length)), labels_), std::runtime_error)
        << length;
  }
  expect_refused(plain("torn", images_.substr(0, images_.size() - 1)),
                 "it is truncated, 1 bytes are missing");
}

// The files are big-endian.
TEST_F(IdxDatasetTest, ReadsElementsOfEveryType) {
  const auto check = [&](char type, const std::string& bytes, const at::Tensor& expected) {
    std::string text{0, 0, type, static_cast<char>(expected.dim())};
    for (const std::int64_t extent : expected.sizes())
      text += std::string{0, 0, 0, static_cast<char>(extent)};
    for (const std::string& path : {plain("array", text + bytes), zipped("array.gz", text + bytes)}) {
      const at::Tensor read = read_idx(path);
      EXPECT_TRUE(read.scalar_type() == expected.scalar_type() && read.equal(expected)) << int{type} << read;
    }
    expect_refused(plain("array", text + bytes),
                   type == 8 ? "1 images and 3 labels" : "and images are bytes [n,");
  };
  check(8, "\xff", torch::full({1, 1, 1, 1}, 255, at::kByte));
  check(9, "\xff\x05", torch::tensor({-1, 5}, at::kChar));
  check(0x0b, std::string("\xff\xfe\x01\x00", 4), torch::tensor({{-2, 256}}, at::kShort));
  check(0x0c, std::string("\x00\x01\x00\x02\x80\x00\x00\x00", 8),
        torch::tensor({65538, std::numeric_limits<int>::min()}, at::kInt));
  check(0x0d, std::string("\x3f\x80\x00\x00\xc0\x20\x00\x00", 8), torch::tensor({1.0F, -2.5F}));
  check(0x0e, std::string("\x3f\xf0\x00\x00\x00\x00\x00\x01", 8), torch::tensor({1 + 0x1p-52}, at::kDouble));
  expect_refused(plain("array", std::string{0, 0, 0x0a, 1, 0, 0, 0, 0}),
                 "not an IDX file, it begins with 00000a01");
}

TEST_F(IdxDatasetTest, ImagesMayHaveChannelsAndLabelsAnyWholeNumber) {
  const std::string labels{0, 0, 0x0c, 1, 0, 0, 0, 1, 0, 1, 0, 0};
  const IdxDataset dataset(
      plain("images", idx({1, 3, 1, 2}, std::string{0, 51, 102, '\x99', '\xcc', '\xff'})),
      plain("labels32", labels));
  EXPECT_TRUE(dataset.get(0).data.allclose(torch::tensor({{{0.0F, 0.2F}}, {{0.4F, 0.6F}}, {{0.8F, 1.0F}}})));
  EXPECT_EQ(dataset.get(0).target.item<std::int64_t>(), 65536);
  EXPECT_THAT(
      ([&] {
        IdxDataset(plain("images", idx({1, 1, 1}, "a")),
                   plain("text", std::string{0, 0, 0x0d, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
      }),
      ThrowsMessage<std::runtime_error>(HasSubstr("it is Float of 1 dimensions, and labels are whole")));
}

TEST_F(IdxDatasetTest, SaysWhatIsWrongWithAFile) {
  expect_refused("/nowhere/images.gz", "cannot open /nowhere/images.gz: No such file or directory");
  expect_refused(plain("text", "hello world"), "not an IDX file, it begins with 68656c6c");
  expect_refused(plain("long", images_ + "x"), "it is longer than its header says");
  expect_refused(plain("flat", idx({3}, "abc")),
                 "it is Byte of 1 dimensions, and images are bytes [n, height, width] or");
  expect_refused(plain("few", idx({2, 1, 1}, "ab")), "2 images and 3 labels");
  const std::string huge{0,      0,      8,      3,      '\xff', '\xff', '\xff', '\xff',
                         '\xff', '\xff', '\xff', '\xff', 0,      0,      0,      9};
  expect_refused(plain("huge", huge), "larger than");
  const std::string huge_and_empty{0,      0,      8,      3,      0,      0,      0,      0,
                                   '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'};
  expect_refused(plain("huge and empty", huge_and_empty), "larger than");
}

TEST_F(IdxDatasetTest, NamesArraysThatCannotBeUsed) {
  expect_refused(plain("images", "PK\x03\x04" + images_), "it is a ZIP archive");
  expect_refused(scratch_.path(), "it is a folder");
  EXPECT_THAT(([&] { IdxDataset(plain("images", images_), labels_, {.stddev = 0}); }),
              ThrowsMessage<std::invalid_argument>("IdxDataset: stddev = 0 must be above 0"));
}

TEST_F(IdxDatasetTest, TheLoaderRefusesAFileWithoutImages) {
  const std::string images = plain("none", idx({0, 28, 28}, ""));
  const IdxDataset dataset(images, plain("no labels", idx({0}, "")));
  EXPECT_THAT(([&] { DataLoader(dataset, {.batch_size = 2}, 0, 1); }),
              ThrowsMessage<std::invalid_argument>(HasSubstr(images + " has no samples")));
}

TEST_F(IdxDatasetTest, DamagedCompressionIsRefused) {
  const std::string path = zipped("images.gz", images_);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-6, std::ios::end);  // in the checksum
  file.put('x');
  file.close();
  expect_refused(path, "cannot read");
}

}  // namespace
}  // namespace muster
