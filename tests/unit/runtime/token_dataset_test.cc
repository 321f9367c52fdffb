#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <muster/data/data_loader.h>
#include <muster/data/token_dataset.h>
#include <numeric>
#include <stdexcept>
#include <torch/torch.h>

#include "tests/scratch_directory.h"
#include "tests/unit/runtime/npy_file.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TokenDatasetTest : public testing::Test {
 protected:
  template <class Token>
  std::string file_of(const std::vector<Token>& tokens) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * sizeof(Token)));
    return path_;
  }
  // 0, 1, 2, ...
  template <class Token = std::uint16_t>
  std::string counting(std::size_t count) {
    std::vector<Token> tokens(count);
    std::iota(tokens.begin(), tokens.end(), Token{0});
    return file_of(tokens);
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  auto refuses(const std::string& what) {
    return ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(path_), HasSubstr(what)));
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "train.bin";
};

TEST_F(TokenDatasetTest, ATargetIsTheSampleShiftedByOne) {
  const TokenDataset dataset(counting(23), {.context = 5});
  ASSERT_EQ(dataset.size(), 4);  // the fifth would need 26 tokens
  EXPECT_EQ(dataset.token_count(), 23);
  const Example sample = dataset.get(2);
  EXPECT_TRUE(sample.data.equal(torch::arange(10, 15)));
  EXPECT_TRUE(sample.target.equal(torch::arange(11, 16)));
  const auto refusal =
      ThrowsMessage<std::out_of_range>("index 4 is out of range: " + path_ + " has 4 samples");
  EXPECT_THAT([&] { dataset.get(4); }, refusal);
  EXPECT_THAT([&] { dataset.get_batch(std::vector<std::int64_t>{0, 4}); }, refusal);
}

TEST_F(TokenDatasetTest, TheLastSampleEndsWithTheFile) {
  EXPECT_EQ(TokenDataset(counting(21), {.context = 5}).size(), 4);
  EXPECT_EQ(TokenDataset(counting(20), {.context = 5}).size(), 3);
  const TokenDataset overlapping(counting(20), {.context = 5, .stride = 2});
  ASSERT_EQ(overlapping.size(), 8);
  EXPECT_TRUE(overlapping.get(7).target.equal(torch::arange(15, 20)));
}

template <class Token>
void expect_same(const TokenDataset& dataset, const std::vector<Token>& tokens) {
  const std::vector<std::int64_t> order{3, 0, 3, 1};
  const Batch batch = dataset.get_batch(order);
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t place = 0; place < 37; ++place) {
      const auto first = static_cast<std::size_t>(order[static_cast<std::size_t>(row)] * 37 + place);
      ASSERT_EQ(batch.data[row][place].item<std::int64_t>(), static_cast<std::int64_t>(tokens[first]));
      ASSERT_EQ(batch.target[row][place].item<std::int64_t>(), static_cast<std::int64_t>(tokens[first + 1]));
    }
  }
}

// 37 tokens: full vectors and a remainder.
TEST_F(TokenDatasetTest, TokensOfEveryTypeKeepTheirValue) {
  const auto check = [&]<class Token>(Token extreme, at::ScalarType type) {
    std::vector<Token> tokens(200);
    std::iota(tokens.begin(), tokens.end(), Token{0});
    for (std::size_t i = 0; i < tokens.size(); i += 3) tokens[i] = extreme;
    expect_same(TokenDataset(file_of(tokens), {.context = 37, .dtype = type}), tokens);
  };
  check(std::uint8_t{255}, at::kByte);
  check(std::uint16_t{65535}, at::kUInt16);
  check(std::uint32_t{4294967295}, at::kUInt32);
  check(std::int32_t{-2147483647}, at::kInt);
  check(std::int64_t{-9000000000000000000}, at::kLong);
}

