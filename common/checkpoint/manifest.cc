#include "common/checkpoint/manifest.h"

#include <cmath>
#include <set>

#include "common/base/text.h"
#include "common/wire/json.h"

namespace muster {

namespace {

constexpr int kFormatOfWholeFiles = 1;
constexpr std::uint64_t kChunkLimit = 1 << 30;
constexpr std::string_view kBegin = R"({"body":)";
constexpr std::string_view kMiddle = R"(,"xxh3":")";
constexpr std::string_view kEnd = R"("})";
constexpr std::size_t kDigestDigits = 32;

nlohmann::json to_json(const SavedTensor& tensor) {
  nlohmann::json parts = nlohmann::json::array();
  for (const StoredPart& part : tensor.parts) {
    nlohmann::json numbers{part.file, part.offset_bytes};
    if (part.slice != whole_of(tensor.shape)) {
      for (const std::int64_t offset : part.slice.offsets) numbers.push_back(offset);
      for (const std::int64_t size : part.slice.sizes) numbers.push_back(size);
    }
    parts.push_back(std::move(numbers));
  }
  return {{"dtype", name_of(tensor.dtype)}, {"parts", std::move(parts)}, {"shape", tensor.shape}};
}

void add_json(nlohmann::json& document, const Contents& contents) {
  nlohmann::json tensors = nlohmann::json::object();
  for (const auto& [name, tensor] : contents.tensors) tensors[name] = to_json(tensor);
  document["tensors"] = std::move(tensors);
  document["values"] = contents.values;
}

nlohmann::json to_json(const ManifestFile& file, int format) {
  nlohmann::json document{{"bytes", file.size_bytes}, {"name", file.name}, {"xxh3", file.xxh3}};
  if (format == kFormatOfWholeFiles) return document;
  document["chunk_bytes"] = file.chunk_bytes;
  nlohmann::json chunks = nlohmann::json::array();
  for (const Digest128 chunk : file.chunks) chunks.push_back(text_of(chunk));
  document["xxh3"] = std::move(chunks);
  return document;
}

nlohmann::json to_json(const std::vector<ManifestFile>& files, int format) {
  nlohmann::json documents = nlohmann::json::array();
  for (const ManifestFile& file : files) documents.push_back(to_json(file, format));
  return documents;
}

Extents extents_of(const nlohmann::json& numbers, std::size_t begin, std::size_t count) {
  Extents extents(count);
  for (std::size_t i = 0; i < count; ++i) extents[i] = whole_number<std::int64_t>(numbers.at(begin + i));
  return extents;
}

Expected<StoredPart> parse_part(const nlohmann::json& numbers, const Extents& shape) {
  StoredPart part{.file = whole_number<std::uint32_t>(numbers.at(0)),
                  .offset_bytes = whole_number<std::uint64_t>(numbers.at(1)),
                  .slice = {}};
  if (numbers.size() == 2) {
    part.slice = whole_of(shape);
    return part;
  }
  if (numbers.size() != 2 + 2 * shape.size())
    return failure(ErrorCode::kCorrupt, "a part has {} numbers for {} dimensions", numbers.size(),
                   shape.size());
  part.slice = {.offsets = extents_of(numbers, 2, shape.size()),
                .sizes = extents_of(numbers, 2 + shape.size(), shape.size())};
  return part;
}

Expected<SavedTensor> parse_tensor(const nlohmann::json& document) {
  const auto& type = document.at("dtype").get_ref<const std::string&>();
  const auto dtype = parse_dtype(type);
  if (!dtype) return failure(ErrorCode::kCorrupt, "it has the unknown type {}", one_line(type));
  const auto& shape = document.at("shape").get_ref<const nlohmann::json::array_t&>();
  SavedTensor tensor{.dtype = *dtype, .shape = extents_of(shape, 0, shape.size()), .parts = {}};
  const auto& parts = document.at("parts").get_ref<const nlohmann::json::array_t&>();
  tensor.parts.reserve(parts.size());
  for (const auto& numbers : parts) {
    auto part = parse_part(numbers, tensor.shape);
    if (!part) return std::unexpected(part.error());
    tensor.parts.push_back(*std::move(part));
  }
  return tensor;
}

