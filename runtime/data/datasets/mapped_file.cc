#include "runtime/data/datasets/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/file.h"

namespace muster {

Expected<MappedFile> MappedFile::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure("cannot read " + path, errno);
  if (!S_ISREG(status.st_mode))
    return failure(ErrorCode::kInvalidArgument, "cannot use {}: it is not a regular file", path);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile({});
  void* begin = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (begin == MAP_FAILED) return system_failure("cannot map " + path, errno);
  return MappedFile({static_cast<const std::byte*>(begin), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // NOLINT
}

}  // namespace muster
