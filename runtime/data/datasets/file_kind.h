// Recognises files by their first bytes, so that a data set can name a file of another kind in its error.
//
// Plain functions, safe to call from any thread.
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

// Returns the kind that the first bytes show; none if it is not one of these. `file_size` rules out headers
// that promise more than the file holds.
std::optional<FileKind> file_kind(std::span<const std::byte> beginning, std::uint64_t file_size);
// "a ZIP archive, as np.savez() and torch.save() write".
std::string description_of(FileKind kind);
// Returns whether the first 4 KiB are printable UTF-8 and white space.
bool looks_like_text(std::span<const std::byte> beginning);

// kInvalidArgument for a URL or a `pipe:` command.
Status check_is_path(const std::string& path);
// Checks as check_is_path() does. kCorrupt for a folder, for a file of a known kind that is not in `kinds`,
// and for the files that MDS and litdata write. A file that cannot be opened passes: its reader says why.
Status check_is_file_of(const std::string& path, std::initializer_list<FileKind> kinds);

}  // namespace muster