Expected<Contents> parse_contents(const nlohmann::json& document) {
  Contents contents;
  for (const auto& [name, value] : document.at("tensors").get_ref<const nlohmann::json::object_t&>()) {
    auto tensor = parse_tensor(value);
    if (!tensor) return failure_within("tensor " + one_line(name), std::move(tensor));
    contents.tensors.emplace_hint(contents.tensors.end(), name, *std::move(tensor));
  }
  document.at("values").get_to(contents.values);
  return contents;
}

Expected<ManifestFile> parse_file(const nlohmann::json& document, int format) {
  ManifestFile file{.name = document.at("name"),
                    .size_bytes = whole_number<std::uint64_t>(document.at("bytes"))};
  if (file.name.find('/') != std::string::npos)
    return failure(ErrorCode::kCorrupt, "file name {} has a folder in it", one_line(file.name));
  const auto& xxh3 = document.at("xxh3");
  if (format == kFormatOfWholeFiles) {
    file.xxh3 = xxh3;
    return file;
  }
  file.chunk_bytes = whole_number<std::uint64_t>(document.at("chunk_bytes"));
  for (const auto& text : xxh3.get_ref<const nlohmann::json::array_t&>()) {
    const auto digest = parse_digest(text.get_ref<const std::string&>());
    if (!digest) return failure(ErrorCode::kCorrupt, "{} has an invalid digest", one_line(file.name));
    file.chunks.push_back(*digest);
  }
  return file;
}

Expected<std::vector<ManifestFile>> parse_files(const nlohmann::json& documents, int format) {
  std::vector<ManifestFile> files;
  for (const auto& document : documents.get_ref<const nlohmann::json::array_t&>()) {
    auto file = parse_file(document, format);
    if (!file) return std::unexpected(file.error());
    files.push_back(*std::move(file));
  }
  return files;
}

std::optional<BestBy> parse_best_by(const nlohmann::json& document) {
  if (document.is_null()) return std::nullopt;
  return BestBy{.metric = document.at("metric"), .most = document.at("most")};
}

Expected<CheckpointManifest> manifest_of(const nlohmann::json& body) {
  const auto format = whole_number<std::int32_t>(body.at("format"));
  if (format > kManifestFormat)
    return failure(ErrorCode::kInvalidArgument,
                   "it has format {}, and this version of Muster reads up to {}: "
                   "use the version that wrote it, or a newer one",
                   format, kManifestFormat);
  if (format < kFormatOfWholeFiles)
    return failure(ErrorCode::kCorrupt, "it has the unknown format {}", format);
  auto files = parse_files(body.at("files"), format);
  if (!files) return std::unexpected(files.error());
  CheckpointManifest manifest{.format = format,
                              .id = {.step = whole_number<std::uint64_t>(body.at("step")),
                                     .attempt = Attempt(whole_number<std::uint64_t>(body.at("attempt")))},
                              .job = body.at("job"),
                              .world_size = whole_number<std::int32_t>(body.at("world_size")),
                              .files = *std::move(files)};
  if (format == kFormatOfWholeFiles) return manifest;
  manifest.written_at = whole_number<std::int64_t>(body.at("written_at"));
  body.at("topology").get_to(manifest.topology);
  for (const auto& [name, value] : body.at("metrics").get_ref<const nlohmann::json::object_t&>())
    manifest.metrics[name] = value.get<double>();
  manifest.best_by = parse_best_by(body.at("best_by"));
  auto shared = parse_contents(body);
  if (!shared) return std::unexpected(shared.error());
  manifest.shared = *std::move(shared);
  for (const auto& document : body.at("own").get_ref<const nlohmann::json::array_t&>()) {
    auto own = parse_contents(document);
    if (!own) return std::unexpected(own.error());
    manifest.own.push_back(*std::move(own));
  }
  return manifest;
}

