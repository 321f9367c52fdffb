// The checkpoints in a directory, without reading every manifest each time: which are committed, which count
// (retention.h), which are pinned, their sizes and metrics.
//
// DIR/index.json caches what the manifests say, each with its size and modification time. An entry that does
// not match the manifest on disk is ignored, so the file is only a hint, and it does no harm if it is
// missing, old or wrong. The functions block; several processes may use one directory.
#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/retention.h"

namespace muster {

struct CatalogEntry {
  KnownCheckpoint known;
  // The following fields are set for usable checkpoints.
  int format = 0;
  std::string job = {};
  std::int32_t world_size = 0;
  std::int64_t written_at = 0;   // seconds since 1970
  std::uint64_t size_bytes = 0;  // the sum of its files
  std::optional<BestBy> best_by = {};
  std::optional<Error> damage = {};  // why it cannot be used, though it was committed
};

// Returns every step directory, by step and attempt. Updates the index if it can be written.
Expected<std::vector<CatalogEntry>> read_catalog(const CheckpointDirectory& directory);

// The facts that retention decides by.
std::vector<KnownCheckpoint> known_of(const std::vector<CatalogEntry>& catalog);

// latest_of() returns the newest checkpoint that counts and is usable. best_of() returns the best of those
// that count and are usable: by `by` or, without it, by the metric that the newest one names. kNotFound:
// there is none. kInvalidArgument: no metric is named.
Expected<CheckpointId> latest_of(const std::vector<CatalogEntry>& catalog);
Expected<CheckpointId> best_of(const std::vector<CatalogEntry>& catalog, const std::optional<BestBy>& by);

}  // namespace muster
