// Every test trains in spawned processes, which compare the results themselves.
#include <gmock/gmock.h>
#include <muster/muster.h>

#include "common/base/clock.h"
#include "runtime/parallel/reduced_parameters.h"
#include "runtime/rank/step_time.h"
#include "tests/require.h"

namespace muster {
namespace {

using torch::Tensor;

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  Net() {
    torch::manual_seed(11);
    first = register_module("first", torch::nn::Linear(6, 32));
    second = register_module("second", torch::nn::Linear(32, 16));
    third = register_module("third", torch::nn::Linear(16, 3));
  }
  Tensor forward(const Tensor& x) { return third(torch::relu(second(torch::relu(first(x))))); }
};

Tensor inputs(int seed) {
  torch::manual_seed(seed);
  return torch::randn({8, 6});
}

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const auto& parameter : parameters) all.push_back(parameter.grad().clone());
  return all;
}

// The gradients of the mean loss over these batches, by one process.
std::vector<Tensor> expected_gradients(const std::vector<Tensor>& batches) {
  Net net;
  for (const auto& batch : batches)
    (net.forward(batch).pow(2).mean() / static_cast<double>(batches.size())).backward();
  return gradients(net.parameters());
}

void require_close(const std::vector<Tensor>& left, const std::vector<Tensor>& right,
                   const std::string& what) {
  require_equal(left.size(), right.size(), what);
  for (std::size_t i = 0; i < left.size(); ++i)
    require(torch::allclose(left[i], right[i], 1e-5, 1e-7), what + ", parameter " + std::to_string(i));
}

void require_throws_invalid(const std::function<void()>& body, const std::string& text) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    require(std::string(error.what()).find(text) != std::string::npos, error.what());
    return;
  }
  throw std::runtime_error("no exception about " + text);
}

TEST(DistributedDataParallel, AveragesTheGradientsOfAllRanks) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Net(), job);
        model(inputs(job.rank())).pow(2).mean().backward();
        require_close(gradients(model.parameters()), expected_gradients({inputs(0), inputs(1), inputs(2)}),
                      "mean");
      },
      3);
}

TEST(DistributedDataParallel, WorksInAWorldOfOne) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(std::make_shared<Net>(), job);
        model(inputs(0)).pow(2).mean().backward();
        require_close(gradients(model.parameters()), expected_gradients({inputs(0)}), "its own");
      },
      1);
}

// The name of a holder, such as torch::nn::Linear, is what a program has at hand.
TEST(DistributedDataParallel, AcceptsAHoldersClassForTheModules) {
  spawn(
      [](Job& job) {
        torch::nn::Linear net(6, 3);
        DistributedDataParallel<torch::nn::Linear> model(net, job);
        model(inputs(job.rank())).sum().backward();
        require(model.module() == net.ptr(), "the module in the holder");
        const Tensor expected = (inputs(0).sum(0) + inputs(1).sum(0)) / 2;
        require(torch::allclose(net->weight.grad()[0], expected, 1e-5, 1e-6), "the mean gradient");
      },
      2);
}

TEST(DistributedDataParallel, StartsFromTheParametersOfRankZero) {
  spawn(
      [](Job& job) {
        auto net = std::make_shared<Net>();
        const torch::NoGradGuard no_grad;
        for (auto& parameter : net->parameters()) parameter.add_(job.rank());
        DistributedDataParallel model(net, job);
        const Net reference;
        for (std::size_t i = 0; i < reference.parameters().size(); ++i)
          require(torch::equal(net->parameters()[i], reference.parameters()[i]), "parameter of rank 0");
      },
      2);
}

// Requires an error if the last of three ranks has another model.
void require_refused(const std::function<std::shared_ptr<torch::nn::Module>(bool other)>& make,
                     const std::string& difference) {
  spawn(
      [&](Job& job) {
        auto module = std::make_shared<torch::nn::SequentialImpl>();
        module->push_back("net", torch::nn::AnyModule(torch::nn::Linear(2, 2)));
        module->register_module("part", make(job.rank() == 2));
        require_throws_invalid([&] { DistributedDataParallel model(module, job); }, difference);
      },
      3);
}

