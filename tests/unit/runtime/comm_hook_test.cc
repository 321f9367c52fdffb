// Communication hooks. tests/train/ddp_parity_test.cc compares the built-in ones with Python's.
#include <cmath>
#include <gmock/gmock.h>
#include <muster/muster.h>

#include "tests/require.h"

namespace muster {
namespace {

using torch::Tensor;

constexpr int kRanks = 3;

// This rank's gradients, of many magnitudes.
Tensor factors(int rank) {
  torch::manual_seed(rank + 1);
  return torch::randn({500}, torch::kDouble) * torch::logspace(-3, 3, 500, 10.0, torch::kDouble);
}

struct Scale : torch::nn::Module {
  Tensor weight = register_parameter("weight", torch::ones({500}));
  Tensor forward(const Tensor& x) { return (weight * x).sum(); }
};

TEST(CommHook, ErrsByNoMoreThanItsHeaderSays) {
  for (const auto& [hook, unit] : {std::pair(CommHook::kFp16Compress, std::ldexp(1.0, -11)),
                                   std::pair(CommHook::kBf16Compress, std::ldexp(1.0, -8))}) {
    spawn(
        [hook, unit](Job& job) {
          DistributedDataParallel model(Scale(), job, {.comm_hook = hook});
          model(factors(job.rank()).to(torch::kFloat)).backward();
          Tensor mean = torch::zeros({500}, torch::kDouble), size = mean.clone();
          for (int rank = 0; rank < kRanks; ++rank) {
            mean += factors(rank) / kRanks;
            size += factors(rank).abs() / kRanks;
          }
          const Tensor error = (model.module()->weight.grad().to(torch::kDouble) - mean).abs();
          const double worst = (error / (size * unit)).max().item<double>();
          require(worst <= kRanks + 1, fmt::format("{} units", worst));
          require(worst > 0.2, "it is compressed");
        },
        kRanks);
  }
}

// Reduces to twice the mean.
class Doubling : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<Tensor> gradients{bucket.getBufferRef().mul_(2.0 / state_->getSize())};
    return state_->allreduce(gradients)->getFuture();
  }
};

TEST(CommHook, MayBeTheProgramsOwn) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Scale(), job);
        model.register_comm_hook(std::make_unique<Doubling>(job.process_group()));
        model(torch::full({500}, static_cast<float>(job.rank()))).backward();
        require(torch::equal(model.module()->weight.grad(), torch::full({500}, 2.0F)),
                "twice the mean of 0..2");
      },
      kRanks);
}

}  // namespace
}  // namespace muster
