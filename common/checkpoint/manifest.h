// The manifest of one checkpoint: which files belong to it, the digests of their bytes, and where in them
// each tensor lies. Its rename into place is the commit.
//
// This is the text form only: {"body":{...},"xxh3":"<XXH3-128 of the body's text>"}, so that a file which
// differs in one bit from what was written is refused. Format 2 is written; format 1, whose manifest names
// the files alone, is read (contents.h). Who may commit when: directory.h. Plain values; safe to copy between
// threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/saved_tensor.h"
#include "common/wire/digest.h"

namespace muster {

inline constexpr int kManifestFormat = 2;
inline constexpr std::uint64_t kChunkBytes = 4 << 20;

struct ManifestFile {
  std::string name;  // beside the manifest, no folders
  std::uint64_t size_bytes = 0;
  std::string xxh3 = {};  // format 1: of the whole file, 32 hexadecimal digits, as `xxhsum -H2` prints them
  // Format 2: the digests of its bytes, so many at a time from the first on; the last has what is left.
  std::uint64_t chunk_bytes = kChunkBytes;
  std::vector<Digest128> chunks = {};
  bool operator==(const ManifestFile&) const = default;
};

struct Contents {
  std::map<std::string, SavedTensor> tensors = {};
  std::map<std::string, std::string> values = {};
  bool operator==(const Contents&) const = default;
};

// By which of its metrics a training calls a checkpoint the best.
struct BestBy {
  std::string metric;
  bool most = false;  // the greatest is the best, else the least
  bool operator==(const BestBy&) const = default;
};

struct CheckpointManifest {
  int format = kManifestFormat;
  CheckpointId id = {};
  std::string job = {};
  std::int32_t world_size = 0;
  std::vector<ManifestFile> files = {};  // format 1: one per rank, in the order of ranks
  // All below: format 2.
  std::int64_t written_at = 0;                       // seconds since 1970, by the clock of the node of rank 0
  std::map<std::string, std::string> topology = {};  // who wrote it, for people: {"nodes": "2"}
  std::map<std::string, double> metrics = {};        // finite ones
  std::optional<BestBy> best_by = {};
  Contents shared = {};            // the state of all ranks together
  std::vector<Contents> own = {};  // what is each rank's own, by rank; or none has any
  bool operator==(const CheckpointManifest&) const = default;
};

// Looks at nothing (check_manifest does). nlohmann::json::exception if a name or value is not UTF-8.
std::string encode_manifest(const CheckpointManifest& manifest);

// kCorrupt with the reason if these are not exactly the bytes that encode_manifest gave, if a part lies
// outside of its file, or if parts do not cover their tensor exactly. kInvalidArgument if the format is newer
// than this.
Expected<CheckpointManifest> parse_manifest(std::string_view text);

// What one rank has written, as it tells it to the rank that commits. Parts name its own files, from 0.
struct RankContents {
  std::vector<ManifestFile> files = {};
  Contents shared = {};  // of the tensors it has parts of, those parts
  Contents own = {};
};
std::string encode_rank_contents(const RankContents& contents);
// kCorrupt if that is not what encode_rank_contents gave.
Expected<RankContents> parse_rank_contents(std::string_view text);

// Adds what `rank` has written. kInvalidArgument names a tensor whose type or shape another rank tells
// differently, or a value that another rank has with another text.
Status add_rank(CheckpointManifest& manifest, std::int32_t rank, RankContents contents);
// Once all ranks are added: what parse_manifest would refuse is refused here.
Status check_manifest(const CheckpointManifest& manifest);

}  // namespace muster
