// A file's bytes in memory, read by the kernel as they are looked at.
//
// Read-only and private: other processes see nothing of it, and a program that has one may still fork. The
// file must not be cut while it is mapped: a look beyond its new end ends the program (SIGBUS).
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
  std::span<const std::byte> bytes_;  // no mapping if it is empty
};

}  // namespace muster
