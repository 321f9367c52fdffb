// Writes one rank's file of a checkpoint. The file is then complete, or it does not exist.
//
// write_rank_file() waits for the disk. Call it on the writing thread. Errors name the path.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/checkpoint/manifest.h"
#include "runtime/checkpoint/background.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

// A function that checks the bytes of the file before they are written. It is called for all bytes, in their
// order. If it returns an error, the write fails.
using Inspect = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

// Writes the file `name` in `directory`, one chunk after the other, while `staging` is being filled. This
// function first writes and syncs a temporary file. Then it renames this file, and syncs the directory.
//
// The thread of the caller hashes the chunks, and the threads of `disk` write them. If the file system allows
// it, they write without the page cache. If this function fails before it has renamed the file, it removes
// the temporary file and abandons `staging`. If only the last sync fails, the file stays.
Expected<ManifestFile> write_rank_file(const std::string& directory, const std::string& name,
                                       std::uint64_t size_bytes, Staging& staging, Background& disk,
                                       const Inspect& inspect);

}  // namespace muster
