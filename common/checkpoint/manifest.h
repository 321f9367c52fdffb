// The manifest of one checkpoint: its files, the digests of their bytes, and where each tensor lies in them.
// The checkpoint is committed when its manifest is renamed into place.
//
// Encodes and parses the text: {"body":{...},"xxh3":"<XXH3-128 of the body's text>"}. parse_manifest()
// refuses a text in which one bit has changed. Muster writes format 2. It can also read format 1, whose
// manifest names only the files: with_contents() (reader.h) adds the tensors. directory.h says which process
// is allowed to commit. The structs are plain values.
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
  std::string name;  // in the manifest's folder
  std::uint64_t size_bytes = 0;
  std::string xxh3 = {};  // format 1: digest of the whole file, as `xxhsum -H2` prints it
  // Only in format 2: a digest for each chunk of the file. A chunk has `chunk_bytes` bytes, but the last one
  // can be shorter.
  std::uint64_t chunk_bytes = kChunkBytes;
  std::vector<Digest128> chunks = {};
  bool operator==(const ManifestFile&) const = default;
};

struct Contents {
  std::map<std::string, SavedTensor> tensors = {};
  std::map<std::string, std::string> values = {};
  bool operator==(const Contents&) const = default;
};

// The metric that decides which checkpoint of a training is the best.
struct BestBy {
  std::string metric;
  bool most = false;  // true: the greatest value is the best; false: the least
  bool operator==(const BestBy&) const = default;
};

struct CheckpointManifest {
  int format = kManifestFormat;
  CheckpointId id = {};
  std::string job = {};
  std::int32_t world_size = 0;
  std::vector<ManifestFile> files = {};  // format 1: one per rank, in the order of ranks
  // Format 1 does not have the following fields.
  std::int64_t written_at = 0;                       // seconds since 1970, by the clock of rank 0's node
  std::map<std::string, std::string> topology = {};  // who wrote it, for people: {"nodes": "2"}
  std::map<std::string, double> metrics = {};        // all finite
  std::optional<BestBy> best_by = {};
  Contents shared = {};            // state that all ranks share
  std::vector<Contents> own = {};  // each rank's own state, by rank; empty if no rank has any
  bool operator==(const CheckpointManifest&) const = default;
};

// Returns the text of the manifest. Does not check the manifest; check_manifest() does. Throws
// nlohmann::json::exception if a name or value is not UTF-8.
std::string encode_manifest(const CheckpointManifest& manifest);

// Parses a manifest. Returns kCorrupt, with the reason, in these cases:
// - The text is not exactly the text that encode_manifest() has returned.
// - A part of a tensor lies outside its file.
// - The parts do not cover their tensor exactly.
//
// Returns kInvalidArgument if the format is newer than kManifestFormat.
Expected<CheckpointManifest> parse_manifest(std::string_view text);

// Describes the data that one rank has written. Each rank sends this to the rank that commits the checkpoint.
// In it, StoredPart::file is an index into `files`.
struct RankContents {
  std::vector<ManifestFile> files = {};
  Contents shared = {};  // only with the parts that this rank wrote
  Contents own = {};
};
std::string encode_rank_contents(const RankContents& contents);
// Returns kCorrupt if the text is not from encode_rank_contents.
Expected<RankContents> parse_rank_contents(std::string_view text);

// Adds to the manifest what `rank` has written. Returns kInvalidArgument if the type or shape of a tensor, or
// a value, differs from that of another rank. The message names the tensor or the value.
Status add_rank(CheckpointManifest& manifest, std::int32_t rank, RankContents contents);
// Call this when all ranks have been added. It fails if parse_manifest() would refuse the manifest.
Status check_manifest(const CheckpointManifest& manifest);

}  // namespace muster
