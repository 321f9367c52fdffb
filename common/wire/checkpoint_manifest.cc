#include "common/wire/checkpoint_manifest.h"

#include "common/wire/digest.h"
#include "common/wire/json.h"

namespace muster {

namespace {

constexpr int kManifestFormat = 1;

Expected<CheckpointManifest> manifest_of(const nlohmann::json& body) {
  if (body.at("format") != kManifestFormat) {
    return failure(ErrorCode::kCorrupt, "format {} is not known to this version", body.at("format").dump());
  }
  CheckpointManifest manifest;
  manifest.id = {.step = body.at("step"), .attempt = Attempt(body.at("attempt"))};
  manifest.job = body.at("job");
  manifest.world_size = body.at("world_size");
  for (const auto& file : body.at("files")) {
    manifest.files.push_back(
        {.name = file.at("name"), .size_bytes = file.at("bytes"), .xxh3 = file.at("xxh3")});
    if (manifest.files.back().name.find('/') != std::string::npos) {
      return failure(ErrorCode::kCorrupt, "file name {} has a folder in it", manifest.files.back().name);
    }
  }
  if (manifest.world_size < 1 || manifest.files.size() != static_cast<std::size_t>(manifest.world_size)) {
    return failure(ErrorCode::kCorrupt, "{} files for {} ranks", manifest.files.size(), manifest.world_size);
  }
  return manifest;
}

}  // namespace

std::string encode_manifest(const CheckpointManifest& manifest) {
  nlohmann::json files = nlohmann::json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.size_bytes}, {"xxh3", file.xxh3}});
  }
  const nlohmann::json body = {
      {"format", kManifestFormat},   {"step", manifest.id.step},          {"attempt", manifest.id.attempt.value()},
      {"job", manifest.job}, {"world_size", manifest.world_size}, {"files", std::move(files)}};
  return nlohmann::json{{"body", body}, {"xxh3", xxh3_digest(body.dump())}}.dump();
}

Expected<CheckpointManifest> parse_manifest(std::string_view text) {
  try {
    const auto document = parse_shallow_json(text);
    const auto& body = document.at("body");
    // The second test catches what the first cannot see: white space, repeated keys, unknown fields outside
    // of the body.
    if (xxh3_digest(body.dump()) != document.at("xxh3").get<std::string>() || document.dump() != text) {
      return failure(ErrorCode::kCorrupt, "its digest does not fit its content");
    }
    return manifest_of(body);
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "not a manifest: {}", error.what());
  }
}

}  // namespace muster