TEST(DistributedDataParallel, NamesOnAllRanksTheDifferenceOfOneRanksModel) {
  using torch::nn::LinearOptions;
  require_refused(
      [](bool other) { return torch::nn::Linear(4, other ? 3 : 2).ptr(); },
      "parameter 'part.weight' is Float [2, 4] on cpu on rank 0, but Float [3, 4] on cpu on rank 2");
  require_refused([](bool other) { return torch::nn::Linear(LinearOptions(4, 2).bias(!other)).ptr(); },
                  "parameter 'part.bias' (Float [2] on cpu) of rank 0 is missing on rank 2");
  require_refused([](bool other) { return torch::nn::Linear(LinearOptions(4, 2).bias(other)).ptr(); },
                  "parameter 'part.bias' (Float [2] on cpu) of rank 2 is missing on rank 0");
  const auto changed = [](const auto& change) {
    return [change](bool other) {
      torch::nn::BatchNorm1d norm(3);
      if (other) change(*norm);
      return norm.ptr();
    };
  };
  require_refused(changed([](auto& norm) { norm.to(torch::kDouble); }),
                  "parameter 'part.weight' is Float [3] on cpu on rank 0, but Double [3] on cpu on rank 2");
  require_refused(changed([](auto& norm) { norm.bias.requires_grad_(false); }),
                  "parameter 'part.bias' is Float [3] on cpu on rank 0, but Float [3] on cpu, "
                  "without a gradient on rank 2");
  require_refused(changed([](auto& norm) { norm.running_mean.resize_({4}); }),
                  "buffer 'part.running_mean' is Float [3] on cpu on rank 0, but Float [4] on cpu on rank 2");
}

TEST(DistributedDataParallel, NamesOnAllRanksAnOptionThatDiffers) {
  spawn(
      [](Job& job) {
        DistributedDataParallelOptions options;
        if (job.rank() == 1) options.bucket_cap_mb = -1;
        require_throws_invalid([&] { DistributedDataParallel model(Net(), job, options); },
                               "option bucket_cap_mb is not set on rank 0, but -1 on rank 1");
        options.bucket_cap_mb = -1;
        require_throws_invalid([&] { DistributedDataParallel model(Net(), job, options); },
                               "bucket_cap_mb is -1; it must be above 0");
      },
      2);
}

TEST(DistributedDataParallel, RefusesAModelWithoutParameters) {
  spawn(
      [](Job& job) {
        require_throws_invalid([&] { DistributedDataParallel model(torch::nn::ReLU(), job); },
                               "no parameter");
      },
      1);
}

struct OnMeta : torch::nn::Module {
  OnMeta() { register_parameter("weight", torch::empty({2}, torch::kMeta)); }
  Tensor forward(const Tensor& x) { return x; }
};

TEST(DistributedDataParallel, SaysWhatToWriteIfTheModuleIsOnAnotherDeviceThanTheJob) {
  spawn(
      [](Job& job) {
        OnMeta net;
        require_throws_invalid(
            [&] { DistributedDataParallel model(net, job); },
            "the module is on meta, and this job's device is cpu: write net->to(job.device()) before");
        // There is a GPU, but the program has not moved the module.
        ReducedParameters parameters;
        parameters.tensors = {torch::zeros({1})};
        require_throws_invalid(
            [&] { require_on_device_of(parameters, {torch::kCUDA, 1}); },
            "the module is on cpu, and this job's device is cuda:1: "
            "write net->to(job.device()) before it is wrapped (to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)");
      },
      2);
}

struct WithBuffer : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  Tensor buffer;
  explicit WithBuffer(int rank) {
    linear = register_module("linear", torch::nn::Linear(6, 1));
    buffer = register_buffer("buffer", torch::full({2}, static_cast<float>(rank)));
  }
  Tensor forward(const Tensor& x) { return linear(x) + buffer.sum(); }
};

