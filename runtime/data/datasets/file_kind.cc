#include "runtime/data/datasets/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "runtime/data/datasets/number_at.h"
#include "runtime/data/datasets/stream_folder.h"

namespace muster {

namespace {

using namespace std::string_view_literals;

constexpr std::size_t kLooked = 4096;

struct Magic {
  std::string_view bytes;
  FileKind kind;
};
constexpr Magic kMagics[] = {
    {"\x93NUMPY"sv, FileKind::kNpy},
    {"\x1f\x8b\x08"sv, FileKind::kGzip},
    {"\xfd\x37zXZ\0"sv, FileKind::kXz},
    {"PK\x03\x04"sv, FileKind::kZip},
    {"PK\x05\x06"sv, FileKind::kZip},
    {"PAR1\x15"sv, FileKind::kParquet},
    {"ARROW1\0\0"sv, FileKind::kArrow},
    {"\x89HDF\r\n\x1a\n"sv, FileKind::kHdf5},
    {"SQLite format 3\0"sv, FileKind::kSqlite},
    {"MMIDIDX\0\0"sv, FileKind::kMegatronIndex},
    // Before torch 1.6, torch.save() wrote a pickle that begins with this magic number.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv, FileKind::kPickle},
};

// A bzip2 file begins with "BZh", a digit, and the magic number of a block.
bool is_bzip2(std::string_view text) {
  return text.starts_with("BZh") && text.size() >= 10 && text.substr(4, 6) == "\x31\x41\x59\x26\x53\x59"sv;
}

// Returns whether a file is compressed by zstd. It can begin with skippable frames, which have no compressed
// data: pzstd writes such frames. Each skippable frame says how large it is.
bool is_zstd(std::string_view text, std::uint64_t file_size) {
  while (!text.starts_with("\x28\xb5\x2f\xfd")) {
    if (text.size() < 8 || (text[0] & 0xf0) != 0x50 || text.substr(1, 3) != "\x2a\x4d\x18"sv) return false;
    const std::uint64_t skipped = 8 + std::uint64_t{number_at<std::uint32_t>(text, 4)};
    if (skipped >= file_size) return false;
    if (skipped + 4 > text.size()) return true;
    text.remove_prefix(skipped);
    file_size -= skipped;
  }
  return true;
}

// A pickle of protocol 4 or 5 begins with a frame, which contains its size.
bool is_framed_pickle(std::string_view text, std::uint64_t file_size) {
  return text.size() >= 11 && text[0] == '\x80' && (text[1] == 4 || text[1] == 5) && text[2] == '\x95' &&
         number_at<std::uint64_t>(text, 3) <= file_size - 11;
}

// A safetensors file begins with the size of a JSON object and that object.
bool is_safetensors(std::string_view text, std::uint64_t file_size) {
  return text.size() >= 11 && text.substr(8, 2) == "{\"" && text[10] >= ' ' &&
         number_at<std::uint64_t>(text, 0) <= file_size - 8;
}

// An Arrow stream begins with a continuation marker and the size of the schema's message in bytes. The size
// is a multiple of 8.
bool is_arrow_stream(std::string_view text, std::uint64_t file_size) {
  if (text.size() < 16 || !text.starts_with("\xff\xff\xff\xff")) return false;
  const auto size = number_at<std::uint32_t>(text, 4);
  return size > 0 && size % 8 == 0 && size <= file_size - 8;
}

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto begins = [text](std::string_view with) {
    return text.size() >= with.size() &&
           std::ranges::equal(text.substr(0, with.size()), with, {}, [](char c) {
             return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
           });
  };
  return begins("<!doctype html") || begins("<html");
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::optional<FileKind> file_kind(std::span<const std::byte> beginning, std::uint64_t file_size) {
  const std::string_view text = text_of(beginning);
  // A tar archive begins with the name of a file. This name can look like the beginning of another kind of
  // file. So tar is checked first.
  if (text.size() > 262 && text.substr(257, 5) == "ustar") return FileKind::kTar;
  for (const Magic& each : kMagics)
    if (text.starts_with(each.bytes)) return each.kind;
  if (is_zstd(text, file_size)) return FileKind::kZstd;
  if (is_bzip2(text)) return FileKind::kBzip2;
  if (is_framed_pickle(text, file_size)) return FileKind::kPickle;
  if (is_safetensors(text, file_size)) return FileKind::kSafetensors;
  if (is_arrow_stream(text, file_size)) return FileKind::kArrow;
  if (is_html(text)) return FileKind::kHtml;
  return std::nullopt;
}

std::string description_of(FileKind kind) {
  switch (kind) {
    case FileKind::kNpy: return "a numpy array, as np.save() writes";
    case FileKind::kGzip: return "compressed by gzip (gunzip it)";
    case FileKind::kZstd: return "compressed by zstd (zstd -d)";
    case FileKind::kBzip2: return "compressed by bzip2 (bunzip2 it)";
    case FileKind::kXz: return "compressed by xz (unxz it)";
    case FileKind::kZip: return "a ZIP archive, as np.savez() and torch.save() write";
    case FileKind::kPickle: return "a pickle, as Python's pickle and torch.save() write";
    case FileKind::kSafetensors: return "a safetensors file";
    case FileKind::kParquet: return "a Parquet file";
    case FileKind::kArrow: return "an Arrow file";
    case FileKind::kHdf5: return "an HDF5 file";
    case FileKind::kTar: return "a tar archive";
    case FileKind::kSqlite: return "an SQLite database";
    case FileKind::kMegatronIndex: return "the index of Megatron's tokens";
    case FileKind::kHtml: return "an HTML page, such as a server sends instead of a file";
  }
  return "of another kind";
}

bool looks_like_text(std::span<const std::byte> beginning) {
  const std::string_view text = beginning_of(text_of(beginning), kLooked);
  const bool has_control = std::ranges::any_of(text, [](char letter) {
    return (static_cast<unsigned char>(letter) < ' ' || letter == 0x7f) && !"\t\n\r\f"sv.contains(letter);
  });
  return !has_control && is_utf8(text);
}

Status check_is_path(const std::string& path) {
  if (path.contains("://"))
    return failure(ErrorCode::kInvalidArgument, "cannot use {}: it is a URL; download the file first", path);
  if (path.starts_with("pipe:"))
    return failure(ErrorCode::kInvalidArgument,
                   "cannot use {}: `pipe:` is not supported; write the command's output into a file", path);
  return {};
}

Status check_is_file_of(const std::string& path, std::initializer_list<FileKind> kinds) {
  if (Status usable = check_is_path(path); !usable) return usable;
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return {};
  if (S_ISDIR(status.st_mode)) {
    if (Status other = check_is_no_stream(path); !other) return other;
    return failure(ErrorCode::kCorrupt, "cannot use {}: it is a folder", path);
  }
  if (!S_ISREG(status.st_mode)) return {};  // to open and close a pipe would break it for its writer
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<std::byte, 512> beginning{};
  const ssize_t size = pread(fd.get(), beginning.data(), beginning.size(), 0);
  if (size <= 0) return {};
  const auto kind = file_kind(std::span(beginning).first(static_cast<std::size_t>(size)),
                              static_cast<std::uint64_t>(status.st_size));
  if (!kind || kind == FileKind::kZstd) {
    if (Status other = check_is_no_stream(path); !other) return other;
  }
  if (!kind || std::ranges::find(kinds, *kind) != kinds.end()) return {};
  return failure(ErrorCode::kCorrupt, "cannot use {}: it is {}", path, description_of(*kind));
}

}  // namespace muster
