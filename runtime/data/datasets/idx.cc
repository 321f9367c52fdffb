#include "runtime/data/datasets/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "runtime/data/datasets/compressed_file.h"
#include "runtime/data/datasets/file_kind.h"

namespace muster {

namespace {

constexpr std::uint64_t kLimitBytes = std::uint64_t{4} << 30;
constexpr std::uint32_t kReadBytes = 1 << 20;

// Reads as many bytes as `to` has. Returns kCorrupt if the file ends too early, or if its compressed data is
// damaged.
Status read_exactly(CompressedFile& file, std::span<std::uint8_t> to, const std::string& path) {
  const auto got = file.read(to.data(), to.size());
  if (!got) return std::unexpected(got.error());
  if (*got == to.size()) return {};
  return failure(ErrorCode::kCorrupt, "cannot read {}: it is truncated, {} bytes are missing", path,
                 to.size() - *got);
}

Expected<std::uint64_t> byte_count(const IdxArray& array, const std::string& path) {
  // The size of the array is 0 if one of its extents is 0. The product of the other extents must not overflow
  // even then, because callers multiply them.
  std::uint64_t count = element_bytes(array.type);
  for (const std::uint32_t extent : array.shape) {
    if (extent != 0 && count > kLimitBytes / extent) {
      return failure(ErrorCode::kCorrupt, "cannot read {}: larger than {} bytes", path, kLimitBytes);
    }
    count *= std::max(extent, 1U);
  }
  return std::ranges::find(array.shape, 0U) == array.shape.end() ? count : 0;
}

// Converts the elements from big-endian to little-endian.
void turn_elements(IdxArray& array) {
  const std::size_t size = element_bytes(array.type);
  for (std::size_t at = 0; size > 1 && at < array.bytes.size(); at += size)
    std::ranges::reverse(std::span(array.bytes).subspan(at, size));
}

}  // namespace

std::size_t element_bytes(IdxType type) {
  switch (type) {
    case IdxType::kUnsignedByte:
    case IdxType::kSignedByte: return 1;
    case IdxType::kShort: return 2;
    case IdxType::kInt:
    case IdxType::kFloat: return 4;
    case IdxType::kDouble: return 8;
  }
  return 0;
}

Expected<IdxArray> read_idx_array(const std::string& path) {
  if (Status usable = check_is_file_of(path, {FileKind::kGzip, FileKind::kZstd}); !usable)
    return std::unexpected(usable.error());
  auto file = CompressedFile::open(path);
  if (!file) return std::unexpected(file.error());
  std::array<std::uint8_t, 4> magic{};
  if (Status read = read_exactly(*file, magic, path); !read) return std::unexpected(read.error());
  if (magic[0] != 0 || magic[1] != 0 || element_bytes(static_cast<IdxType>(magic[2])) == 0 || magic[3] == 0) {
    return failure(ErrorCode::kCorrupt,
                   "cannot read {}: not an IDX file, it begins with {:02x}{:02x}{:02x}{:02x}", path, magic[0],
                   magic[1], magic[2], magic[3]);
  }
  IdxArray array{.type = static_cast<IdxType>(magic[2]), .shape = {}, .bytes = {}};
  for (int dimension = 0; dimension < magic[3]; ++dimension) {
    std::array<std::uint8_t, 4> extent{};
    if (Status read = read_exactly(*file, extent, path); !read) return std::unexpected(read.error());
    array.shape.push_back(std::uint32_t{extent[0]} << 24 | std::uint32_t{extent[1]} << 16 |
                          std::uint32_t{extent[2]} << 8 | extent[3]);
  }
  const auto count = byte_count(array, path);
  if (!count) return std::unexpected(count.error());
  // A header can promise more bytes than the file has. So memory is allocated only for bytes that have been
  // read.
  while (array.bytes.size() < *count) {
    const std::size_t had = array.bytes.size();
    array.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(*count, had + kReadBytes)));
    if (Status read = read_exactly(*file, std::span(array.bytes).subspan(had), path); !read) {
      return std::unexpected(read.error());
    }
  }
  // Tries to read one more byte, at the end of the file. This makes the reader compare the checksum of
  // compressed data.
  std::uint8_t extra = 0;
  const auto got = file->read(&extra, 1);
  if (!got) return std::unexpected(got.error());
  if (*got > 0)
    return failure(ErrorCode::kCorrupt, "cannot read {}: it is longer than its header says", path);
  if (std::endian::native == std::endian::little) turn_elements(array);
  return array;
}

}  // namespace muster
