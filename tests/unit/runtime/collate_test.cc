#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/collate.h>
#include <muster/data/dataset.h>
#include <stdexcept>
#include <thread>
#include <torch/torch.h>

#include "runtime/data/loader/batch_memory.h"

namespace muster {
namespace {

struct Review {
  std::string text;
  std::int64_t stars;
  at::Tensor embedding;
};
struct ReviewBatch {
  std::vector<std::string> texts;
  at::Tensor stars;
  at::Tensor embeddings;
};

}  // namespace

template <>
struct BatchOf<Review> {
  using type = ReviewBatch;
};

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor row(double value) {
  return at::full({3}, value);
}

TEST(DefaultCollate, StacksTensorsOfAnyLayout) {
  const at::Tensor sliced = at::arange(6, at::kFloat).view({3, 2}).select(1, 1);
  const at::Tensor batch = default_collate(std::vector<at::Tensor>{row(1), sliced});
  EXPECT_TRUE(batch.equal(torch::tensor({{1.0F, 1.0F, 1.0F}, {1.0F, 3.0F, 5.0F}})));
}

TEST(DefaultCollate, StacksImagesWhosePixelsLieSideBySide) {
  for (const auto& [height, width] : {std::pair{1, 1}, {5, 7}, {31, 33}, {64, 64}}) {
    const at::Tensor pixels = at::randint(256, {2, height, width, 3}, at::kByte);
    const at::Tensor images = pixels.permute({0, 3, 1, 2});
    const at::Tensor batch = default_collate(std::vector<at::Tensor>{images[0], images[1]});
    EXPECT_TRUE(batch.is_contiguous());
    EXPECT_TRUE(batch.equal(images)) << height << " x " << width;
    // A part of such an image has rows with a gap between them.
    const at::Tensor left = images.narrow(3, 0, (width + 1) / 2);
    EXPECT_TRUE(default_collate(std::vector<at::Tensor>{left[0], left[1]}).equal(left));
  }
}

TEST(DefaultCollate, MakesTensorsOfNumbers) {
  EXPECT_TRUE(default_collate(std::vector<int>{1, 2}).equal(torch::tensor({1, 2}, at::kLong)));
  EXPECT_TRUE(default_collate(std::vector<double>{0.5, 2}).equal(torch::tensor({0.5, 2.0}, at::kDouble)));
  EXPECT_TRUE(default_collate(std::vector<float>{0.5F}).equal(torch::tensor({0.5F}, at::kFloat)));
  EXPECT_TRUE(default_collate(std::vector<bool>{true, false}).equal(torch::tensor({true, false})));
  using Unsigned = std::vector<std::uint64_t>;
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(default_collate(Unsigned{kLargest}).equal(torch::tensor({kLargest}, at::kLong)));
  EXPECT_THAT(([] { default_collate(Unsigned{1, std::uint64_t{1} << 63}); }),
              ThrowsMessage<std::invalid_argument>(HasSubstr("larger than an int64 tensor can hold")));
}

TEST(DefaultCollate, KeepsStringsAndCollatesPairsTuplesVectorsAndMaps) {
  EXPECT_THAT(default_collate(std::vector<std::string>{"a", "b"}), ElementsAre("a", "b"));
  const auto [rows, labels] =
      default_collate(std::vector<std::pair<at::Tensor, int>>{{row(1), 7}, {row(2), 8}});
  EXPECT_EQ(rows.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(labels.equal(torch::tensor({7, 8}, at::kLong)));
  const auto [names, ones] =
      default_collate(std::vector<std::tuple<std::string, at::Tensor>>{{"x", row(1)}, {"y", row(1)}});
  EXPECT_THAT(names, ElementsAre("x", "y"));
  const auto columns = default_collate(std::vector<std::vector<int>>{{1, 2}, {3, 4}, {5, 6}});
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_TRUE(columns[1].equal(torch::tensor({2, 4, 6}, at::kLong)));
  const auto named = default_collate(std::vector<std::map<std::string, int>>{{{"x", 1}}, {{"x", 2}}});
  EXPECT_TRUE(named.at("x").equal(torch::tensor({1, 2}, at::kLong)));
}

TEST(DefaultCollate, FillsStructsFieldByField) {
  const Example batch =
      default_collate(std::vector<Example>{{row(1), at::scalar_tensor(3)}, {row(2), at::scalar_tensor(4)}});
  EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{2}));
  const ReviewBatch reviews = default_collate(std::vector<Review>{{"good", 5, row(1)}, {"bad", 1, row(0)}});
  EXPECT_THAT(reviews.texts, ElementsAre("good", "bad"));
  EXPECT_TRUE(reviews.stars.equal(torch::tensor({5, 1}, at::kLong)));
  EXPECT_EQ(reviews.embeddings.sizes(), (std::vector<std::int64_t>{2, 3}));
}

