#include "runtime/data/loader/batch_memory.h"

#include <algorithm>
#include <cstdlib>
#include <muster/data/batch_memory.h>
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
  for (const auto& [size, idle] : idle_) {
    for (const Block& block : idle.blocks) std::free(block.memory);
  }
}

at::Tensor BatchMemory::take(at::IntArrayRef sizes, at::ScalarType type) {
  const auto wanted = static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  const std::size_t size_bytes = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  if (size_bytes == 0) return at::empty(sizes, type);
  Block block;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = idle_.find(size_bytes); found != idle_.end()) {
      Idle& idle = found->second;
      block = take_from(idle);
      idle.last_used = ++used_;
      idle_bytes_ -= size_bytes;
      if (idle.blocks.empty()) idle_.erase(found);
    }
  }
  if (block.memory == nullptr) block.memory = std::aligned_alloc(kAlignment, size_bytes);
  if (block.memory == nullptr) throw std::bad_alloc();
  block.filler = std::this_thread::get_id();
  return at::from_blob(
      block.memory, sizes,
      [self = shared_from_this(), block, size_bytes](void*) { self->give_back(block, size_bytes); }, type);
}

// Takes the block that this thread has filled last. If there is none, takes the block that has been idle for
// the longest time: other threads need it least.
BatchMemory::Block BatchMemory::take_from(Idle& idle) {
  auto& blocks = idle.blocks;
  const auto last =
      std::ranges::find(blocks.rbegin(), blocks.rend(), std::this_thread::get_id(), &Block::filler);
  const auto chosen = last == blocks.rend() ? blocks.begin() : std::prev(last.base());
  const Block block = *chosen;
  blocks.erase(chosen);
  return block;
}

void BatchMemory::give_back(Block block, std::size_t size_bytes) {
  if (size_bytes > idle_limit_bytes_) return std::free(block.memory);
  std::vector<void*> too_many;
  {
    const std::lock_guard lock(mutex_);
    Idle& idle = idle_[size_bytes];
    idle.blocks.push_back(block);
    idle.last_used = ++used_;
    idle_bytes_ += size_bytes;
    while (idle_bytes_ > idle_limit_bytes_) too_many.push_back(oldest_block());
  }
  for (void* each : too_many) std::free(each);
}

// Removes a block from the pool and returns it. The block has the size that no batch has used for the longest
// time. This function looks at all sizes, because there are only few.
void* BatchMemory::oldest_block() {
  const auto oldest = std::ranges::min_element(
      idle_, {}, [](const auto& size_and_idle) { return size_and_idle.second.last_used; });
  void* block = oldest->second.blocks.front().memory;
  oldest->second.blocks.erase(oldest->second.blocks.begin());
  idle_bytes_ -= oldest->first;
  if (oldest->second.blocks.empty()) idle_.erase(oldest);
  return block;
}

std::size_t BatchMemory::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

UseBatchMemory::UseBatchMemory(std::shared_ptr<BatchMemory> memory, bool pinned) {
  source = {std::move(memory), pinned};
}

UseBatchMemory::~UseBatchMemory() {
  source = {};
}

at::Tensor batch_empty(at::IntArrayRef sizes, at::ScalarType type) {
  // Page-locked memory needs no pool: torch keeps freed page-locked blocks for later tensors.
  if (source.pinned) return at::empty(sizes, at::TensorOptions(type).pinned_memory(true));
  return source.memory ? source.memory->take(sizes, type) : at::empty(sizes, type);
}

}  // namespace muster
