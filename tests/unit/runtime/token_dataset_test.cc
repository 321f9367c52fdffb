#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <muster/data_loader.h>
#include <muster/token_dataset.h>
#include <numeric>
#include <stdexcept>
#include <torch/torch.h>

#include "tests/scratch_directory.h"

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
  auto refuses(const std::string& what) {
    return ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(path_), HasSubstr(what)));
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "train.bin";
};

TEST_F(TokenDatasetTest, ASampleAndWhatFollowsIt) {
  const TokenDataset dataset(counting(23), {.context = 5});
  ASSERT_EQ(dataset.size(), 4);  // the fifth would need 26 tokens
  EXPECT_EQ(dataset.token_count(), 23);
  const Example sample = dataset.get(2);
  EXPECT_TRUE(sample.data.equal(torch::arange(10, 15)));
  EXPECT_TRUE(sample.target.equal(torch::arange(11, 16)));
  const auto refusal = ThrowsMessage<std::out_of_range>("index 4 is none of the 4 samples of " + path_);
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

// 37 tokens: more than a vector's, and a rest.
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

TEST_F(TokenDatasetTest, GivesTheSameThroughALoader) {
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

TEST_F(TokenDatasetTest, SaysWhichOptionCannotBeUsed) {
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
