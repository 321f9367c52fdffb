// Steps and searches that run out of memory, with an allocator that throws, and graphs that a training keeps.
#include <atomic>
#include <gtest/gtest.h>
#include <limits>
#include <malloc.h>

#include "tests/require.h"
#include "tests/train/training.h"

namespace muster {
namespace {

// Allocates this process's tensors. Beyond a limit of bytes it throws the error of torch's own allocator.
class LimitedAllocator : public c10::Allocator {
 public:
  static inline std::atomic<std::int64_t> live = 0, peak = 0,
                                          limit = std::numeric_limits<std::int64_t>::max();

  c10::DataPtr allocate(std::size_t size) override {
    TORCH_CHECK(live + static_cast<std::int64_t>(size) <= limit,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size, " bytes.");
    void* memory = nullptr;
    if (size > 0) TORCH_CHECK(posix_memalign(&memory, 64, size) == 0, "no memory");
    live += static_cast<std::int64_t>(malloc_usable_size(memory));
    peak = std::max(peak.load(), live.load());
    return {memory, memory, &drop, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &drop; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
  static void install() { c10::SetAllocator(at::kCPU, new LimitedAllocator, /*priority=*/1); }
  static void limit_to(std::int64_t more) {
    limit = more < 0 ? std::numeric_limits<std::int64_t>::max() : live.load() + more;
  }

 private:
  static void drop(void* memory) {
    live -= static_cast<std::int64_t>(malloc_usable_size(memory));
    std::free(memory);
  }
};

constexpr std::int64_t kExamples = 2048;

at::Tensor loss_of_examples(SmallNet& net, const at::Tensor& x, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(net.forward(x), target);
}

// The additional bytes that a whole batch needs at its peak.
std::int64_t bytes_of_whole_batch() {
  SmallNet net;
  const at::Tensor x = torch::randn({kExamples, 12}), target = torch::randint(5, {kExamples}, at::kLong);
  const std::int64_t before = LimitedAllocator::live;
  LimitedAllocator::peak = before;
  loss_of_examples(net, x, target).backward();
  return LimitedAllocator::peak - before;
}

struct Outcome {
  std::string model;
  at::Tensor weights;
  std::int64_t microbatch = 0, retries = 0;
};

// Makes three steps, with BatchNorm and dropout. `more`: rank 1's additional bytes; -1: no limit.
Outcome train_in_parts(Job& job, std::int64_t microbatch, std::int64_t more, bool random = true) {
  torch::manual_seed(11);
  auto net = std::make_shared<SmallNet>();
  if (!random) {
    net->norm->eval();
    net->dropout->eval();
  }
  DistributedDataParallel model(net, job);
  FusedSGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  OomSafeStep oom_safe_step(model, job, {.microbatch = microbatch});
  torch::manual_seed(20 + static_cast<std::uint64_t>(job.rank()));
  if (job.rank() == 1) LimitedAllocator::limit_to(more);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = torch::randn({kExamples, 12}), target = torch::randint(5, {kExamples}, at::kLong);
    const at::Tensor loss = oom_safe_step(kExamples, [&](std::int64_t begin, std::int64_t count) {
      return loss_of_examples(*net, x.narrow(0, begin, count), target.narrow(0, begin, count));
    });
    require(!loss.requires_grad() && loss.item<double>() > 0.5 && loss.item<double>() < 5, "a loss");
    optimizer.step();
  }
  LimitedAllocator::limit_to(-1);
  return {bytes_of(*net), net->linear2->weight.detach().clone(), oom_safe_step.microbatch(),
          oom_safe_step.retries()};
}

TEST(OomSafeStep, RetriesInHalvesAsIfItHadStartedWithThem) {
  spawn(
      [](Job& job) {
        torch::set_num_threads(1);
        LimitedAllocator::install();
        const std::int64_t bytes = bytes_of_whole_batch();
        const Outcome halves = train_in_parts(job, kExamples / 2, -1);
        require_equal(halves.retries, std::int64_t{0}, "retries without a limit");
        const Outcome short_of_memory = train_in_parts(job, 0, bytes * 7 / 10);
        require_equal(short_of_memory.retries, std::int64_t{1}, "retries");
        require_equal(short_of_memory.microbatch, kExamples / 2, "a microbatch");
        require(short_of_memory.model == halves.model, "the same model, bit for bit");

        // Without BatchNorm and dropout, microbatches give the same as ordinary training with whole batches.
        const Outcome parts = train_in_parts(job, 300, -1, /*random=*/false);
        torch::manual_seed(11);
        auto net = std::make_shared<SmallNet>();
        net->norm->eval();
        net->dropout->eval();
        DistributedDataParallel model(net, job);
        FusedSGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
        torch::manual_seed(20 + static_cast<std::uint64_t>(job.rank()));
        for (int step = 0; step < 3; ++step) {
          const at::Tensor x = torch::randn({kExamples, 12}),
                           target = torch::randint(5, {kExamples}, at::kLong);
          model.zero_grad();
          torch::nn::functional::cross_entropy(model(x), target).backward();
          optimizer.step();
        }
        require(parts.weights.allclose(net->linear2->weight, 1e-5, 1e-5), "as without parts");
      },
      2);
}

TEST(OomSafeStep, ThrowsOnAllRanksIfOneExampleDoesNotFit) {
  spawn(
      [](Job& job) {
        LimitedAllocator::install();
        torch::nn::Linear linear(2, 2);
        OomSafeStep oom_safe_step(linear, job);
        const auto text_of = [&](const auto& loss) {
          try {
            oom_safe_step(4, loss);
          } catch (const std::runtime_error& error) {
            return std::string(error.what());
          }
          return std::string("none");
        };
        const std::string said = text_of([&](std::int64_t, std::int64_t count) -> at::Tensor {
          if (job.rank() == 0) throw std::bad_alloc();
          return linear(torch::ones({count, 2})).sum();
        });
        require(said.starts_with("OomSafeStep: one example does not fit into the memory of rank 0"), said);
        require_equal(oom_safe_step.retries(), std::int64_t{2}, "4, 2 and 1 were tried");
        require_equal(
            text_of([](std::int64_t, std::int64_t) -> at::Tensor { throw std::runtime_error("else"); }),
            std::string("else"), "an error that is not a lack of memory");
      },
      2);
}

TEST(OutOfMemory, IsRecognisedInTheErrorsOfAllLibraries) {
  for (const char* text :
       {"CUDA out of memory. Tried to allocate 20.00 MiB", "CUDA error: out of memory\nCompile with ...",
        "CUDA driver error: out of memory", "CUDA ran out of memory outside PyTorch's allocator.",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED",
        "NCCL error: unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
        "Cuda failure 'out of memory'",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"})
    EXPECT_TRUE(is_out_of_memory(std::runtime_error(text))) << text;
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  for (const char* text : {"CUDA error: an illegal memory access was encountered", "Cuda failure 700",
                           "the list of words is out of memory lane"})
    EXPECT_FALSE(is_out_of_memory(std::runtime_error(text))) << text;
}

// The error of a step that fails.
std::string refusal_of(OomSafeStep& oom_safe_step, std::int64_t size, const OomSafeStep::Loss& loss) {
  try {
    oom_safe_step(size, loss);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(OomSafeStep, AllRanksFailIfOneLacksMemoryForTheCopyOfBuffers) {
  spawn(
      [](Job& job) {
        LimitedAllocator::install();
        torch::nn::Linear linear(2, 2);
        linear->register_buffer("table", torch::ones({1 << 20}));
        OomSafeStep oom_safe_step(linear, job);
        int calls = 0;
        const auto loss = [&](std::int64_t, std::int64_t count) {
          ++calls;
          return linear(torch::ones({count, 2})).mean();
        };
        if (job.rank() == 1) LimitedAllocator::limit_to(1 << 20);
        const std::string said = refusal_of(oom_safe_step, 4, loss);
        LimitedAllocator::limit_to(-1);
        require(said.starts_with("OomSafeStep: one example does not fit into the memory of rank 1"), said);
        require(calls == 0 || job.rank() == 0, "rank 1 has computed nothing");
        require(!linear->weight.grad().defined(), "no gradient is left");
        require(oom_safe_step(4, loss).defined(), "it works again with enough memory");
      },
      2);
}

struct SmallAndLarge : torch::nn::Module {
  torch::nn::Linear small{nullptr};
  at::Tensor large;
  SmallAndLarge() {
    small = register_module("small", torch::nn::Linear(2, 2));
    large = register_parameter("large", torch::ones({1 << 20}));
  }
};

// Rank 1 has no gradient of the large part, and no memory for the one that the reduction would add.
TEST(OomSafeStep, AllRanksFailIfOneLacksMemoryForTheReduction) {
  spawn(
      [](Job& job) {
        LimitedAllocator::install();
        auto net = std::make_shared<SmallAndLarge>();
        DistributedDataParallel model(net, job);
        OomSafeStep oom_safe_step(model, job);
        const auto loss = [&](std::int64_t, std::int64_t count) {
          const at::Tensor mean = net->small(torch::ones({count, 2})).mean();
          return job.rank() == 0 ? mean + net->large.mean() : mean;
        };
        if (job.rank() == 1) LimitedAllocator::limit_to(1 << 20);
        const std::string said = refusal_of(oom_safe_step, 4, loss);
        LimitedAllocator::limit_to(-1);
        require(said.starts_with("OomSafeStep: one example does not fit into the memory of rank 1"), said);
        for (int step = 0; step < 3; ++step) {
          oom_safe_step(4, loss);
          require(net->large.grad().allclose(torch::full({1 << 20}, 0.5 / (1 << 20))), "the mean");
        }
        require(model.reduction_bytes() < 2 * (4 << 20), "settled buckets need less memory");
      },
      2);
}

TEST(FindBatchSize, IsTheLargestThatFitsOnAllRanks) {
  spawn(
      [](Job& job) {
        torch::set_num_threads(1);
        LimitedAllocator::install();
        const std::int64_t bytes = bytes_of_whole_batch();
        SmallNet net;
        const std::string model = bytes_of(net);
        torch::manual_seed(4);
        const at::Tensor drawn = torch::randn({3});
        torch::manual_seed(4);
        if (job.rank() == 1) LimitedAllocator::limit_to(bytes * 7 / 10);
        const auto trial = [&](std::int64_t size) {
          loss_of_examples(net, torch::randn({size, 12}), torch::zeros({size}, at::kLong)).backward();
        };
        const std::int64_t size =
            find_batch_size(net, job, trial, {.first = 2});  // BatchNorm needs at least two
        require(size > kExamples / 2 && size < kExamples, fmt::format("found {}", size));
        require_equal(find_batch_size(net, job, trial, {.first = 100, .most = 300}), std::int64_t{300},
                      "the largest batch size");
        try {
          find_batch_size(net, job, trial, {.first = size + 1});
          throw std::logic_error("more fits");
        } catch (const std::runtime_error& error) {
          require_equal(
              std::string(error.what()),
              fmt::format("find_batch_size: a batch of {} does not fit into the memory of rank 1", size + 1),
              "refusal");
        }
        require(bytes_of(net) == model && !net.linear1->weight.grad().defined(), "the model is unchanged");
        require(torch::randn({3}).equal(drawn), "random numbers are unchanged");
      },
      2);
}

TEST(GraphWatch, FindsAPlantedLeakAndReportsNothingInCleanPrograms) {
  spawn(
      [](Job& job) {
        torch::nn::Linear linear(3, 1);
        const auto run = [&](const std::function<void(const at::Tensor&)>& after) {
          GraphWatch watch(job);
          for (int step = 1; step <= 50 && watch.found().empty(); ++step) {
            at::Tensor loss = linear(torch::ones({2, 3}) * step).square().mean();
            loss.backward();
            after(loss);
            watch.step(loss, "loss");
          }
          return watch.found();
        };
        at::Tensor total = torch::zeros({}), last, hidden = torch::zeros({1});
        double sum = 0;
        std::vector<at::Tensor> history;
        require_equal(run([&](const at::Tensor& loss) { sum += loss.item<double>(); }), std::string(),
                      "item()");
        require_equal(run([&](const at::Tensor& loss) { total += loss.detach(); }), std::string(),
                      "detach()");
        require_equal(run([&](const at::Tensor& loss) { last = loss; }), std::string(), "only the last loss");
        require_equal(run([&](const at::Tensor& loss) { hidden = (hidden + loss).detach(); }), std::string(),
                      "a detached state");
        require_equal(run([&](const at::Tensor& loss) { history.push_back(loss.clone().detach()); }),
                      std::string(), "a history of numbers");
        require_equal(
            run([&](const at::Tensor& loss) { total = total + loss; }),
            std::string(
                "the graph of step 1, of 'loss', is still in memory 3 steps later: "
                "something keeps a tensor that was computed from the parameters, such as a sum of losses; "
                "keep its item() or detach() instead"),
            "a sum of losses");
      },
      1);
}

}  // namespace
}  // namespace muster
