// Bytes that wait to be written: added behind, taken away in front, in blocks that are used again.
//
// Nothing that waits is ever moved, so that much of it costs no more than little. Plain values; one thread.
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
  // Adds these whole lines, each with `prefix` before it.
  void append_lines(std::string_view prefix, std::string_view lines);
  // What is to be written first; empty only if nothing is.
  std::string_view front() const;
  // Takes away so much of front().
  void consume(std::size_t bytes);
  void clear() { *this = {}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // How often this byte is in it.
  std::uint64_t count(char byte) const;

 private:
  // One that has room for so much.
  std::string& block(std::size_t bytes);

  std::deque<std::string> blocks_;  // none of them empty
  std::vector<std::string> spare_;  // memory of some that were consumed
  std::size_t consumed_ = 0;        // of the first
  std::size_t size_ = 0;
};

}  // namespace muster