TEST(DefaultCollate, RefusesSamplesThatDifferFromTheFirst) {
  EXPECT_THAT([] { default_collate(std::vector<at::Tensor>{row(1), at::zeros({4})}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("its shape [4] is not that of the first sample of the batch, [3]")));
  EXPECT_THAT([] { default_collate(std::vector<at::Tensor>{row(1), at::zeros({3}, at::kDouble)}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("its type Double")));
  EXPECT_THAT([] { default_collate(std::vector<std::vector<int>>{{1, 2}, {3}}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("it has 1 elements, and the first sample of the batch has 2")));
  EXPECT_THAT(([] { default_collate(std::vector<std::map<std::string, int>>{{{"x", 1}}, {{"y", 2}}}); }),
              ThrowsMessage<std::invalid_argument>(HasSubstr("\"y\"")));
}

TEST(Collator, ContinuesAfterASampleThatFailedHalfWay) {
  Collator<Example> collator(3);
  collator.add({row(1), at::scalar_tensor(1)});
  EXPECT_THROW(collator.add({row(2), at::zeros({2})}), std::invalid_argument);
  collator.truncate(1);
  collator.add({row(3), at::scalar_tensor(3)});
  const Example batch = collator.finish();
  EXPECT_TRUE(batch.data.select(1, 0).equal(torch::tensor({1.0F, 3.0F})));
  EXPECT_TRUE(batch.target.equal(torch::tensor({1.0F, 3.0F})));
}

TEST(PadSequences, PadsAndReturnsTheLengths) {
  const auto padded = pad_sequences({torch::tensor({1, 2, 3}), torch::tensor({4})}, -1);
  EXPECT_TRUE(padded.data.equal(torch::tensor({{1, 2, 3}, {4, -1, -1}})));
  EXPECT_TRUE(padded.lengths.equal(torch::tensor({3, 1}, at::kLong)));
  EXPECT_EQ(pad_sequences({at::ones({2, 5}), at::ones({0, 5})}).data.sizes(),
            (std::vector<std::int64_t>{2, 2, 5}));
}

TEST(PadSequences, NamesASequenceThatDiffersInMoreThanItsLength) {
  EXPECT_THAT([] { pad_sequences({at::ones({2, 5}), at::ones({2, 4})}); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("sequence 1 of the batch is Float [2, 4] and the first one Float [2, 5]")));
  EXPECT_THROW(pad_sequences({}), std::invalid_argument);
}

struct Masked {
  at::Tensor data;
  std::optional<at::Tensor> mask;
};

TEST(DefaultCollate, AllSamplesOrNoneHaveAnOptionalValue) {
  const Masked with{.data = row(1), .mask = row(2)};
  const Masked bare{.data = row(3), .mask = std::nullopt};
  const Masked batch = default_collate<Masked>({with, with});
  ASSERT_TRUE(batch.mask);
  EXPECT_TRUE(batch.mask->equal(at::full({2, 3}, 2.0)));
  EXPECT_FALSE(default_collate<Masked>({bare, bare}).mask);
  EXPECT_THAT(
      [&] { default_collate<Masked>({with, bare}); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("it lacks an optional value that the first sample")));
  EXPECT_THAT(
      [&] { default_collate<Masked>({bare, with}); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("that the first sample of the batch does not have")));
  Collator<Masked> collator(3);
  collator.add(bare);
  EXPECT_THROW(collator.add(with), std::invalid_argument);
  collator.truncate(1);
  collator.add(bare);
  const Masked rest = collator.finish();
  EXPECT_EQ(rest.data.size(0), 2);
  EXPECT_FALSE(rest.mask);
}

TEST(BatchMemory, KeepsBlocksOfSizesThatAreInUse) {
  const auto memory = std::make_shared<BatchMemory>(1 << 16);
  const auto take = [&](std::int64_t bytes) { return memory->take({bytes}, at::kByte); };
  for (std::int64_t length = 1; length <= 64; ++length) take(64 * length);  // padded batches of many lengths
  EXPECT_LE(memory->idle_bytes(), 1U << 16);
  EXPECT_GT(memory->idle_bytes(), 1U << 15);
  const void* first = take(1 << 14).const_data_ptr();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(1 << 14).const_data_ptr(), first) << "its memory is used again";
  EXPECT_LE(memory->idle_bytes(), 1U << 16);
  take(1 << 17);
  EXPECT_LE(memory->idle_bytes(), 1U << 16) << "a block above the limit is not kept";
}

TEST(BatchMemory, GivesAThreadTheBlockThatItHasFilledBefore) {
  const auto memory = std::make_shared<BatchMemory>(1 << 20);
  at::Tensor own = memory->take({64}, at::kByte);
  at::Tensor other;
  std::jthread([&] { other = memory->take({64}, at::kByte); }).join();
  const void* const filled = own.const_data_ptr();
  own.reset();
  other.reset();  // returned last
  EXPECT_EQ(memory->take({64}, at::kByte).const_data_ptr(), filled);
}

}  // namespace
}  // namespace muster
