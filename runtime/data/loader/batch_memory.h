// A pool of the memory blocks that hold one loader's batches. Any thread can use it.
//
// take() returns a tensor whose storage is a block of the pool. When the storage is freed, the block returns
// to the pool; until then it keeps this object alive. take() reuses only blocks of exactly the right size.
// When idle blocks exceed the limit, the pool frees those whose size was used longest ago. So padded batches
// with ever new lengths do not fill it.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace muster {

class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  // `idle_limit_bytes` limits the total size of the blocks that no tensor uses.
  explicit BatchMemory(std::size_t idle_limit_bytes) : idle_limit_bytes_(idle_limit_bytes) {}
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  ~BatchMemory();
  at::Tensor take(at::IntArrayRef sizes, at::ScalarType type);

  std::size_t idle_bytes() const;

 private:
  struct Idle {
    std::vector<void*> blocks;
    std::uint64_t last_used = 0;  // `used_` when a block of this size was last taken or returned
  };
  void give_back(void* block, std::size_t size_bytes);
  void* oldest_block();

  const std::size_t idle_limit_bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Idle> idle_;  // by size in bytes; no entry is empty
  std::size_t idle_bytes_ = 0;
  std::uint64_t used_ = 0;  // counts blocks taken and returned
};

// While this object lives, batch_empty() in this thread takes blocks from `memory`. If `pinned`, it takes
// page-locked memory instead.
class [[nodiscard]] UseBatchMemory {
 public:
  UseBatchMemory(std::shared_ptr<BatchMemory> memory, bool pinned);
  UseBatchMemory(const UseBatchMemory&) = delete;
  UseBatchMemory& operator=(const UseBatchMemory&) = delete;
  ~UseBatchMemory();
};

}  // namespace muster