TEST(DistributedDataParallel, GivesAllRanksTheBuffersOfRankZeroBeforeEachForward) {
  spawn(
      [](Job& job) {
        auto module = std::make_shared<WithBuffer>(job.rank() + 5);
        DistributedDataParallel model(module, job);
        require_equal(module->buffer[0].item<float>(), 5.0F, "buffer after construction");
        model(inputs(0)).sum().backward();
        module->buffer.fill_(job.rank() + 7);
        model(inputs(0)).sum().backward();
        require_equal(module->buffer[0].item<float>(), 7.0F, "buffer after forward");
        DistributedDataParallel own(module, job, {.broadcast_buffers = false});
        module->buffer.fill_(job.rank());
        own(inputs(0)).sum().backward();
        require_equal(module->buffer[0].item<float>(), static_cast<float>(job.rank()),
                      "buffer that is not broadcast");
      },
      2);
}

TEST(DistributedDataParallel, AccumulatesWithoutReducingInsideNoSync) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Net(), job);
        {
          const auto guard = model.no_sync();
          (model(inputs(job.rank())).pow(2).mean() / 2).backward();
          Net alone;
          (alone.forward(inputs(job.rank())).pow(2).mean() / 2).backward();
          require_close(gradients(model.parameters()), gradients(alone.parameters()), "inside, a rank's own");
        }
        (model(inputs(2 + job.rank())).pow(2).mean() / 2).backward();
        require_close(gradients(model.parameters()),
                      expected_gradients({inputs(0), inputs(1), inputs(2), inputs(3)}),
                      "afterwards, as with one big batch");
      },
      2);
}

TEST(DistributedDataParallel, ZeroesGradientsThatAreViewsOfBuckets) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Net(), job, {.gradient_as_bucket_view = true});
        for (int step = 0; step < 4; ++step) {
          model.zero_grad(/*set_to_none=*/step % 2 == 0);
          model(inputs(job.rank())).pow(2).mean().backward();
          require_close(gradients(model.parameters()), expected_gradients({inputs(0), inputs(1)}),
                        "step " + std::to_string(step));
        }
        const auto* before = model.parameters().front().grad().const_data_ptr();
        require(model.parameters().front().grad().is_view(), "a gradient is a view of a bucket");
        model.zero_grad(false);
        require(model.parameters().front().grad().const_data_ptr() == before,
                "a zeroed gradient stays in its bucket");
        require_equal(model.parameters().front().grad().abs().sum().item<float>(), 0.0F, "zeroed gradient");
      },
      2);
}

// Uses one of its two branches.
struct Branches : torch::nn::Module {
  torch::nn::Linear left{nullptr}, right{nullptr};
  Branches() {
    torch::manual_seed(3);
    left = register_module("left", torch::nn::Linear(6, 2));
    right = register_module("right", torch::nn::Linear(6, 2));
  }
  std::pair<Tensor, Tensor> forward(const Tensor& x, bool use_right) {
    return {use_right ? right(x) : left(x), x};
  }
};

TEST(DistributedDataParallel, FindsParametersThatARankDidNotUse) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Branches(), job, {.find_unused_parameters = true});
        for (int step = 0; step < 3; ++step) {
          model.zero_grad();
          model(inputs(0), job.rank() == 1).first.sum().backward();
        }
        Branches alone;
        alone.forward(inputs(0), false).first.sum().backward();
        // Half, because only one of two ranks used the branch.
        require(torch::allclose(model.module()->left->weight.grad(), alone.left->weight.grad() / 2),
                "mean over all ranks");
        require(torch::allclose(model.module()->right->weight.grad(), alone.left->weight.grad() / 2),
                "mean over all ranks");
      },
      2);
}

