#include "common/wire/checkpoint_manifest.h"

#include "common/base/text.h"
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
  manifest.id = {.step = whole_number<std::uint64_t>(body.at("step")),
                 .attempt = Attempt(whole_number<std::uint64_t>(body.at("attempt")))};
  manifest.job = body.at("job");
  manifest.world_size = whole_number<std::int32_t>(body.at("world_size"));
  for (const auto& file : body.at("files")) {
    manifest.files.push_back({.name = file.at("name"),
                              .size_bytes = whole_number<std::uint64_t>(file.at("bytes")),
                              .xxh3 = file.at("xxh3")});
    if (manifest.files.back().name.find('/') != std::string::npos) {
      return failure(ErrorCode::kCorrupt, "file name {} has a folder in it",
                     one_line(manifest.files.back().name));
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
    if (xxh3_digest(body.dump()) != document.at("xxh3").get<std::string>())
      return failure(ErrorCode::kCorrupt, "its digest does not fit its content");
    auto manifest = manifest_of(body);
    // What the digest cannot see: white space, repeated keys, fields that are not known.
    if (manifest && encode_manifest(*manifest) != text)
      return failure(ErrorCode::kCorrupt, "it has more in it than a manifest has");
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "not a manifest: {}", one_line(error.what()));
  }
}

}  // namespace muster
