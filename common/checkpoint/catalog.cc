#include "common/checkpoint/catalog.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/wire/json.h"

namespace muster {

namespace {

constexpr std::uint64_t kIndexLimit = 256 << 20;
constexpr int kIndexFormat = 1;

std::string index_path(const CheckpointDirectory& directory) {
  return directory.path() + "/index.json";
}

// Returns a value that changes when the manifest is replaced. kNotFound: there is no manifest.
Expected<nlohmann::json> mark_of(const std::string& manifest_path) {
  struct stat status{};
  if (stat(manifest_path.c_str(), &status) != 0) return system_failure("cannot read " + manifest_path, errno);
  return nlohmann::json{static_cast<std::uint64_t>(status.st_ino), static_cast<std::int64_t>(status.st_size),
                        static_cast<std::int64_t>(status.st_mtim.tv_sec),
                        static_cast<std::int64_t>(status.st_mtim.tv_nsec)};
}

nlohmann::json read_index(const CheckpointDirectory& directory) {
  const auto text = read_regular_file(index_path(directory), kIndexLimit);
  if (!text) return nlohmann::json::object();
  try {
    auto document = parse_shallow_json(*text, Fractions::kTaken);
    if (document.at("format") == kIndexFormat && document.at("checkpoints").is_object())
      return document.at("checkpoints");
  } catch (const nlohmann::json::exception&) {  // read_catalog() then writes a new index
  }
  return nlohmann::json::object();
}

void write_index(const CheckpointDirectory& directory, nlohmann::json checkpoints) {
  const std::string path = index_path(directory);
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  const nlohmann::json document{{"format", kIndexFormat}, {"checkpoints", std::move(checkpoints)}};
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  // The index is only a cache. So it need not be synced, and if it cannot be written, that is ignored.
  if (!fd) return;
  const bool written = write_all(fd.get(), document.dump(), temporary).has_value();
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

nlohmann::json to_json(const CatalogEntry& entry, const nlohmann::json& mark) {
  nlohmann::json document{{"manifest", mark},
                          {"format", entry.format},
                          {"job", entry.job},
                          {"world_size", entry.world_size},
                          {"written_at", entry.written_at},
                          {"bytes", entry.size_bytes},
                          {"metrics", entry.known.metrics},
                          {"best_by", nullptr}};
  if (entry.best_by) document["best_by"] = {{"metric", entry.best_by->metric}, {"most", entry.best_by->most}};
  return document;
}

// Takes over what the index says about one checkpoint. If `document` is what to_json() returned for a
// manifest with this mark, this function fills in `known`, and returns true. Otherwise it returns false, and
// changes nothing.
bool take_json(const nlohmann::json& document, const nlohmann::json& mark, CatalogEntry& known) {
  try {
    if (document.at("manifest") != mark) return false;
    CatalogEntry entry = known;
    entry.format = whole_number<std::int32_t>(document.at("format"));
    entry.job = document.at("job");
    entry.world_size = whole_number<std::int32_t>(document.at("world_size"));
    entry.written_at = whole_number<std::int64_t>(document.at("written_at"));
    entry.size_bytes = whole_number<std::uint64_t>(document.at("bytes"));
    document.at("metrics").get_to(entry.known.metrics);
    if (const auto& by = document.at("best_by"); !by.is_null())
      entry.best_by = BestBy{.metric = by.at("metric"), .most = by.at("most")};
    known = std::move(entry);
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void take_manifest(const CheckpointManifest& manifest, std::int64_t mtime, CatalogEntry& entry) {
  entry.format = manifest.format;
  entry.job = manifest.job;
  entry.world_size = manifest.world_size;
  entry.written_at = manifest.written_at != 0 ? manifest.written_at : mtime;  // format 1 has no time
  for (const ManifestFile& file : manifest.files) entry.size_bytes += file.size_bytes;
  entry.known.metrics = manifest.metrics;
  entry.best_by = manifest.best_by;
}

}  // namespace

Expected<std::vector<CatalogEntry>> read_catalog(const CheckpointDirectory& directory) {
  const auto ids = directory.step_directories();
  if (!ids) return std::unexpected(ids.error());
  const auto counting = directory.counting(*ids);
  if (!counting) return std::unexpected(counting.error());
  const nlohmann::json index = read_index(directory);
  nlohmann::json fresh = nlohmann::json::object();
  std::vector<CatalogEntry> catalog;
  for (const CheckpointId id : *ids) {
    CatalogEntry& entry = catalog.emplace_back(CatalogEntry{.known = {.id = id}});
    entry.known.pinned = directory.is_pinned(id);
    entry.known.counts = std::ranges::find(*counting, id) != counting->end();
    const auto mark = mark_of(directory.manifest_path(id));
    entry.known.committed = mark || mark.error().code() != ErrorCode::kNotFound;
    if (!mark) {
      if (entry.known.committed) entry.damage = mark.error();
      continue;
    }
    const std::string name = directory_name(id);
    const auto kept = entry.known.counts ? index.find(name) : index.end();
    if (kept == index.end() || !take_json(*kept, *mark, entry)) {
      const auto manifest = directory.read_manifest(id);
      if (!manifest) {
        entry.damage = manifest.error();
        continue;
      }
      take_manifest(*manifest, (*mark)[2], entry);
    }
    entry.known.usable = true;
    fresh[name] = to_json(entry, *mark);
  }
  if (fresh != index) write_index(directory, std::move(fresh));
  return catalog;
}

std::vector<KnownCheckpoint> known_of(const std::vector<CatalogEntry>& catalog) {
  std::vector<KnownCheckpoint> known;
  for (const CatalogEntry& entry : catalog) known.push_back(entry.known);
  return known;
}

Expected<CheckpointId> latest_of(const std::vector<CatalogEntry>& catalog) {
  std::optional<CheckpointId> latest;
  for (const CatalogEntry& entry : catalog) {
    const CheckpointId id = entry.known.id;
    if (entry.known.usable && entry.known.counts && (!latest || is_newer(id, *latest))) latest = id;
  }
  if (!latest) return failure(ErrorCode::kNotFound, "found no usable checkpoint");
  return *latest;
}

Expected<CheckpointId> best_of(const std::vector<CatalogEntry>& catalog, const std::optional<BestBy>& by) {
  const auto latest = latest_of(catalog);
  if (!latest) return latest;
  const auto newest =
      std::ranges::find(catalog, *latest, [](const CatalogEntry& entry) { return entry.known.id; });
  const auto chosen = by ? by : newest->best_by;
  if (!chosen)
    return failure(ErrorCode::kInvalidArgument,
                   "the checkpoints name no metric to judge them by: give --metric NAME --mode min|max");
  const auto best = ranked(known_of(catalog), *chosen);
  if (best.empty()) return failure(ErrorCode::kNotFound, "no checkpoint has the metric {}", chosen->metric);
  return best.front();
}

}  // namespace muster
