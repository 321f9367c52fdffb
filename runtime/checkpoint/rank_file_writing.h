// Writes one rank's file of a checkpoint, so that it is whole or absent.
//
// The writing thread calls the function, which blocks. Errors name the path.
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

// Writes DIRECTORY/NAME chunk by chunk as `staging` fills: temporary file, sync, rename, sync of the
// directory. The caller's thread hashes while the threads of `disk` write, past the page cache if the file
// system allows it. On failure nothing of the file is left, and the staging is abandoned.
Expected<ManifestFile> write_rank_file(const std::string& directory, const std::string& name,
                                       std::uint64_t size_bytes, Staging& staging, Background& disk,
                                       const Inspect& inspect);

}  // namespace muster