TEST_F(TokenDatasetTest, ALoaderGivesTheSameSamples) {
  const TokenDataset dataset(counting(1000), {.context = 16});
  DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = 2}, 0, 1);
  std::int64_t samples = 0;
  for (auto& batch : loader.epochs(1)) {
    EXPECT_TRUE((batch.data + 1).equal(batch.target));
    for (std::size_t i = 0; i < loader.info().indices.size(); ++i, ++samples)
      EXPECT_EQ(batch.data[static_cast<std::int64_t>(i)][0].item<std::int64_t>(),
                loader.info().indices[i] * 16);
  }
  EXPECT_EQ(samples, dataset.size());
}

TEST_F(TokenDatasetTest, ATokenThatIsNotInTheVocabularyIsNamedWithItsPlace) {
  std::vector<std::int32_t> tokens(100, 7);
  tokens[45] = 300;
  tokens[80] = -1;  // the last of sample 3
  const TokenDataset dataset(file_of(tokens), {.context = 20, .dtype = at::kInt, .vocabulary_size = 300});
  EXPECT_EQ(dataset.get(0).data[0].item<std::int64_t>(), 7);
  EXPECT_THAT([&] { dataset.get(2); }, ThrowsMessage<std::runtime_error>(
                                           HasSubstr("token 300 at place 45 of the file is not below 300")));
  const std::vector<std::int64_t> batch{0, 3, 1};
  EXPECT_THAT([&] { dataset.get_batch(batch); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("cannot load sample 3 of " + path_ + ": token -1 at place 80")));
  DataLoader skipping(dataset, {.batch_size = 4, .bad_sample = BadSample::kSkip}, 0, 1);
  for (auto& one : skipping.epochs(1)) {
    EXPECT_EQ(one.data.size(0), 2);
    EXPECT_THAT(skipping.info().skipped, testing::ElementsAre(2, 3));
  }
}

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::vector<std::int64_t> data_of(const TokenDataset& dataset) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Example sample = dataset.get(i);
    EXPECT_TRUE(sample.data.slice(0, 1).equal(sample.target.slice(0, 0, -1)));
    const auto* data = sample.data.const_data_ptr<std::int64_t>();
    all.insert(all.end(), data, data + sample.data.numel());
  }
  return all;
}

TEST_F(TokenDatasetTest, ReadsNumpyArrays) {
  const auto check = [&]<class Token>(Token largest, const std::string& descr, at::ScalarType type) {
    for (const char version : {1, 2}) {
      write(path_, npy_file("'" + descr + "'", "(5,)",
                            bytes_of_numbers(std::vector<Token>{7, largest, 9, 10, 11}), false, version));
      const TokenDataset dataset(path_, {.context = 2});
      EXPECT_EQ(dataset.token_count(), 5);
      EXPECT_THAT(data_of(dataset), testing::ElementsAre(7, static_cast<std::int64_t>(largest), 9, 10))
          << descr;
      EXPECT_EQ(TokenDataset(path_, {.context = 2, .dtype = type}).size(), 2);
    }
    const auto other = type == at::kByte ? at::kInt : at::kByte;
    EXPECT_THAT([&] { TokenDataset(path_, {.context = 2, .dtype = other}); },
                refuses("as its header says, and dtype is"));
  };
  check(std::uint8_t{255}, "|u1", at::kByte);
  check(std::uint16_t{65535}, "<u2", at::kUInt16);
  check(std::uint32_t{4294967295}, "<u4", at::kUInt32);
  check(std::int32_t{2147483647}, "<i4", at::kInt);
  check(std::int64_t{9000000000000000000}, "<i8", at::kLong);
  const auto refused = [&](const std::string& file, const std::string& why) {
    write(path_, file);
    EXPECT_THAT([&] { TokenDataset(path_, {.context = 2}); }, refuses(why));
  };
  const std::string data(20, 'x');
  refused(npy_file("'<u2'", "(2, 5)", data),
          "its array has the shape (2, 5): save it as one row, by reshape(-1)");
  refused(npy_file("'<f4'", "(5,)", data),
          "its array has the type <f4, and tokens are whole numbers: save tokens.astype(np.uint16)");
  refused(npy_file("'>u2'", "(10,)", data), "its array has the type >u2");
  refused(npy_file("[('a', '<u2')]", "(10,)", data), "its array has the type structured");
  refused(npy_file("'<u2'", "(11,)", data),
          "its header says 11 UInt16 tokens, 22 bytes, and 20 follow: it is cut off");
  refused(npy_file("'<u2'", "(9,)", data), "it is longer than that");
  const std::string whole = npy_file("'<u2'", "(10,)", data);
  for (const std::size_t size : {8U, 11U, 40U, 127U})
    refused(whole.substr(0, size), "header of a numpy array is damaged");
}

