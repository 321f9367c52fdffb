// Recognizes files by their first bytes, so that a dataset's error can say what a file of another kind is.
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

// Returns the kind that the first bytes show. Returns nothing if they show none of these kinds. A file that
// is smaller than its header says, by `file_size`, is not of that kind.
std::optional<FileKind> file_kind(std::span<const std::byte> beginning, std::uint64_t file_size);
// Returns a text such as "a ZIP archive, as np.savez() and torch.save() write".
std::string description_of(FileKind kind);
// Returns true if the first 4 KiB are only printable UTF-8 and white space.
bool looks_like_text(std::span<const std::byte> beginning);

// Returns kInvalidArgument for a URL or a `pipe:` command.
Status check_is_path(const std::string& path);
// Fails if check_is_path() fails. Returns kCorrupt for a folder, for a file of a known kind that is not
// in `kinds`, and for the files that MDS and litdata write. Accepts a file that cannot be opened: its
// reader reports why.
Status check_is_file_of(const std::string& path, std::initializer_list<FileKind> kinds);

}  // namespace muster
