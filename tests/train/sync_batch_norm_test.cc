// Compares SyncBatchNorm over parts of a batch on several ranks with LibTorch's BatchNorm over the whole
// batch, which has Python's kernels: outputs, gradients, running statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/require.h"
#include "tests/train/training.h"

namespace muster {
namespace {

using testing::ThrowsMessage;
using torch::nn::BatchNormOptions;

// The number of rows of each rank.
using Cuts = std::vector<std::int64_t>;

at::Tensor part_of(const at::Tensor& whole, const Cuts& cuts, int rank) {
  return whole.split_with_sizes(cuts)[static_cast<std::size_t>(rank)];
}

void require_close(const at::Tensor& ours, const at::Tensor& expected, double tolerance,
                   const std::string& what) {
  if (expected.numel() == 0) return require_equal(ours.numel(), std::int64_t{0}, what);
  const auto error = (ours.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  require(ours.scalar_type() == expected.scalar_type() && error <= tolerance,
          fmt::format("{}: off by {}", what, error));
}

struct LayerCase {
  std::string name;
  std::vector<std::int64_t> shape;  // the whole batch's
  at::ScalarType type;
  double tolerance;
  BatchNormOptions options;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

// Makes three steps with this rank's part and with the whole batch, and compares.
template <class Plain, class Sync>
void compare(const Job& job, const LayerCase& each, const Cuts& cuts, Plain& plain, Sync& sync) {
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    const auto random = [&] {
      return (torch::randn(each.shape, at::kDouble) * 3 + 5).to(each.type).contiguous(each.format);
    };
    const at::Tensor whole = random().requires_grad_(), grad = random();
    const at::Tensor part = part_of(whole, cuts, job.rank()).detach().clone().requires_grad_();
    const at::Tensor expected = plain->forward(whole), output = sync->forward(part);
    expected.backward(grad);
    output.backward(part_of(grad, cuts, job.rank()));
    const auto what = [&](const char* of) { return fmt::format("{}, {} of step {}", each.name, of, step); };
    require_close(output, part_of(expected, cuts, job.rank()), each.tolerance, what("output"));
    require_close(part.grad(), part_of(whole.grad(), cuts, job.rank()), each.tolerance,
                  what("gradient of the input"));
    if (each.options.affine()) {
      for (const auto& [ours, theirs] :
           {std::pair(sync->weight, plain->weight), std::pair(sync->bias, plain->bias)}) {
        const at::Tensor sum = ours.grad().clone();
        all_reduce(job, sum);
        require_close(sum, theirs.grad(), each.tolerance * 100, what("gradient of a parameter"));
        ours.mutable_grad().reset();
        theirs.mutable_grad().reset();
      }
    }
    require_close(sync->running_mean, plain->running_mean, each.tolerance, what("running mean"));
    require_close(sync->running_var, plain->running_var, each.tolerance * 10, what("running variance"));
    require(sync->num_batches_tracked.equal(plain->num_batches_tracked), what("count of batches"));
  }
}

TEST(SyncBatchNorm, PartsOnTwoAndFourRanksEqualTheWholeOnOne) {
  const std::vector<LayerCase> cases{
      {"floats", {12, 5}, at::kFloat, 1e-5, BatchNormOptions(5)},
      {"doubles", {12, 5}, at::kDouble, 1e-10, BatchNormOptions(5).momentum(std::nullopt)},
      {"images", {12, 3, 4, 5}, at::kDouble, 1e-10, BatchNormOptions(3), at::MemoryFormat::ChannelsLast},
      {"without weights", {12, 3, 4, 5}, at::kFloat, 1e-5, BatchNormOptions(3).affine(false)},
      {"bf16", {12, 3, 4, 5}, at::kBFloat16, 6e-2, BatchNormOptions(3)}};
  for (const Cuts& cuts : {Cuts{6, 6}, Cuts{11, 1}, Cuts{3, 5, 0, 4}}) {
    spawn(
        [&](Job& job) {
          torch::set_num_threads(1);
          for (const LayerCase& each : cases) {
            // For bf16, statistics and weights are floats, as under autocast.
            const at::ScalarType type = each.type == at::kDouble ? at::kDouble : at::kFloat;
            SyncBatchNorm sync(each.options, job);
            sync->to(type);
            if (each.shape.size() == 2) {
              torch::nn::BatchNorm1d plain(each.options);
              plain->to(type);
              compare(job, each, cuts, plain, sync);
            } else {
              torch::nn::BatchNorm2d plain(each.options), converted(each.options);
              convert_sync_batchnorm(converted, job);
              plain->to(type);
              converted->to(type);  // it stays converted
              compare(job, each, cuts, plain, converted);
            }
          }
        },
        static_cast<int>(cuts.size()));
  }
}

struct NormNet : torch::nn::Module {
  torch::nn::Conv2d conv =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Sequential head = register_module(
      "head", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(16, 6), torch::nn::BatchNorm1d(6),
                                    torch::nn::ReLU(), torch::nn::Linear(6, 3)));
  at::Tensor forward(const at::Tensor& x) { return head->forward(torch::relu(norm(conv(x)))); }
};

TEST(SyncBatchNorm, AConvertedModelTrainsAsInOneProcess) {
  spawn(
      [](Job& job) {
        torch::set_num_threads(1);
        const auto train = [&](const auto& forward, torch::nn::Module& net, int first, int count) {
          torch::optim::SGD optimizer(net.parameters(), 0.1);
          for (int step = 0; step < 5; ++step) {
            torch::manual_seed(step);
            const at::Tensor x = torch::randn({8, 2, 4, 4}), target = torch::randint(3, {8}, at::kLong);
            optimizer.zero_grad();
            torch::nn::functional::cross_entropy(forward(x.narrow(0, first, count)),
                                                 target.narrow(0, first, count))
                .backward();
            optimizer.step();
          }
        };
        torch::manual_seed(9);
        NormNet whole;
        torch::manual_seed(9);
        auto net = std::make_shared<NormNet>();
        convert_sync_batchnorm(*net, job);
        DistributedDataParallel model(net, job);
        train([&](const at::Tensor& x) { return whole.forward(x); }, whole, 0, 8);
        train([&](const at::Tensor& x) { return model(x); }, *net, job.rank() * 4, 4);
        const auto ours = net->named_parameters(), expected = whole.named_parameters();
        for (const auto& each : ours) require_close(each.value(), expected[each.key()], 1e-5, each.key());
        const auto buffers = whole.named_buffers();
        for (const auto& each : net->named_buffers())
          require_close(each.value(), buffers[each.key()], 1e-5, each.key());
        // In eval mode a layer does not communicate, and neither does a layer that was not converted.
        net->eval();
        torch::nn::BatchNorm1d other(3);
        if (job.rank() == 0) other(net->forward(torch::randn({2, 2, 4, 4})));
        // The layer has counted one batch of both ranks already.
        net->train();
        update_bn(*net, job, [&] { net->forward(torch::randn({4, 2, 4, 4})); });
        require_equal(net->norm->num_batches_tracked.item<std::int64_t>(), std::int64_t{1}, "batches");
      },
      2);
}

TEST(SyncBatchNorm, AModelMayBeConvertedTwice) {
  spawn(
      [](Job& job) {
        torch::manual_seed(1);
        const at::Tensor all = torch::randn({8, 4});
        torch::nn::Sequential net(torch::nn::BatchNorm1d(4));
        torch::nn::BatchNorm1d whole(4);
        convert_sync_batchnorm(net, job);
        convert_sync_batchnorm(net, job);
        require_close(net->forward(all.narrow(0, 4 * job.rank(), 4)), whole(all).narrow(0, 4 * job.rank(), 4),
                      1e-6, "output");
      },
      2);
}

// One layer in two places.
struct SequentialNet : torch::nn::Module {
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Sequential first{register_module("first", torch::nn::Sequential(torch::nn::Linear(4, 4), norm))};
  torch::nn::Sequential second{register_module(
      "second", torch::nn::Sequential(torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 4), norm))};
  at::Tensor forward(const at::Tensor& x) { return second->forward(first->forward(x)); }
};

// torch::nn::BatchNorm1d refuses a batch of one sample; so conversion replaces it in a Sequential.
TEST(SyncBatchNorm, AcceptsABatchOfOneValueInASequential) {
  spawn(
      [](Job& job) {
        const Cuts cuts{5, 1, 2};
        torch::manual_seed(1);
        SequentialNet whole;
        torch::manual_seed(1);
        SequentialNet net;
        const at::Tensor all = torch::randn({8, 4});
        const auto parameters = net.named_parameters();
        net.eval();
        convert_sync_batchnorm(net, job);
        require(!net.first->ptr(1)->is_training(), "it stays in eval mode");
        require(net.first->ptr(1) == net.second->ptr(2), "one layer in two places");
        net.train();
        convert_sync_batchnorm(net, job);
        require(net.named_parameters().keys() == whole.named_parameters().keys(), "names of parameters");
        require(net.named_buffers().keys() == whole.named_buffers().keys(), "names of buffers");
        for (const auto& each : net.named_parameters())
          require(each.value().is_same(parameters[each.key()]), each.key());
        for (int step = 0; step < 2; ++step) {
          const at::Tensor output = net.forward(part_of(all, cuts, job.rank())),
                           expected = whole.forward(all);
          require_close(output, part_of(expected, cuts, job.rank()), 1e-5, "output");
          output.sum().backward();
          expected.sum().backward();
        }
        for (const auto& each : net.named_parameters()) {
          const at::Tensor sum = each.value().grad().clone();
          all_reduce(job, sum);
          require_close(sum, whole.named_parameters()[each.key()].grad(), 1e-4, each.key());
        }
        for (const auto& each : net.named_buffers())
          require_close(each.value(), whole.named_buffers()[each.key()], 1e-5, each.key());
      },
      3);
}

TEST(SyncBatchNorm, RefusesInputsAndLayersThatItCannotNormalise) {
  spawn(
      [](Job& job) {
        torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                                  torch::nn::BatchNorm1d(BatchNormOptions(4).track_running_stats(false)));
        EXPECT_THAT([&] { convert_sync_batchnorm(net, job); },
                    ThrowsMessage<std::invalid_argument>("SyncBatchNorm: '2' keeps no running statistics "
                                                         "(track_running_stats), which eval() needs"));
        SyncBatchNorm layer(4, job);
        EXPECT_EQ(c10::str(*layer), "muster::SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=true)");
        EXPECT_EQ(layer->named_buffers().keys(),
                  (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
        EXPECT_THAT([&] { layer(torch::zeros({4})); },
                    ThrowsMessage<std::invalid_argument>(
                        "SyncBatchNorm: the input has 1 dimensions; it must have at least 2"));
        EXPECT_THAT([&] { layer(torch::zeros({job.rank() == 0 ? 1 : 0, 4})); },
                    ThrowsMessage<std::invalid_argument>(
                        "SyncBatchNorm: the batches of all ranks have 1 values for each feature; "
                        "training needs at least 2"));
        require(!testing::Test::HasFailure(), "refusals");
      },
      2);
}

}  // namespace
}  // namespace muster
