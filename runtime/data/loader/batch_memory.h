// A pool of memory blocks for the batches of one loader. Any thread can use it.
//
// take() returns a tensor whose storage is a block of the pool. When the storage is freed, the block returns
// to the pool. Until then, the storage keeps this object alive. take() uses a block again only for a tensor
// of exactly the same size, and prefers a block that the calling thread has filled before: that block may
// still be in the cache of this thread's processor. If the unused blocks together are larger than the limit,
// the pool frees some of them. It begins with the size that has not been used for the longest time. So padded
// batches, which often have a new length, do not fill the pool.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace muster {

class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  // `idle_limit_bytes` is the most memory that blocks may have together if no tensor uses them.
  explicit BatchMemory(std::size_t idle_limit_bytes) : idle_limit_bytes_(idle_limit_bytes) {}
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  ~BatchMemory();
  at::Tensor take(at::IntArrayRef sizes, at::ScalarType type);

  std::size_t idle_bytes() const;

 private:
  struct Block {
    void* memory = nullptr;
    std::thread::id filler{};  // the thread that took it last
  };
  struct Idle {
    std::vector<Block> blocks;    // the one that was returned last is at the end
    std::uint64_t last_used = 0;  // `used_` when a block of this size was last taken or returned
  };
  static Block take_from(Idle& idle);
  void give_back(Block block, std::size_t size_bytes);
  void* oldest_block();

  const std::size_t idle_limit_bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Idle> idle_;  // by size in bytes; no entry is empty
  std::size_t idle_bytes_ = 0;
  std::uint64_t used_ = 0;  // counts blocks taken and returned
};

// While this object lives, batch_empty() takes memory from `memory` if it is called on the same thread. If
// `pinned` is true, it takes page-locked memory instead.
class [[nodiscard]] UseBatchMemory {
 public:
  UseBatchMemory(std::shared_ptr<BatchMemory> memory, bool pinned);
  UseBatchMemory(const UseBatchMemory&) = delete;
  UseBatchMemory& operator=(const UseBatchMemory&) = delete;
  ~UseBatchMemory();
};

}  // namespace muster
