#include "common/base/byte_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace muster {

namespace {

std::size_t first_line_bytes(std::string_view lines) {
  const void* end = std::memchr(lines.data(), '\n', lines.size());
  return end == nullptr ? lines.size()
                        : static_cast<std::size_t>(static_cast<const char*>(end) - lines.data()) + 1;
}

}  // namespace

std::string& ByteQueue::block(std::size_t bytes) {
  if (blocks_.empty() || blocks_.back().size() + bytes > kBlockBytes) {
    std::string fresh;
    if (!spare_.empty()) {
      fresh.swap(spare_.back());
      spare_.pop_back();
    }
    fresh.reserve(std::max(bytes, kBlockBytes));
    blocks_.push_back(std::move(fresh));
  }
  return blocks_.back();
}

void ByteQueue::append(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    std::string& block = this->block(1);
    const std::string_view part = bytes.substr(0, kBlockBytes - block.size());
    block.append(part);
    bytes.remove_prefix(part.size());
  }
}

void ByteQueue::append_lines(std::string_view prefix, std::string_view lines) {
  while (!lines.empty()) {
    std::size_t line = first_line_bytes(lines);
    std::string& block = this->block(prefix.size() + line);
    const std::size_t before = block.size();
    // Copies as many lines as the block has room for. This must be fast, because there can be millions of
    // lines a second.
    block.resize_and_overwrite(block.capacity(), [&](char* data, std::size_t capacity) {
      char* to = data + before;
      do {
        to = std::copy(prefix.begin(), prefix.end(), to);
        to = std::copy_n(lines.begin(), line, to);
        lines.remove_prefix(line);
        if (lines.empty()) break;
        line = first_line_bytes(lines);
      } while (prefix.size() + line <= capacity - static_cast<std::size_t>(to - data));
      return static_cast<std::size_t>(to - data);
    });
    size_ += block.size() - before;
  }
}

std::string_view ByteQueue::front() const {
  if (blocks_.empty()) return {};
  return std::string_view(blocks_.front()).substr(consumed_);
}

std::uint64_t ByteQueue::count(char byte) const {
  std::ptrdiff_t sum = 0;
  for (const std::string& block : blocks_) sum += std::ranges::count(block, byte);
  if (!blocks_.empty())
    sum -= std::ranges::count(std::string_view(blocks_.front()).substr(0, consumed_), byte);
  return static_cast<std::uint64_t>(sum);
}

void ByteQueue::consume(std::size_t bytes) {
  CHECK(bytes <= front().size(), "{} of {}", bytes, front().size());
  consumed_ += bytes;
  size_ -= bytes;
  if (blocks_.empty() || consumed_ < blocks_.front().size()) return;
  if (spare_.size() < kMaxSpareBlocks) {
    spare_.push_back(std::move(blocks_.front()));
    spare_.back().clear();
  }
  blocks_.pop_front();
  consumed_ = 0;
}

}  // namespace muster
