// What a file is by its first bytes, so that one of another kind than a data set reads is refused by its
// name.
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

// By the first bytes of a file of this size. Nothing if it is none of these, which have so much at their
// beginning that data of another kind do not begin so by chance.
std::optional<FileKind> file_kind(std::span<const std::byte> beginning, std::uint64_t file_size);
// "a ZIP archive, as np.savez() and torch.save() write".
std::string description_of(FileKind kind);
// All of its first 4 KiB is what text has: data of two bytes each and more are not so by chance.
bool looks_like_text(std::span<const std::byte> beginning);

// kInvalidArgument for what is not the path of a file on this machine but an address or a command.
Status check_is_path(const std::string& path);
// The same, and kCorrupt for a folder, and for a file whose kind is known and not among these. What cannot be
// opened is left to who reads it.
Status check_is_file_of(const std::string& path, std::initializer_list<FileKind> kinds);

}  // namespace muster