TEST_F(TokenDatasetTest, ReadsLlmcFiles) {
  const auto file = [](std::int32_t magic, std::int32_t version, std::int32_t count,
                       const std::string& data) {
    std::string bytes;
    for (const std::int32_t number : {magic, version, count}) append(bytes, number);
    bytes.resize(1024);
    return bytes + data;
  };
  write(path_, file(20240520, 1, 5, bytes_of_numbers(std::vector<std::uint16_t>{1, 2, 65535, 4, 5})));
  EXPECT_THAT(data_of(TokenDataset(path_, {.context = 2})), testing::ElementsAre(1, 2, 65535, 4));
  write(path_, file(20240801, 7, 3, bytes_of_numbers(std::vector<std::uint32_t>{1, 128255, 3})));
  EXPECT_THAT(data_of(TokenDataset(path_, {.context = 2})), testing::ElementsAre(1, 128255));
  EXPECT_THAT([&] { TokenDataset(path_, {.context = 2, .dtype = at::kUInt16}); },
              refuses("its tokens are UInt32, as its header says, and dtype is UInt16"));
  write(path_, file(20240520, 1, 5, "cut"));
  EXPECT_THAT([&] { TokenDataset(path_, {.context = 2}); }, refuses("its header says 5 UInt16 tokens"));
}

// Documents of 3, 0, 5 and 2 tokens; the third has two sequences.
TEST_F(TokenDatasetTest, ReadsMegatronFilesAndCanKeepSamplesWithinDocuments) {
  const std::vector<std::int32_t> lengths{3, 0, 4, 1, 2};
  const std::vector<std::int64_t> documents{0, 1, 2, 4, 5};
  const std::string index_path = scratch_ / "train.idx";
  const auto index = [&](std::uint8_t type, std::int64_t shift = 0) {
    std::string bytes("MMIDIDX\0\0", 9);
    append(bytes, std::uint64_t{1});
    append(bytes, type);
    append(bytes, static_cast<std::uint64_t>(lengths.size()));
    append(bytes, static_cast<std::uint64_t>(documents.size()));
    for (const std::int32_t length : lengths) append(bytes, length);
    std::int64_t at = 0;
    for (const std::int32_t length : lengths) {
      append(bytes, at + (at > 0 ? shift : 0));
      at += length * (type == 8 ? 2 : 4);
    }
    for (const std::int64_t document : documents) append(bytes, document);
    return bytes;
  };
  counting(10);
  write(index_path, "something else");
  EXPECT_THAT(TokenDataset(path_, {.context = 2}).documents(), testing::ElementsAre(0, 10));
  write(index_path, index(8));
  EXPECT_EQ(TokenDataset(scratch_ / "train*", {.context = 2}).token_count(), 10) << "the pair is read once";
  for (const std::string& path : {path_, index_path, std::string(scratch_ / "train")}) {
    const TokenDataset whole(path, {.context = 2});
    EXPECT_THAT(data_of(whole), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)) << path;
    EXPECT_THAT(whole.documents(), testing::ElementsAre(0, 3, 8, 10));
  }
  const TokenDataset within(path_, {.context = 2, .within_documents = true});
  EXPECT_THAT(data_of(within), testing::ElementsAre(0, 1, 3, 4, 5, 6));
  EXPECT_THAT(data_of(TokenDataset(path_, {.context = 2, .stride = 1, .within_documents = true})),
              testing::ElementsAre(0, 1, 3, 4, 4, 5, 5, 6));
  EXPECT_THAT([&] { TokenDataset(path_, {.context = 5, .within_documents = true}); },
              refuses("no document of it is long enough"));
  counting<std::int32_t>(10);
  EXPECT_THAT([&] { TokenDataset(path_, {.context = 2}); },
              refuses("its header says 10 UInt16 tokens, 20 bytes, and 40"));
  write(index_path, index(4));
  EXPECT_EQ(TokenDataset(path_, {.context = 2}).get(3).target[1].item<std::int64_t>(), 8);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    write(index_path, bytes);
    EXPECT_THAT([&] { TokenDataset(index_path, {.context = 2}); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(index_path), HasSubstr(why))));
  };
  refused(index(4, 4), "sequence 1 does not begin where the one before it ends");
  refused(index(3), "its tokens have type 3");
  const std::string good = index(4);
  for (std::size_t size = 0; size < good.size(); ++size) refused(good.substr(0, size), "cannot use");
}

