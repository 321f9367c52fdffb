// Writes one rank's file of a checkpoint, so that it is whole or absent.
//
// Call write_rank_file() on the writing thread; it blocks. Errors name the path.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/checkpoint/manifest.h"
#include "runtime/checkpoint/background.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

// Checks the bytes of the file, in order, before they are written. If it returns an error, the write fails.
using Inspect = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

// Writes DIRECTORY/NAME chunk by chunk as `staging` fills: writes and syncs a temporary file, renames it, and
// syncs the directory. The caller's thread hashes while the threads of `disk` write, past the page cache if
// the file system allows it. If this fails before the rename, removes the temporary file and abandons
// `staging`. If only the last sync fails, the file stays.
Expected<ManifestFile> write_rank_file(const std::string& directory, const std::string& name,
                                       std::uint64_t size_bytes, Staging& staging, Background& disk,
                                       const Inspect& inspect);

}  // namespace muster
