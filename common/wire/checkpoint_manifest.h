// The manifest of one checkpoint: which files belong to it, and the digest of each. Its rename into place is
// the commit.
//
// This is the text form only: {"body":{...},"xxh3":"<XXH3-128 of the body's text>"}, written without spaces
// and keys sorted, so that a file which differs in one bit from what was written is refused. Who may commit
// when: checkpoint_directory.h. Plain values; safe to copy between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster {

// The state after `step` training steps, as written by `attempt`.
struct CheckpointId {
  std::uint64_t step = 0;
  Attempt attempt;
  auto operator<=>(const CheckpointId&) const = default;
};

struct ManifestFile {
  std::string name;  // beside the manifest, no folders
  std::uint64_t size_bytes = 0;
  std::string xxh3;  // of the whole file: 32 hexadecimal digits, as `xxhsum -H2` prints them
  bool operator==(const ManifestFile&) const = default;
};

struct CheckpointManifest {
  CheckpointId id;
  std::string job;
  std::int32_t world_size = 0;
  std::vector<ManifestFile> files;  // one per rank, in the order of ranks
  bool operator==(const CheckpointManifest&) const = default;
};

std::string encode_manifest(const CheckpointManifest& manifest);

// kCorrupt with the reason if these are not exactly the bytes that encode_manifest gave.
Expected<CheckpointManifest> parse_manifest(std::string_view text);

}  // namespace muster
