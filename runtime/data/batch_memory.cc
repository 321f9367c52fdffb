#include "runtime/data/batch_memory.h"

#include <cstdlib>
#include <muster/batch_memory.h>
#include <new>
#include <torch/torch.h>
#include <utility>

namespace muster {

namespace {

constexpr std::size_t kAlignment = 64;

struct Source {
  std::shared_ptr<BatchMemory> memory;
  bool pinned = false;
};
thread_local Source source;

}  // namespace

BatchMemory::~BatchMemory() {
  for (const auto& [size, blocks] : idle_) {
    for (void* block : blocks) std::free(block);
  }
}

at::Tensor BatchMemory::take(at::IntArrayRef sizes, at::ScalarType type) {
  const auto wanted = static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  const std::size_t size_bytes = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  if (size_bytes == 0) return at::empty(sizes, type);
  void* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& idle = idle_[size_bytes];
    if (!idle.empty()) {
      block = idle.back();
      idle.pop_back();
      idle_bytes_ -= size_bytes;
    }
  }
  if (block == nullptr) block = std::aligned_alloc(kAlignment, size_bytes);
  if (block == nullptr) throw std::bad_alloc();
  return at::from_blob(
      block, sizes,
      [self = shared_from_this(), size_bytes](void* used) { self->give_back(used, size_bytes); }, type);
}

void BatchMemory::give_back(void* block, std::size_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (idle_bytes_ + size_bytes <= idle_limit_bytes_) {
      idle_[size_bytes].push_back(block);
      idle_bytes_ += size_bytes;
      return;
    }
  }
  std::free(block);
}

UseBatchMemory::UseBatchMemory(std::shared_ptr<BatchMemory> memory, bool pinned) {
  source = {std::move(memory), pinned};
}

UseBatchMemory::~UseBatchMemory() {
  source = {};
}

at::Tensor batch_empty(at::IntArrayRef sizes, at::ScalarType type) {
  // torch keeps page-locked memory for the next tensor by itself.
  if (source.pinned) return at::empty(sizes, at::TensorOptions(type).pinned_memory(true));
  return source.memory ? source.memory->take(sizes, type) : at::empty(sizes, type);
}

}  // namespace muster
