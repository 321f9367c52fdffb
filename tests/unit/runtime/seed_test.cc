#include <cstdlib>
#include <gtest/gtest.h>
#include <muster/muster.h>
#include <torch/torch.h>

namespace muster {
namespace {

// Back to torch's defaults: other tests of this program compute too.
class Deterministic : public testing::Test {
 protected:
  ~Deterministic() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
    at::globalContext().setDeterministicMkldnn(false);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
  }
};

TEST(SeedEverything, GivesTheSameNumbersForTheSameSeedAndLeavesAlgorithmsAlone) {
  seed_everything(7);
  const at::Tensor first = torch::randn({4});
  const int drawn = std::rand();
  seed_everything(7);
  EXPECT_TRUE(torch::equal(torch::randn({4}), first));
  EXPECT_EQ(std::rand(), drawn);
  seed_everything(8);
  EXPECT_FALSE(torch::equal(torch::randn({4}), first));
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

TEST_F(Deterministic, AnOperatorWithoutADeterministicFormThrows) {
  at::Tensor numbers = torch::zeros({4});
  const auto put = [&] { numbers.put_(torch::tensor({0, 0}), torch::tensor({1.0F, 2.0F})); };
  put();
  seed_everything(1, {.deterministic = true});
  try {
    put();
    FAIL() << "of two values for one place either may stay";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("put_"), std::string::npos) << error.what();
  }
}

TEST_F(Deterministic, SetsWhatPythonSets) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  at::globalContext().setBenchmarkCuDNN(true);
  seed_everything(1, {.deterministic = true});
  const at::Context& context = at::globalContext();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicFillUninitializedMemory());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8") << "the user's choice stays";
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  seed_everything(1, {.deterministic = true});
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  EXPECT_TRUE(torch::isnan(torch::empty({16})).all().item<bool>()) << "what nobody set is seen";
}

}  // namespace
}  // namespace muster
