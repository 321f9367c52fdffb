#include "runtime/data/datasets/stream_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/file.h"

namespace muster {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t kLargestStreamIndex = 256 << 20;
constexpr const char* kStreamIndex = "index.json";

// Returns the member of `object` that has this name. Returns null if there is none.
const json& member(const json& object, const char* name) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

}  // namespace

Status check_is_no_stream(const std::string& path) {
  std::error_code ignored;
  const fs::path given(path);
  const bool is_folder = fs::is_directory(given, ignored);
  const fs::path index_path =
      is_folder ? given / kStreamIndex : fs::path(given).replace_filename(kStreamIndex);
  const auto text = read_regular_file(index_path, kLargestStreamIndex);
  // A parsed text takes many times the memory of the text. So this function parses a file only if its text
  // has a word that an index of MDS or litdata has.
  if (!text || !(text->contains("\"mds\"") || text->contains("\"chunks\""))) return {};
  const json index = json::parse(*text, nullptr, false);
  const std::string name = given.filename();
  const bool is_any = is_folder || name == kStreamIndex;
  const bool is_mds = std::ranges::any_of(member(index, "shards"), [&](const json& shard) {
    return member(shard, "format") == "mds" &&
           (is_any || member(member(shard, "raw_data"), "basename") == name ||
            member(member(shard, "zip_data"), "basename") == name);
  });
  const bool is_litdata = std::ranges::any_of(member(index, "chunks"), [&](const json& chunk) {
    const json& file = member(chunk, "filename");
    return member(index, "config").is_object() && file.is_string() && (is_any || file == name);
  });
  if (!is_mds && !is_litdata) return {};
  return failure(ErrorCode::kCorrupt,
                 "cannot use {}: it belongs to a data set of {}, which Python's {} reads; "
                 "write samples as tar archives with webdataset.ShardWriter, or tokens with np.save() "
                 "(see \"MDS and litdata\" in docs/data.md)",
                 path, is_mds ? "MosaicML's MDS" : "litdata",
                 is_mds ? "streaming.StreamingDataset" : "litdata.StreamingDataset");
}

}  // namespace muster
