// Recognizes the kind of a file by its first bytes. So if a file is not of the kind that a dataset reads, the
// error can say what it is.
//
// Any thread can call the functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.h"

namespace muster {

enum class FileKind {
  kNpy,
  kGzip,
  kZstd,
  kBzip2,
  kXz,
  kZip,
  kPickle,
  kSafetensors,
  kParquet,
  kArrow,
  kHdf5,
  kTar,
  kSqlite,
  kMegatronIndex,
  kHtml,
};

// Returns the kind of a file, as its first bytes show it. Returns nothing if they do not show any of these
// kinds. If a header says that the file is larger than `file_size`, the file is not of that kind.
std::optional<FileKind> file_kind(std::span<const std::byte> beginning, std::uint64_t file_size);
// Returns a text such as "a ZIP archive, as np.savez() and torch.save() write".
std::string description_of(FileKind kind);
// Returns true if the first 4 KiB are only printable UTF-8 and white space.
bool looks_like_text(std::span<const std::byte> beginning);

// Returns kInvalidArgument for a URL or a `pipe:` command.
Status check_is_path(const std::string& path);
// Checks that the file at `path` can be of one of `kinds`. It fails if check_is_path() fails. It returns
// kCorrupt for a folder, for a file that is clearly of another kind, and for a file of the formats MDS and
// litdata. It accepts a file that cannot be opened, because the file's reader then reports why.
Status check_is_file_of(const std::string& path, std::initializer_list<FileKind> kinds);

}  // namespace muster
