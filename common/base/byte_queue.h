// A queue of bytes that wait to be written. Bytes are appended at the back and consumed at the front. Memory
// blocks are reused.
//
// Bytes in the queue are never moved, so appending and consuming do not get slower when the queue is long.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class ByteQueue {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{128} << 10;
  static constexpr std::size_t kMaxSpareBlocks = 32;

  void append(std::string_view bytes);
  // Appends whole lines, and puts `prefix` before each of them.
  void append_lines(std::string_view prefix, std::string_view lines);
  // Returns the bytes that have to be written next. The result is empty only if the queue is empty.
  std::string_view front() const;
  // Removes `bytes` bytes from the beginning of front().
  void consume(std::size_t bytes);
  void clear() { *this = {}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // How often `byte` occurs in the queue.
  std::uint64_t count(char byte) const;

 private:
  // Returns the last block, or a new one, so that there is room to append `bytes` bytes.
  std::string& block(std::size_t bytes);

  std::deque<std::string> blocks_;  // no block is empty
  std::vector<std::string> spare_;  // memory of consumed blocks, to be used again
  std::size_t consumed_ = 0;        // how many bytes of the first block are consumed
  std::size_t size_ = 0;
};

}  // namespace muster
