#include <algorithm>
#include <c10/core/CachingDeviceAllocator.h>
#include <chrono>
#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/collectives.h>
#include <muster/train/out_of_memory.h>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <torch/torch.h>

#include "common/base/clock.h"
#include "common/base/log.h"

namespace muster {
namespace {

// The texts of out-of-memory errors: from torch's allocators, from CUDA (for a context, a graph or printf's
// buffer), and from libraries that torch calls.
constexpr std::string_view kOutOfMemory[] = {
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUDA ran out of memory",          // cuDNN, since torch 2.15
    "Cuda failure 2 'out of memory'",  // NCCL, with the error's number
    "Cuda failure 'out of memory'",    // older NCCL, without it
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUFFT_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUSPARSE_STATUS_ALLOC_FAILED",
};

// Keeps a copy of the state that a step changes. put_back() restores this state, so that the step can be
// repeated. Gradients are not copied: put_back() resets the module's gradients.
class Before {
 public:
  Before(torch::nn::Module& module, c10::Device device) : module_(module) {
    generators_.push_back(at::globalContext().defaultGenerator(at::kCPU));
    if (device.is_cuda()) generators_.push_back(at::globalContext().defaultGenerator(device));
    for (const at::Generator& each : generators_) states_.push_back(each.get_state());
    for (const at::Tensor& each : module.buffers()) buffers_.push_back(each.detach().clone());
  }
  void put_back() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < generators_.size(); ++i) generators_[i].set_state(states_[i]);
    const auto buffers = module_.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].detach().copy_(buffers_[i]);
    drop_grads(module_);
  }
  // Resets each gradient separately. The module's zero_grad() would throw if a gradient is a view of a
  // bucket.
  static void drop_grads(const torch::nn::Module& module) {
    for (const at::Tensor& each : module.parameters()) each.mutable_grad().reset();
  }

 private:
  torch::nn::Module& module_;
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_, buffers_;
};

// Call this function when a step has run out of memory and its tensors have been freed. If more than a
// quarter of the allocator's memory is unused, returns the unused memory to the GPU. The allocator itself has
// returned unused memory when memory ran out. But at that time, the failed step still held many blocks.
void give_back_fragments(c10::Device device) {
  if (!device.is_cuda()) return;
  auto* const allocator = c10::getDeviceAllocator(at::kCUDA);
  const auto stats = allocator->getDeviceStats(device.index());
  const auto total = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const std::int64_t reserved = stats.reserved_bytes[total].current,
                     used = stats.allocated_bytes[total].current;
  if (reserved - used > reserved / 4) allocator->emptyCache();
}

// Runs `body`. If memory runs out in it, returns the first line of the error message. Otherwise returns "".
// Throws all other exceptions again.
template <class Body>
std::string lack_of_memory_in(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    const std::string text = error.what();
    return "out of memory: " + text.substr(0, text.find('\n'));
  }
  return {};
}

struct Agreed {
  int rank;           // the rank in the job that ran out of memory, the last if there are several; -1: none
  std::int64_t size;  // the largest size of all ranks
};

Agreed agree(const Group& group, bool lacks_memory, std::int64_t size) {
  const at::Tensor said =
      torch::tensor({lacks_memory ? static_cast<std::int64_t>(group.rank()) : -1, size}).to(group.device());
  all_reduce(group, said, ReduceOp::kMax);
  const auto place = said[0].item<std::int64_t>();
  return {place < 0 ? -1 : group.ranks()[static_cast<std::size_t>(place)], said[1].item<std::int64_t>()};
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return true;
  const std::string_view text = error.what();
  return std::ranges::any_of(kOutOfMemory, [text](std::string_view said) { return text.contains(said); });
}

OomSafeStep::OomSafeStep(torch::nn::Module& module, Group group, const OomSafeStepOptions& options)
    : module_(module), group_(std::move(group)), microbatch_(options.microbatch) {
  if (microbatch_ < 0)
    throw std::invalid_argument(
        fmt::format("OomSafeStep: microbatch is {}; it must be at least 0", microbatch_));
}

