// One rank's file of a checkpoint: written so that it is whole or absent, read only if it is exactly what the
// manifest says.
//
// Blocking; safe to call from any thread. Errors name the path. Which shards make a checkpoint:
// checkpoint_directory.h.
#pragma once

#include <string>

#include "common/wire/checkpoint_manifest.h"
#include "runtime/checkpoint/safetensors.h"

namespace muster {

std::string shard_name(int rank);  // rank-00003.safetensors

// Writes DIRECTORY/NAME: temporary file, sync, rename, sync of the directory. On failure nothing of it is
// left.
Expected<ManifestFile> write_shard(const std::string& directory, const std::string& name,
                                   const Safetensors& content);

// kCorrupt when size, digest or structure are not as they should be.
Expected<Safetensors> read_shard(const std::string& directory, const ManifestFile& file);

}  // namespace muster
