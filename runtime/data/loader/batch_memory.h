// The blocks that the batches of one loader are made of. Safe from any thread.
//
// A block is given out as a tensor's storage and comes back when that storage dies; it keeps this object
// alive until then. Blocks are kept by their exact size, and those of the size that was wanted longest ago
// are the first to go: padded batches of ever new lengths do not fill it with what nobody takes again.
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
  // Keeps at most so many bytes that are not in use.
  explicit BatchMemory(std::size_t idle_limit_bytes) : idle_limit_bytes_(idle_limit_bytes) {}
  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;
  ~BatchMemory();
  at::Tensor take(at::IntArrayRef sizes, at::ScalarType type);

  std::size_t idle_bytes() const;

 private:
  struct Idle {
    std::vector<void*> blocks;
    std::uint64_t last_used = 0;  // when one was taken or came back, in such events
  };
  void give_back(void* block, std::size_t size_bytes);
  void* oldest_block();

  const std::size_t idle_limit_bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Idle> idle_;  // by size; none of them is empty
  std::size_t idle_bytes_ = 0;
  std::uint64_t used_ = 0;
};

// While it lives, batch_empty() of this thread takes from `memory`, or page-locked memory if `pinned`.
class [[nodiscard]] UseBatchMemory {
 public:
  UseBatchMemory(std::shared_ptr<BatchMemory> memory, bool pinned);
  UseBatchMemory(const UseBatchMemory&) = delete;
  UseBatchMemory& operator=(const UseBatchMemory&) = delete;
  ~UseBatchMemory();
};

}  // namespace muster