// Only rank 1 uses one branch, and no rank uses the other. Gradients are those that DDP leaves.
TEST(ReduceGrads, GivesTheGradientsOfAnOrdinaryStepAndNoneForUnusedParameters) {
  spawn(
      [](Job& job) {
        for (const DistributedDataParallelOptions options :
             {DistributedDataParallelOptions{},
              DistributedDataParallelOptions{.find_unused_parameters = true},
              DistributedDataParallelOptions{.gradient_as_bucket_view = true}}) {
          DistributedDataParallel model(Branches(), job, options);
          DistributedDataParallel ordinary(Branches(), job, {.find_unused_parameters = true});
          for (int step = 0; step < 3; ++step) {
            const bool one_uses_it = step == 1 && job.rank() == 1;
            model.zero_grad();
            ordinary.zero_grad();
            const Tensor x = inputs(10 * step + job.rank());
            // Two backward passes over parts of the batch, as without reduction.
            model.module()->forward(x.narrow(0, 0, 4), one_uses_it).first.pow(2).sum().backward();
            model.module()->forward(x.narrow(0, 4, 4), one_uses_it).first.pow(2).sum().backward();
            model.reduce_grads();
            ordinary(x, one_uses_it).first.pow(2).sum().backward();
            const auto expected = ordinary.parameters(), reduced = model.parameters();
            for (std::size_t i = 0; i < expected.size(); ++i) {
              const std::string what = fmt::format("step {}, parameter {}", step, i);
              require_equal(reduced[i].grad().defined(), expected[i].grad().defined(), what);
              require_equal(reduced[i].grad().defined(), i < 2 || step == 1, what);
              if (reduced[i].grad().defined())
                require(reduced[i].grad().allclose(expected[i].grad(), 1e-5, 1e-6), what);
            }
          }
        }
      },
      2);
}

TEST(ReduceGrads, GivesFrozenParametersNoGradients) {
  spawn(
      [](Job& job) {
        const auto freeze_all = [](torch::nn::Module& module, bool frozen) {
          for (auto& each : module.parameters()) each.requires_grad_(!frozen);
        };
        DistributedDataParallel model(Branches(), job, {.find_unused_parameters = true});
        auto& net = *model.module();
        freeze_all(net, true);
        model.reduce_grads();  // no gradients on any rank
        for (const auto& each : model.parameters()) require(!each.grad().defined(), "all is frozen");
        freeze_all(*net.left, false);
        net.forward(inputs(job.rank()), false).first.sum().backward();
        model.reduce_grads();
        Branches alone;
        alone.forward(torch::cat({inputs(0), inputs(1)}), false).first.sum().backward();
        require(net.left->weight.grad().allclose(alone.left->weight.grad() / 2, 1e-5, 1e-6), "the mean");
        require(!net.right->weight.grad().defined(), "what is frozen has no gradient");

        DistributedDataParallel strict(Branches(), job);
        if (job.rank() == 1) strict.module()->right->bias.requires_grad_(false);  // all ranks throw
        strict.module()->forward(inputs(0), false).first.sum().backward();
        try {
          strict.reduce_grads();
          throw std::runtime_error("a parameter that was frozen later is not noticed");
        } catch (const std::logic_error& error) {
          require_equal(std::string(error.what()),
                        std::string("reduce_grads: 'right.bias' was frozen after the model was made; "
                                    "that needs find_unused_parameters"),
                        "refusal");
        }

        // Only rank 1 cannot reduce: no rank has used the parameters that rank 1 has not frozen.
        freeze_all(*net.right, false);
        if (job.rank() == 1) freeze_all(*net.left, true);
        try {
          model.reduce_grads();
          throw std::runtime_error("a rank that has frozen what others use is not noticed");
        } catch (const std::logic_error& error) {
          require_equal(
              std::string(error.what()),
              std::string("reduce_grads: one rank has frozen all parameters that the others have used"),
              "refusal");
        }
      },
      2);
}

// A rank without any backward pass takes part, so that the others do not wait for it.
TEST(ReduceGrads, GivesARankWithoutGradientsTheMeanToo) {
  spawn(
      [](Job& job) {
        for (const bool find : {false, true}) {
          DistributedDataParallel model(Net(), job, {.find_unused_parameters = find});
          if (job.rank() == 0) model.module()->forward(inputs(0)).pow(2).mean().backward();
          model.reduce_grads();
          auto expected = expected_gradients({inputs(0)});
          for (Tensor& each : expected) each /= 2;
          require_close(gradients(model.parameters()), expected, "half of rank 0's");
          model.zero_grad();
          model.reduce_grads();
          for (const auto& each : model.parameters()) require(!each.grad().defined(), "no rank has any");
        }
      },
      2);
}

struct Twice : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  Twice() {
    torch::manual_seed(4);
    linear = register_module("linear", torch::nn::Linear(6, 6));
  }
  Tensor forward(const Tensor& x) { return linear(torch::tanh(linear(x))); }
};