at::Tensor OomSafeStep::attempt(std::int64_t size, const Loss& loss) const {
  const std::int64_t most = microbatch_ == 0 ? size : microbatch_;
  const std::int64_t parts = (size + most - 1) / most;  // parts of nearly equal size
  at::Tensor sum;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = size * i / parts, count = size * (i + 1) / parts - begin;
    const at::Tensor part = loss(begin, count) * (static_cast<double>(count) / static_cast<double>(size));
    part.backward();
    sum = sum.defined() ? sum + part.detach() : part.detach();
  }
  // The reduction after this attempt needs memory. If memory ran out in the reduction, the ranks could no
  // longer repeat the step. So this code allocates as much memory now, and frees it again.
  if (reduction_bytes_) at::empty({reduction_bytes_()}, at::dtype(at::kByte).device(group_.device()));
  return sum;
}

at::Tensor OomSafeStep::operator()(std::int64_t size, const Loss& loss) {
  if (size < 1)
    throw std::invalid_argument(
        fmt::format("OomSafeStep: a batch has {} examples; it must have at least 1", size));
  if (begin_) begin_();
  Before::drop_grads(module_);
  std::optional<Before> before;
  for (;;) {
    const TimePoint began = Clock::now();
    at::Tensor sum;
    const std::string lack = lack_of_memory_in([&] {
      if (!before) before.emplace(module_, group_.device());
      sum = attempt(size, loss);
    });
    const Agreed agreed = agree(group_, !lack.empty(), size);
    if (agreed.rank < 0) {
      if (reduce_) reduce_();
      ++steps_;
      return sum;
    }
    sum.reset();
    if (before) before->put_back();
    give_back_fragments(group_.device());
    const std::int64_t tried = microbatch_ == 0 ? agreed.size : std::min(microbatch_, agreed.size);
    if (tried == 1)
      throw std::runtime_error(
          fmt::format("OomSafeStep: one example does not fit into the memory of rank {}{}", agreed.rank,
                      lack.empty() ? "" : " (" + lack + ")"));
    microbatch_ = (tried + 1) / 2;
    ++retries_;
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    lost_seconds_ += seconds;
    if (group_.rank() == 0)
      log::warning(
          "rank {} ran out of memory in step {} of this start with microbatches of {}: "
          "all ranks repeat it with {}, after {:.3f} s",
          agreed.rank, steps_, tried, microbatch_, seconds);
  }
}

void OomSafeStep::save(SavedState& to) const {
  to.shared_value("microbatch", write_number(microbatch_));
}
void OomSafeStep::load(LoadedState& from) {
  microbatch_ = from.number<std::int64_t>("microbatch");
}

std::int64_t detail::find_batch_size(torch::nn::Module& module, const Group& group,
                                     const std::function<void(std::int64_t)>& trial,
                                     const FindBatchSizeOptions& options) {
  if (options.first < 1 || options.most < options.first)
    throw std::invalid_argument(fmt::format(
        "find_batch_size: first is {} and most is {}; first must be at least 1, and most at least first",
        options.first, options.most));
  std::optional<Before> before;
  int failed = -1;
  const auto fits = [&](std::int64_t size) {
    const bool lacks = !lack_of_memory_in([&] {
                          if (!before) before.emplace(module, group.device());
                          trial(size);
                        }).empty();
    if (before) before->put_back();
    give_back_fragments(group.device());
    const int rank = agree(group, lacks, size).rank;
    if (rank >= 0) failed = rank;
    return rank < 0;
  };
  std::int64_t fitting = 0, next = options.first;
  while (fits(next)) {
    fitting = next;
    if (next == options.most) return fitting;
    next = std::min(2 * next, options.most);
  }
  if (fitting == 0)
    throw std::runtime_error(fmt::format(
        "find_batch_size: a batch of {} does not fit into the memory of rank {}", options.first, failed));
  for (std::int64_t too_large = next; too_large - fitting > 1;) {
    const std::int64_t middle = fitting + (too_large - fitting) / 2;
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

}  // namespace muster
