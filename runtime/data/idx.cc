#include "runtime/data/idx.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <zlib.h>

#include "runtime/data/file_kind.h"

namespace muster {

namespace {

constexpr std::uint64_t kLimitBytes = std::uint64_t{4} << 30;
constexpr std::uint8_t kUnsignedByte = 8;
constexpr std::uint32_t kReadBytes = 1 << 20;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

// Fills `to`; kCorrupt when the file ends before, or its compressed form is damaged.
Status read_exactly(gzFile file, std::span<std::uint8_t> to, const std::string& path) {
  while (!to.empty()) {
    const auto wanted = static_cast<unsigned>(std::min<std::size_t>(to.size(), kReadBytes));
    const int got = gzread(file, to.data(), wanted);
    int code = Z_OK;
    const char* text = gzerror(file, &code);
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_BUF_ERROR)) {
      return failure(ErrorCode::kCorrupt, "cannot read {}: {}", path,
                     code == Z_ERRNO ? "input/output error" : text);
    }
    if (got == 0)
      return failure(ErrorCode::kCorrupt, "cannot read {}: it is truncated, {} bytes are missing", path,
                     to.size());
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Expected<std::uint64_t> element_count(const std::vector<std::uint32_t>& shape, const std::string& path) {
  // Those who use the shape multiply its extents too, also where one of them is 0.
  std::uint64_t count = 1;
  for (const std::uint32_t extent : shape) {
    if (extent != 0 && count > kLimitBytes / extent) {
      return failure(ErrorCode::kCorrupt, "cannot read {}: larger than {} bytes", path, kLimitBytes);
    }
    count *= std::max(extent, 1U);
  }
  return std::ranges::find(shape, 0U) == shape.end() ? count : 0;
}

}  // namespace

Expected<IdxArray> read_idx(const std::string& path) {
  if (Status usable = check_is_file_of(path, {FileKind::kGzip}); !usable)
    return std::unexpected(usable.error());
  errno = 0;
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) return system_failure("cannot open " + path, errno != 0 ? errno : ENOMEM);
  std::array<std::uint8_t, 4> magic{};
  if (Status read = read_exactly(file.get(), magic, path); !read) return std::unexpected(read.error());
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte || magic[3] == 0) {
    return failure(ErrorCode::kCorrupt,
                   "cannot read {}: not an IDX file of bytes, it begins with {:02x}{:02x}{:02x}{:02x}", path,
                   magic[0], magic[1], magic[2], magic[3]);
  }
  IdxArray array;
  for (int dimension = 0; dimension < magic[3]; ++dimension) {
    std::array<std::uint8_t, 4> extent{};
    if (Status read = read_exactly(file.get(), extent, path); !read) return std::unexpected(read.error());
    array.shape.push_back(std::uint32_t{extent[0]} << 24 | std::uint32_t{extent[1]} << 16 |
                          std::uint32_t{extent[2]} << 8 | extent[3]);
  }
  const auto count = element_count(array.shape, path);
  if (!count) return std::unexpected(count.error());
  // A header may promise more than the file holds: room is made as data comes.
  while (array.bytes.size() < *count) {
    const std::size_t had = array.bytes.size();
    array.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(*count, had + kReadBytes)));
    if (Status read = read_exactly(file.get(), std::span(array.bytes).subspan(had), path); !read) {
      return std::unexpected(read.error());
    }
  }
  std::uint8_t extra = 0;
  if (read_exactly(file.get(), std::span(&extra, 1), path)) {
    return failure(ErrorCode::kCorrupt, "cannot read {}: it is longer than its header says", path);
  }
  // The read past the end has also made zlib compare its checksum.
  int code = Z_OK;
  const char* text = gzerror(file.get(), &code);
  if (code != Z_OK) return failure(ErrorCode::kCorrupt, "cannot read {}: {}", path, text);
  return array;
}

}  // namespace muster