TEST_F(TokenDatasetTest, SeveralFilesMakeOneDataset) {
  const auto put = [&](const std::string& name, std::uint16_t first, std::size_t count) {
    std::vector<std::uint16_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    write(scratch_ / name, bytes_of_numbers(tokens));
    return scratch_ / name;
  };
  const std::string b = put("part_b.bin", 100, 6), a = put("part_a.bin", 10, 5),
                    tiny = put("part_c.bin", 500, 2);
  write(scratch_ / "part_d.npy",
        npy_file("'<i4'", "(4,)", bytes_of_numbers(std::vector<std::int32_t>{70000, 1, 2, 3})));
  const TokenDataset all(scratch_ / "part_?.*", {.context = 2});
  EXPECT_THAT(data_of(all), testing::ElementsAre(10, 11, 12, 13, 100, 101, 102, 103, 70000, 1));
  EXPECT_EQ(all.token_count(), 5 + 6 + 2 + 4);
  EXPECT_THAT(all.documents(), testing::ElementsAre(0, 5, 11, 13, 17));
  EXPECT_EQ(all.name(), a + " and 3 more");
  EXPECT_EQ(TokenDataset({b.c_str(), a.c_str()}, {.context = 4}).size(), 2);
  EXPECT_THAT(data_of(TokenDataset({b, a}, {.context = 4})),
              testing::ElementsAre(100, 101, 102, 103, 10, 11, 12, 13));
  EXPECT_THAT([&] { TokenDataset(scratch_ / "none_*.bin", {.context = 2}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("none_*.bin: No such file or directory")));
  EXPECT_THAT([&] { TokenDataset(std::vector<std::string>{}, {.context = 2}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("the number of files = 0 must be at least 1")));
}

TEST_F(TokenDatasetTest, AFileOfAnotherKindIsNamed) {
  const auto refused = [&](const std::string& bytes, const std::string& what) {
    write(path_, bytes + std::string(bytes.size() % 2, ' '));
    EXPECT_THAT([&] { TokenDataset(path_, {.context = 2}); }, refuses(what));
  };
  const std::string rest(400, '\1');
  refused(
      "PK\x03\x04" + rest,
      "a ZIP archive, as np.savez() and torch.save() write; load it in Python, and save it with np.save(");
  refused("PAR1\x15" + rest, "a Parquet file");
  refused(std::string("ARROW1\0\0", 8) + rest, "an Arrow file");
  refused("\xff\xff\xff\xff" + std::string("\x60\0\0\0", 4) + rest, "an Arrow file");
  refused("\x89HDF\r\n\x1a\n" + rest, "an HDF5 file");
  refused("\x1f\x8b\x08" + rest, "compressed by gzip (gunzip it)");
  refused("\x28\xb5\x2f\xfd" + rest, "compressed by zstd");
  refused("BZh91AY&SY" + rest, "compressed by bzip2");
  refused(std::string("\xfd\x37zXZ\0", 6) + rest, "compressed by xz");
  refused("\x80\x04\x95" + std::string("\x20\0\0\0\0\0\0\0", 8) + rest, "a pickle");
  refused(std::string("\x10\0\0\0\0\0\0\0{\"a\":1}        ", 24) + rest, "a safetensors file");
  refused(rest.substr(0, 257) + "ustar" + rest, "a tar archive");
  refused("\n<!DOCTYPE HTML><title>404", "an HTML page");
  refused("It is a truth universally acknowledged, that a single man in possession", "it is text");
  refused(bytes_of_numbers(std::vector<std::int32_t>(50, 1234)),
          "its tokens seem to have 4 bytes each, and would be read as UInt16: set dtype");
  std::vector<std::int32_t> large(5000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::int32_t>(i * 7919 % 256'000);
  refused(bytes_of_numbers(large), "its tokens seem to have 4 bytes each");
  refused(bytes_of_numbers(std::vector<std::int64_t>(50, 128'000)), "its tokens seem to have 8 bytes each");
  refused(std::string("\x88\xd8\x34\x01\x02\0\0\0", 8) + std::string(1016, '\0'),
          "its llm.c header is cut off, or its version is not 1");
  refused(std::string("\x88\xd8\x34\x01\x01\0\0\0", 8) + std::string(100, '\0'),
          "its llm.c header is cut off, or its version is not 1");
  // Padding in the middle of a UTF-8 character.
  write(path_, bytes_of_numbers(std::vector<std::uint16_t>(3000, 50256)));
  EXPECT_EQ(TokenDataset(path_, {.context = 2}).token_count(), 3000);
  // Text can be read as tokens of one byte.
  write(path_, "It is a truth universally acknowledged, that a single man in possession of a good fortune");
  EXPECT_EQ(TokenDataset(path_, {.context = 2, .dtype = at::kByte}).get(0).data[1].item<std::int64_t>(), 't');
  for (const char* path : {"https://host/train.bin?part=*", "pipe:cat train.bin"})
    EXPECT_THAT([&] { TokenDataset(path, {.context = 2}); },
                ThrowsMessage<std::runtime_error>(HasSubstr(std::string("cannot use ") + path)));
}

TEST_F(TokenDatasetTest, SaysWhatIsWrongWithAFile) {
  const auto open = [&](TokenDatasetOptions options) { return [=, this] { TokenDataset(path_, options); }; };
  EXPECT_THAT(open({.context = 4}), refuses("No such file"));
  std::ofstream(path_, std::ios::binary) << "";
  EXPECT_THAT(open({.context = 4}), refuses("it has 0 tokens, and a sample of context 4 takes 5"));
  std::ofstream(path_, std::ios::binary) << "123456789";
  EXPECT_THAT(open({.context = 1}),
              refuses("its 9 bytes are not a whole number of UInt16 tokens of 2 bytes"));
  std::ofstream(path_, std::ios::binary) << "12345678";
  EXPECT_THAT(open({.context = 4}), refuses("it has 4 tokens, and a sample of context 4 takes 5"));
  EXPECT_THAT(open({.context = std::numeric_limits<std::int64_t>::max()}),
              refuses("a sample of context 9223372036854775807 takes 9223372036854775808"));
  EXPECT_THAT([&] { TokenDataset(scratch_.path(), {.context = 4}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("it is not a regular file")));
}

TEST_F(TokenDatasetTest, NamesAWrongOption) {
  counting(100);
  const auto refused = [&](TokenDatasetOptions options, const std::string& why) {
    EXPECT_THAT([&] { TokenDataset(path_, options); }, ThrowsMessage<std::invalid_argument>(HasSubstr(why)));
  };
  refused({}, "TokenDataset: context = 0 must be at least 1");
  refused({.context = 4, .stride = -1}, "stride = -1 must be at least 1");
  refused({.context = 4, .dtype = at::kFloat}, "dtype = Float must be Byte, UInt16, UInt32, Int or Long");
  refused({.context = 4, .vocabulary_size = -5}, "vocabulary_size = -5 must be");
}

}  // namespace
}  // namespace muster
