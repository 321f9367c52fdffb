// What there is in a checkpoint directory, without reading every manifest each time: which checkpoints are
// committed, count, are pinned, how large they are, their metrics.
//
// DIR/index.json keeps what manifests have said, each with its size and time of writing: an entry that does
// not fit the manifest that is there is not used, so that the file is a hint, and may be missing, old or
// wrong. Blocking; several processes may use one directory.
#pragma once

#include <string>
#include <vector>

#include "common/checkpoint/directory.h"
#include "common/checkpoint/retention.h"

namespace muster {

struct CatalogEntry {
  KnownCheckpoint known;
  // Of one that can be used.
  int format = 0;
  std::string job = {};
  std::int32_t world_size = 0;
  std::int64_t written_at = 0;   // seconds since 1970
  std::uint64_t size_bytes = 0;  // of its files
  std::optional<BestBy> best_by = {};
  std::optional<Error> damage = {};  // why it cannot be used, though it was committed
};

// Every step directory, by step and attempt. Brings the index up to date, where that can be written.
Expected<std::vector<CatalogEntry>> read_catalog(const CheckpointDirectory& directory);

// What retention decides by.
std::vector<KnownCheckpoint> known_of(const std::vector<CatalogEntry>& catalog);

// The newest that counts and can be used; the best of those, by what the newest says is best if `by` does
// not. kNotFound; kInvalidArgument where no metric is named.
Expected<CheckpointId> latest_of(const std::vector<CatalogEntry>& catalog);
Expected<CheckpointId> best_of(const std::vector<CatalogEntry>& catalog, const std::optional<BestBy>& by);

}  // namespace muster