TEST(DistributedDataParallel, GivesTheSameGradientsForAStaticGraph) {
  spawn(
      [](Job& job) {
        DistributedDataParallel plain(Twice(), job);
        DistributedDataParallel fixed(Twice(), job, {.static_graph = true});
        for (int step = 0; step < 3; ++step) {
          plain.zero_grad();
          fixed.zero_grad();
          plain(inputs(job.rank())).sum().backward();
          fixed(inputs(job.rank())).sum().backward();
          require_close(gradients(fixed.parameters()), gradients(plain.parameters()),
                        "step " + std::to_string(step));
        }
      },
      2);
}

// The wait for a slow rank does not count as the other ranks' work. One of several steps is enough: the
// machine may be busy.
TEST(DistributedDataParallel, SeparatesItsOwnWorkFromTheWaitForASlowerRank) {
  spawn(
      [](Job& job) {
        using namespace std::chrono_literals;
        for (const auto& options : {DistributedDataParallelOptions{},
                                    DistributedDataParallelOptions{.find_unused_parameters = true},
                                    DistributedDataParallelOptions{.static_graph = true}}) {
          DistributedDataParallel model(Net(), job, options);
          bool waited = false;
          for (int step = 0; step < 5; ++step) {
            const TimePoint began = Clock::now();
            step_time().step_ended(began);
            while (job.rank() == 1 && Clock::now() < began + 200ms) continue;  // works
            model(inputs(job.rank())).pow(2).mean().backward();
            const auto busy = step_time().step_ended(Clock::now());
            require(busy.has_value(), "a step whose wait was seen");
            require(job.rank() == 0 || *busy >= 200ms, "the slower rank is busy for 200 ms");
            waited = waited || (*busy < 100ms && Clock::now() - began > 100ms);
            job.barrier();
          }
          require(waited == (job.rank() == 0), "the other waits");
        }
      },
      2);
}

TEST(BucketOrder, IsSettledByTheFirstBackwardAndTheSameOnAllRanks) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(Net(), job, {.bucket_cap_mb = 0.001});
        require(model.bucket_order().empty(), "nothing is settled before a backward");
        model(inputs(job.rank())).sum().backward();
        const BucketOrder settled = model.bucket_order();
        require(settled.size() > 1, "several buckets");
        require_equal(settled.front().front(), std::string("third.bias"), "the gradient that arrives first");
        model(inputs(job.rank())).sum().backward();
        require(model.bucket_order() == settled, "it stays");
      },
      3);
}

TEST(BucketOrder, FromAnEarlierRunIsKept) {
  spawn(
      [](Job& job) {
        const BucketOrder given{
            {"first.weight"}, {"third.weight", "second.bias"}, {"first.bias", "third.bias", "second.weight"}};
        DistributedDataParallel model(Net(), job, {.gradient_as_bucket_view = true});
        model.set_bucket_order(given);
        for (int step = 0; step < 3; ++step) {
          model.zero_grad(false);
          require(model.bucket_order() == given, "order at step " + std::to_string(step));
          model(inputs(job.rank())).pow(2).mean().backward();
          require_close(gradients(model.parameters()), expected_gradients({inputs(0), inputs(1)}),
                        "gradients in that order");
        }
      },
      2);
}

TEST(BucketOrder, MustBeOfThisModel) {
  spawn(
      [](Job& job) {
        DistributedDataParallel model(torch::nn::Linear(2, 2), job);
        require_throws_invalid([&] { model.set_bucket_order({{"weight"}}); },
                               "'bias' of this model is missing");
        require_throws_invalid([&] { model.set_bucket_order({{"weight", "bias", "scale"}}); },
                               "'scale' is named twice, or is not");
        require_throws_invalid([&] { model.set_bucket_order({{"weight", "bias"}, {"bias"}}); },
                               "'bias' is named twice");
        require_throws_invalid([&] { model.set_bucket_order({{"weight", "bias"}, {}}); },
                               "a bucket is empty");
        model.set_bucket_order({});
      },
      1);
}

}  // namespace
}  // namespace muster
