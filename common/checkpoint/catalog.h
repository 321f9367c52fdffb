// Lists the checkpoints in a directory: which are committed, which count (retention.h), which are pinned,
// their sizes and metrics. Reads only manifests that have changed since the last call.
//
// DIR/index.json caches what the manifests say, and the size and modification time of each. An entry that
// does not match the manifest on disk is ignored, so a missing, old or wrong index does no harm. Manifests of
// checkpoints that do not count are always read: one may have been skipped because it cannot be read. The
// functions block. Several processes can use one directory.
#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/retention.h"

namespace muster {

struct CatalogEntry {
  KnownCheckpoint known;
  // The following fields, except `damage`, are set only for usable checkpoints.
  int format = 0;
  std::string job = {};
  std::int32_t world_size = 0;
  std::int64_t written_at = 0;   // seconds since 1970
  std::uint64_t size_bytes = 0;  // the sum of its files
  std::optional<BestBy> best_by = {};
  std::optional<Error> damage = {};  // set if a committed checkpoint cannot be used
};

// Returns an entry for every step directory, in the order of steps and attempts. Updates the index if it
// can be written.
Expected<std::vector<CatalogEntry>> read_catalog(const CheckpointDirectory& directory);

// Returns the facts from which retention.h decides what to keep.
std::vector<KnownCheckpoint> known_of(const std::vector<CatalogEntry>& catalog);

// latest_of() returns the newest checkpoint that counts and is usable. best_of() ranks those checkpoints by
// `by` and returns the best one. Without `by`, it takes the metric that latest_of()'s checkpoint names.
// kNotFound: there is no checkpoint to return. kInvalidArgument: no metric is given or named.
Expected<CheckpointId> latest_of(const std::vector<CatalogEntry>& catalog);
Expected<CheckpointId> best_of(const std::vector<CatalogEntry>& catalog, const std::optional<BestBy>& by);

}  // namespace muster
