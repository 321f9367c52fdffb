// Lists the checkpoints in a directory. Each entry of the list says whether the checkpoint is committed,
// whether it counts (retention.h), and whether it is pinned. The entry also has the checkpoint's size and
// metrics. If a checkpoint counts, its manifest is not read again unless the manifest has changed since the
// last call.
//
// DIR/index.json caches what the manifests say, and the size and modification time of each. An entry that
// does not match the manifest on disk is ignored, so a missing, old or wrong index does no harm. Manifests of
// checkpoints that do not count are always read: an attempt may have skipped such a checkpoint because its
// manifest cannot be read. The functions block. Several processes can use one directory.
#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/retention.h"

namespace muster {

struct CatalogEntry {
  KnownCheckpoint known;
  // The fields below are set only for usable checkpoints. The only exception is `damage`.
  int format = 0;
  std::string job = {};
  std::int32_t world_size = 0;
  std::int64_t written_at = 0;   // seconds since 1970
  std::uint64_t size_bytes = 0;  // the sum of its files
  std::optional<BestBy> best_by = {};
  std::optional<Error> damage = {};  // set if a committed checkpoint cannot be used
};

// Returns an entry for every step directory, sorted by step and then by attempt. Also updates the index, if
// it can be written.
Expected<std::vector<CatalogEntry>> read_catalog(const CheckpointDirectory& directory);

// Returns the facts from which retention.h decides what to keep.
std::vector<KnownCheckpoint> known_of(const std::vector<CatalogEntry>& catalog);

// latest_of() returns the newest checkpoint that counts and is usable. best_of() ranks those checkpoints by
// `by`, and returns the best one. If `by` is empty, the metric is the one that the checkpoint of latest_of()
// names. Returns kNotFound if there is no checkpoint to return. Returns kInvalidArgument if no metric is
// given or named.
Expected<CheckpointId> latest_of(const std::vector<CatalogEntry>& catalog);
Expected<CheckpointId> best_of(const std::vector<CatalogEntry>& catalog, const std::optional<BestBy>& by);

}  // namespace muster
