// The manifest of one checkpoint: its files, the digests of their bytes, and where each tensor lies in them.
// Renaming it into place is the commit.
//
// This is only the text form: {"body":{...},"xxh3":"<XXH3-128 of the body's text>"}; a file that differs by
// one bit from what was written is refused. Muster writes format 2 and can read format 1, whose manifest
// names only the files (reader.h). directory.h says which process may commit, and when. Plain values; safe to
// copy between threads.
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
  std::string xxh3 = {};  // format 1: of the whole file, 32 hexadecimal digits, as `xxhsum -H2` prints them
  // Format 2: one digest for every chunk_bytes of the file, from the start; the last covers the rest.
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
  // The following fields are format 2.
  std::int64_t written_at = 0;                       // seconds since 1970, by the clock of rank 0's node
  std::map<std::string, std::string> topology = {};  // who wrote it, for people: {"nodes": "2"}
  std::map<std::string, double> metrics = {};        // finite ones
  std::optional<BestBy> best_by = {};
  Contents shared = {};            // state that all ranks share
  std::vector<Contents> own = {};  // each rank's own state, by rank; empty if no rank has any
  bool operator==(const CheckpointManifest&) const = default;
};

// Checks nothing (check_manifest does). Throws nlohmann::json::exception if a name or value is not UTF-8.
std::string encode_manifest(const CheckpointManifest& manifest);

// kCorrupt, with the reason, if these are not exactly the bytes that encode_manifest returned, if a part lies
// outside its file, or if the parts do not cover their tensor exactly. kInvalidArgument if the format is
// newer than this version's.
Expected<CheckpointManifest> parse_manifest(std::string_view text);

// The contents that one rank has written, as it reports them to the rank that commits. Parts refer to the
// rank's own files, counted from 0.
struct RankContents {
  std::vector<ManifestFile> files = {};
  Contents shared = {};  // with the parts that this rank has
  Contents own = {};
};
std::string encode_rank_contents(const RankContents& contents);
// Returns kCorrupt if the text is not from encode_rank_contents.
Expected<RankContents> parse_rank_contents(std::string_view text);

// Adds what `rank` has written. kInvalidArgument names a tensor that has another type or shape on another
// rank, or a value that differs between ranks.
Status add_rank(CheckpointManifest& manifest, std::int32_t rank, RankContents contents);
// Call when all ranks are added. Refuses what parse_manifest would refuse.
Status check_manifest(const CheckpointManifest& manifest);

}  // namespace muster
