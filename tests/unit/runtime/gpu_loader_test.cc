// Loading batches to a real GPU, which a fake cannot replace. Without a GPU, every test is skipped and says
// so.
#include <gtest/gtest.h>
#include <muster/data/batch_memory.h>
#include <muster/data/data_loader.h>
#include <optional>
#include <torch/torch.h>

namespace muster {
namespace {

constexpr std::int64_t kSize = 400;
constexpr std::int64_t kWidth = 1 << 14;

// Sample i is a row of the number i.
class Rows : public Dataset<at::Tensor> {
 public:
  std::int64_t size() const override { return kSize; }
  at::Tensor get(std::int64_t index) const override { return at::full({kWidth}, index, at::kFloat); }
};

class GpuLoader : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available())
      GTEST_SKIP() << "needs a GPU: torch::cuda::is_available() is false on this machine";
  }
  const at::Device device_{at::kCUDA, 0};
  const Rows dataset_;
};

TEST_F(GpuLoader, PinMemoryGivesPageLockedBatches) {
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset_, {.batch_size = 8, .num_workers = workers, .pin_memory = true}, 0, 1);
    for (auto& batch : loader) ASSERT_TRUE(batch.is_pinned());
    // Tensors that a function has made by other means are pinned too, whatever their layout.
    using Collated = std::pair<at::Tensor, std::optional<at::Tensor>>;
    DataLoader own(
        dataset_, {.batch_size = 8, .num_workers = workers, .pin_memory = true}, 0, 1,
        [](const std::vector<at::Tensor>& samples) { return Collated{at::stack(samples), at::eye(4)}; });
    for (auto& [data, mask] : own) {
      ASSERT_TRUE(data.is_pinned());
      ASSERT_TRUE(mask->is_pinned());
    }
  }
}

TEST_F(GpuLoader, BatchesAreOnTheDeviceWithTheirValues) {
  for (const int workers : {0, 2}) {
    for (const bool pinned : {false, true}) {
      DataLoader loader(
          dataset_, {.batch_size = 8, .num_workers = workers, .pin_memory = pinned, .device = device_}, 0, 1);
      std::int64_t first = 0;
      for (auto& batch : loader) {
        ASSERT_EQ(batch.device(), device_);
        const at::Tensor expected = at::arange(first, first + 8, at::kFloat).unsqueeze(1).expand({8, kWidth});
        ASSERT_TRUE(batch.cpu().equal(expected)) << first;
        first += 8;
      }
      EXPECT_EQ(first, kSize);
    }
  }
}

// The computing stream is kept busy, so that batches are still in use while later ones are copied and memory
// is reused. A batch that is overwritten, or used before its copy is complete, gives a wrong sum.
TEST_F(GpuLoader, ABatchIsCompleteWhenItIsUsedAndStaysUntilThen) {
  DataLoader loader(dataset_, {.batch_size = 8, .num_workers = 2, .pin_memory = true, .device = device_}, 0,
                    1);
  const at::Tensor busy = at::rand({2048, 2048}, at::TensorOptions(device_)) / 2048;
  std::vector<at::Tensor> sums;
  for (auto& batch : loader) {
    at::Tensor product = busy;
    for (int i = 0; i < 4; ++i) product = product.matmul(busy);
    sums.push_back((batch + product.sum() * 0).sum(at::kDouble));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto first = static_cast<double>(8 * i);
    EXPECT_EQ(sums[i].item<double>(), (8 * first + 28) * kWidth) << "batch " << i;
  }
}

TEST_F(GpuLoader, SparseTensorsAreMovedToo) {
  for (const int workers : {0, 2}) {
    DataLoader loader(dataset_, {.batch_size = 4, .num_workers = workers, .device = device_}, 0, 1,
                      [](const std::vector<at::Tensor>& samples) {
                        const at::Tensor dense = at::eye(16) * samples.front()[0];
                        return std::pair(dense.to_sparse(), dense.to_sparse_csr());
                      });
    double number = 0;
    for (auto& [coordinates, rows] : loader) {
      ASSERT_TRUE(coordinates.is_cuda());
      ASSERT_TRUE(rows.is_cuda());
      ASSERT_TRUE(coordinates.to_dense().cpu().equal(at::eye(16) * number));
      ASSERT_TRUE(rows.to_dense().cpu().equal(at::eye(16) * number));
      number += 4;
    }
  }
}

TEST_F(GpuLoader, ALoopAfterOneThatWasLeftHasEveryBatch) {
  DataLoader loader(dataset_, {.batch_size = 8, .num_workers = 2, .pin_memory = true, .device = device_}, 0,
                    1);
  std::int64_t first = 0;
  for (int loops = 0; first < kSize; ++loops) {
    ASSERT_LT(loops, kSize);
    int taken = 0;
    for (auto& batch : loader.epochs(1)) {
      ASSERT_EQ(batch[0][0].item<std::int64_t>(), first);
      first += 8;
      if (++taken == 3) break;  // the next batch is on the device already
    }
    if (loops % 2 == 0) loader.stop();
  }
}

}  // namespace
}  // namespace muster