Status check_file(const ManifestFile& file) {
  const bool some = file.chunk_bytes > 0 && file.chunk_bytes <= kChunkLimit;
  if (!some ||
      file.chunks.size() != file.size_bytes / file.chunk_bytes + (file.size_bytes % file.chunk_bytes != 0))
    return failure(ErrorCode::kCorrupt, "{} digests, one for every {} bytes, do not cover the {} bytes of {}",
                   file.chunks.size(), file.chunk_bytes, file.size_bytes, one_line(file.name));
  return {};
}

// Checks that the parts of the tensor lie within the files, and that together they cover the tensor.
Status check_tensor(const SavedTensor& tensor, const std::vector<ManifestFile>& files) {
  if (Status covered = check_parts(tensor); !covered) return covered;
  for (const StoredPart& part : tensor.parts) {
    const auto bytes = bytes_of(tensor.dtype, part.slice.sizes);
    if (part.file >= files.size())
      return failure(ErrorCode::kCorrupt, "a part is in file {} of {}", part.file, files.size());
    const ManifestFile& file = files[part.file];
    if (!bytes || *bytes > file.size_bytes || part.offset_bytes > file.size_bytes - *bytes)
      return failure(ErrorCode::kCorrupt, "a part lies outside {}", one_line(file.name));
  }
  return {};
}

Status check_contents(const Contents& contents, const std::vector<ManifestFile>& files) {
  for (const auto& [name, tensor] : contents.tensors) {
    if (Status checked = check_tensor(tensor, files); !checked)
      return failure_within("tensor " + one_line(name), std::move(checked));
  }
  return {};
}

Status add_contents(Contents& to, Contents&& from, std::uint32_t first_file) {
  for (auto& [name, tensor] : from.tensors) {
    for (StoredPart& part : tensor.parts) part.file += first_file;
    const auto [found, added] = to.tensors.try_emplace(name, std::move(tensor));
    if (added) continue;
    SavedTensor& known = found->second;
    if (known.dtype != tensor.dtype || known.shape != tensor.shape)
      return failure(ErrorCode::kInvalidArgument, "tensor {} differs in type or shape between ranks", name);
    std::ranges::move(tensor.parts, std::back_inserter(known.parts));
  }
  for (auto& [key, value] : from.values) {
    const auto [found, added] = to.values.try_emplace(key, std::move(value));
    if (!added && found->second != value)
      return failure(ErrorCode::kInvalidArgument, "value {} differs between ranks", key);
  }
  return {};
}

std::string signed_text(const nlohmann::json& body) {
  const std::string text = body.dump();
  return fmt::format("{}{}{}{}{}", kBegin, text, kMiddle, xxh3_digest(text), kEnd);
}

// Returns the text of the body. Returns an error if the digest of the body is wrong.
Expected<std::string_view> signed_body(std::string_view text) {
  const std::size_t around = kBegin.size() + kMiddle.size() + kDigestDigits + kEnd.size();
  const std::size_t body_size = text.size() < around ? 0 : text.size() - around;
  const std::string_view body = body_size == 0 ? "" : text.substr(kBegin.size(), body_size);
  const std::string_view rest = body_size == 0 ? "" : text.substr(kBegin.size() + body_size);
  if (!text.starts_with(kBegin) || !rest.starts_with(kMiddle) || !rest.ends_with(kEnd))
    return failure(ErrorCode::kCorrupt, "not a manifest, or one that was cut short");
  if (rest.substr(kMiddle.size(), kDigestDigits) != xxh3_digest(body))
    return failure(ErrorCode::kCorrupt, "its digest does not match its content");
  return body;
}

template <class Value, class Parse>
Expected<Value> without_exceptions(std::string_view what, Parse parse) {
  try {
    return parse();
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "{}: {}", what, one_line(error.what()));
  }
}

}  // namespace

std::string encode_manifest(const CheckpointManifest& manifest) {
  nlohmann::json body = {{"format", manifest.format},
                         {"step", manifest.id.step},
                         {"attempt", manifest.id.attempt.value()},
                         {"job", manifest.job},
                         {"world_size", manifest.world_size},
                         {"files", to_json(manifest.files, manifest.format)}};
  if (manifest.format == kFormatOfWholeFiles) return signed_text(body);
  body["written_at"] = manifest.written_at;
  body["topology"] = manifest.topology;
  body["metrics"] = manifest.metrics;
  body["best_by"] = nullptr;
  if (manifest.best_by)
    body["best_by"] = {{"metric", manifest.best_by->metric}, {"most", manifest.best_by->most}};
  add_json(body, manifest.shared);
  body["own"] = nlohmann::json::array();
  for (const Contents& own : manifest.own) add_json(body["own"].emplace_back(), own);
  return signed_text(body);
}

