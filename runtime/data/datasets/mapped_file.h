// A file mapped into memory. The kernel reads its pages when the program accesses them.
//
// The mapping is read-only and private, and the program is allowed to fork. No process is allowed to truncate
// the file while it is mapped: an access beyond the new end kills the program (SIGBUS).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/error.h"

namespace muster {

class MappedFile {
 public:
  static Expected<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;  // empty: there is no mapping
};

}  // namespace muster
