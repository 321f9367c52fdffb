#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <muster/data/data_loader.h>
#include <muster/data/tensor_dataset.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Triple {
  at::Tensor left, right, label;
};

TEST(TensorDataset, SamplesAreRows) {
  const at::Tensor data = torch::randn({10, 3, 2});
  const TensorDataset dataset(data, torch::arange(10));
  ASSERT_EQ(dataset.size(), 10);
  const Example sample = dataset.get(7);
  EXPECT_TRUE(sample.data.equal(data[7]));
  EXPECT_EQ(sample.target.item<std::int64_t>(), 7);
  EXPECT_EQ(sample.target.dim(), 0);
}

TEST(TensorDataset, ABatchEqualsItsCollatedSamples) {
  const TensorDataset dataset(
      Triple{torch::randn({20, 5}), torch::randn({2, 20}).t(), torch::arange(20).to(at::kShort)});
  const std::vector<std::int64_t> order{19, 0, 0, 7};
  const Triple batch = dataset.get_batch(order);
  const Triple expected = dataset.Dataset<Triple>::get_batch(order);
  EXPECT_TRUE(batch.left.equal(expected.left));
  EXPECT_TRUE(batch.right.equal(expected.right));
  EXPECT_TRUE(batch.label.equal(expected.label));
  EXPECT_EQ(batch.label.scalar_type(), at::kShort);
}

TEST(TensorDataset, TakesTuplesAndSingleTensors) {
  const TensorDataset pairs(std::tuple(torch::arange(4), torch::ones({4, 2})));
  EXPECT_EQ(std::get<0>(pairs.get(3)).item<std::int64_t>(), 3);
  const TensorDataset single(torch::arange(4));
  DataLoader loader(single, {.batch_size = 3}, 0, 1);
  std::vector<std::int64_t> sizes;
  for (at::Tensor& batch : loader.epochs(1)) sizes.push_back(batch.size(0));
  EXPECT_THAT(sizes, testing::ElementsAre(3, 1));
}

TEST(TensorDataset, ALaterBatchDoesNotChangeAnEarlierOne) {
  const TensorDataset dataset(torch::arange(64).reshape({64, 1}).expand({64, 100}), torch::arange(64));
  DataLoader loader(dataset, {.batch_size = 8, .num_workers = 2}, 0, 1);
  std::vector<at::Tensor> held;
  for (auto& batch : loader.epochs(1)) held.push_back(batch.data);
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held[i][0][0].item<std::int64_t>(), static_cast<std::int64_t>(i) * 8);
}

TEST(TensorDataset, NamesATensorThatDoesNotFit) {
  EXPECT_THAT([] { TensorDataset(torch::ones({4, 2}), torch::ones({3})); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("tensor 1 of the sample has 3 rows and the first one 4")));
  EXPECT_THAT([] { TensorDataset(torch::ones({4}), at::Tensor()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("tensor 1 of the sample is not defined")));
  EXPECT_THAT([] { TensorDataset(torch::scalar_tensor(1), torch::ones({3})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("tensor 0 of the sample is a number")));
}

TEST(TensorDataset, TheLoaderRefusesADatasetWithoutRows) {
  const TensorDataset dataset(torch::ones({0, 2}), torch::ones({0}));
  EXPECT_THAT(([&] { DataLoader(dataset, {.batch_size = 2}, 0, 1); }),
              ThrowsMessage<std::invalid_argument>(HasSubstr("TensorDataset has no samples")));
}

}  // namespace
}  // namespace muster