Expected<CheckpointManifest> parse_manifest(std::string_view text) {
  const auto body = signed_body(text);
  if (!body) return std::unexpected(body.error());
  auto manifest = without_exceptions<CheckpointManifest>(
      "not a manifest", [&] { return manifest_of(parse_shallow_json(*body, Fractions::kTaken)); });
  if (!manifest) return manifest;
  // In format 1, a manifest must be exactly the text that encode_manifest() writes. Other white space,
  // repeated keys and unknown fields are refused, even if the digest is right.
  if (manifest->format == kFormatOfWholeFiles && encode_manifest(*manifest) != text)
    return failure(ErrorCode::kCorrupt, "it has fields that no manifest has");
  if (Status checked = check_manifest(*manifest); !checked) return std::unexpected(checked.error());
  return manifest;
}

std::string encode_rank_contents(const RankContents& contents) {
  nlohmann::json document{{"files", to_json(contents.files, kManifestFormat)}};
  add_json(document, contents.shared);
  add_json(document["own"], contents.own);
  return document.dump();
}

Expected<RankContents> parse_rank_contents(std::string_view text) {
  return without_exceptions<RankContents>("not the contents of a rank", [&]() -> Expected<RankContents> {
    const auto document = parse_shallow_json(text, Fractions::kTaken);
    auto files = parse_files(document.at("files"), kManifestFormat);
    if (!files) return std::unexpected(files.error());
    auto shared = parse_contents(document);
    if (!shared) return std::unexpected(shared.error());
    auto own = parse_contents(document.at("own"));
    if (!own) return std::unexpected(own.error());
    return RankContents{.files = *std::move(files), .shared = *std::move(shared), .own = *std::move(own)};
  });
}

Status add_rank(CheckpointManifest& manifest, std::int32_t rank, RankContents contents) {
  const auto first_file = static_cast<std::uint32_t>(manifest.files.size());
  std::ranges::move(contents.files, std::back_inserter(manifest.files));
  if (Status added = add_contents(manifest.shared, std::move(contents.shared), first_file); !added)
    return added;
  manifest.own.resize(static_cast<std::size_t>(manifest.world_size));
  return add_contents(manifest.own.at(static_cast<std::size_t>(rank)), std::move(contents.own), first_file);
}

Status check_manifest(const CheckpointManifest& manifest) {
  const auto ranks = static_cast<std::size_t>(std::max(manifest.world_size, 0));
  if (ranks == 0 || (manifest.format == kFormatOfWholeFiles && manifest.files.size() != ranks))
    return failure(ErrorCode::kCorrupt, "{} files for {} ranks", manifest.files.size(), manifest.world_size);
  if (manifest.format == kFormatOfWholeFiles) return {};
  std::set<std::string_view> names;
  for (const ManifestFile& file : manifest.files) {
    if (!names.insert(file.name).second)
      return failure(ErrorCode::kCorrupt, "{} is named twice", one_line(file.name));
    if (Status checked = check_file(file); !checked) return checked;
  }
  for (const auto& [name, value] : manifest.metrics)
    if (!std::isfinite(value))
      return failure(ErrorCode::kCorrupt, "metric {} is not a finite number", one_line(name));
  if (!manifest.own.empty() && manifest.own.size() != ranks)
    return failure(ErrorCode::kCorrupt, "{} ranks have values of their own, of {}", manifest.own.size(),
                   ranks);
  if (Status checked = check_contents(manifest.shared, manifest.files); !checked) return checked;
  for (std::size_t rank = 0; rank < manifest.own.size(); ++rank) {
    if (Status checked = check_contents(manifest.own[rank], manifest.files); !checked)
      return failure_within(fmt::format("rank {}", rank), std::move(checked));
  }
  return {};
}

}  // namespace muster
