// One rank's file of a checkpoint: written so that it is whole or absent.
//
// Blocking; safe to call from any thread. Errors name the path.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/checkpoint/manifest.h"
#include "runtime/checkpoint/background.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

// Looks at bytes of the file, in order, before they are written; its failure is the write's.
using Inspect = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

// Writes DIRECTORY/NAME, chunk by chunk, from `staging`, as it fills: temporary file, sync, rename, sync of
// the directory. On failure nothing of it is left, and the staging is given up. Past the page cache where the
// file system can; `disk` writes while the caller's thread hashes.
Expected<ManifestFile> write_rank_file(const std::string& directory, const std::string& name,
                                       std::uint64_t size_bytes, Staging& staging, Background& disk,
                                       const Inspect& inspect);

}  // namespace muster
