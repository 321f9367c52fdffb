#include "common/checkpoint/manifest.h"

#include <ctime>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "common/wire/json.h"

namespace muster {
namespace {

using testing::HasSubstr;

ManifestFile file_of(const std::string& name, std::uint64_t bytes) {
  ManifestFile file{.name = name, .size_bytes = bytes, .chunk_bytes = 16};
  for (std::uint64_t at = 0; at < bytes; at += 16)
    file.chunks.push_back(digest_of(name + std::to_string(at)));
  return file;
}

// Two ranks: one matrix split by columns, one vector that only rank 1 holds, and a generator for each rank.
CheckpointManifest example() {
  const auto generator = [](std::uint32_t file) {
    return Contents{.tensors = {{"rng.cpu", {Dtype::kU8, {8}, {{file, 56, whole_of({8})}}}}},
                    .values = {{"place", "int64:" + std::to_string(file)}}};
  };
  return {
      .id = {.step = 300, .attempt = Attempt(2)},
      .job = "job",
      .world_size = 2,
      .files = {file_of("rank-00000.safetensors", 100), file_of("rank-00001.safetensors", 64)},
      .written_at = 1'700'000'000,
      .topology = {{"nodes", "2"}},
      .metrics = {{"accuracy", 0.1}, {"loss", -3e-300}},
      .best_by = BestBy{.metric = "accuracy", .most = true},
      .shared = {.tensors = {{"model.w",
                              {Dtype::kF32, {2, 3}, {{0, 16, {{0, 0}, {2, 2}}}, {1, 16, {{0, 2}, {2, 1}}}}}},
                             {"model.b", {Dtype::kBF16, {5}, {{1, 40, whole_of({5})}}}},
                             {"model.scalar", {Dtype::kF64, {}, {{0, 32, whole_of({})}}}},
                             {"model.empty", {Dtype::kI64, {0, 7}, {{0, 40, whole_of({0, 7})}}}}},
                 .values = {{"lr", "double:0.1"}, {"text", "string:\xc3\xa4 \"\n"}}},
      .own = {generator(0), generator(1)}};
}

std::string signed_text(const nlohmann::json& body) {
  return nlohmann::json{{"body", body}, {"xxh3", xxh3_digest(body.dump())}}.dump();
}

// The error for a manifest with this change.
template <class Change>
std::string refusal(Change change, const CheckpointManifest& manifest = example()) {
  auto body = nlohmann::json::parse(encode_manifest(manifest)).at("body");
  change(body);
  const auto parsed = parse_manifest(signed_text(body));
  return parsed ? "taken" : parsed.error().message();
}

TEST(Manifest, IsUnchangedWhenItIsRead) {
  const CheckpointManifest manifest = example();
  const auto parsed = parse_manifest(encode_manifest(manifest));
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(*parsed, manifest);
  EXPECT_EQ(encode_manifest(*parsed), encode_manifest(manifest));
}

TEST(Manifest, DetectsEveryOneBitErrorAndEveryTruncation) {
  CheckpointManifest first_format{.format = 1,
                                  .id = {.step = 7, .attempt = Attempt(3)},
                                  .job = "job",
                                  .world_size = 1,
                                  .files = {{.name = "a", .size_bytes = 10, .xxh3 = xxh3_digest("a")}}};
  for (const CheckpointManifest& manifest : {first_format, example()}) {
    const std::string text = encode_manifest(manifest);
    EXPECT_EQ(parse_manifest(text).value(), manifest);
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_FALSE(parse_manifest(flipped)) << flipped;
    }
    for (std::size_t length = 0; length < text.size(); ++length)
      EXPECT_FALSE(parse_manifest(text.substr(0, length)));
  }
}

TEST(Manifest, OfTheFirstFormatIsRefusedUnlessItIsWrittenTheSame) {
  const auto said = [](const char* size, const char* name, const char* step, const char* world_size,
                       const char* more) {
    const auto manifest = parse_manifest(signed_text(nlohmann::json::parse(fmt::format(
        R"({{"attempt":1,"files":[{{"bytes":{},"name":"{}","xxh3":"x"}}],"format":1,"job":"j","step":{},"world_size":{}{}}})",
        size, name, step, world_size, more))));
    return manifest ? "taken" : manifest.error().message();
  };
  EXPECT_EQ(said("3", "a", "7", "1", ""), "taken");
  EXPECT_THAT(said("3", "a", "7", "1", R"(,"more":1)"), HasSubstr("fields that no manifest has"));
  EXPECT_THAT(said("-3", "a", "7", "1", ""), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(said("3", "a", "true", "1", ""), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(said("3", "a", "7", "4294967297", ""), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(said("3", "../\\n", "7", "1", ""), HasSubstr("file name ../? has a folder in it"));
  EXPECT_THAT(said("3", "a", "7", "2", ""), HasSubstr("1 files for 2 ranks"));
}

TEST(Manifest, OfANewerFormatSaysWhatToDo) {
  const auto newer = parse_manifest(signed_text({{"format", 3}, {"whatever", "it has"}}));
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(newer.error().message(), HasSubstr("it has format 3, and this version of Muster reads up to 2: "
                                                 "use the version that wrote it, or a newer one"));
}

TEST(Manifest, UnknownFieldsAreIgnored) {
  EXPECT_EQ(refusal([](auto& body) { body["compression"] = {{"kind", "none"}}; }), "taken");
}

TEST(Manifest, PartsThatDoNotCoverTheirTensorAreRefused) {
  const auto with_parts = [](const char* parts) {
    return refusal([&](auto& body) { body["tensors"]["model.w"]["parts"] = nlohmann::json::parse(parts); });
  };
  EXPECT_EQ(with_parts("[[0,16,0,0,2,2],[1,16,0,2,2,1]]"), "taken");
  EXPECT_EQ(with_parts("[[0,16]]"), "taken");
  EXPECT_EQ(with_parts("[[0,16,0,0,2,2]]"), "tensor model.w: its 1 parts hold 16 bytes of 24");
  EXPECT_EQ(with_parts("[]"), "tensor model.w: its 0 parts hold 0 bytes of 24");
  EXPECT_EQ(with_parts("[[0,16],[1,16,0,2,2,1]]"),
            "tensor model.w: its parts [0:2,0:3] and [0:2,2:3] overlap");
  EXPECT_EQ(with_parts("[[0,16,0,0,1,2],[0,16,0,1,1,2],[0,16,1,0,1,2]]"),
            "tensor model.w: its parts [0:1,0:2] and [0:1,1:3] overlap");
  EXPECT_EQ(with_parts("[[0,16,0,0,2,4]]"),
            "tensor model.w: its part [0:2,0:4] is not within the shape [2, 3]");
  EXPECT_THAT(with_parts("[[0,16,0,0,9223372036854775807,2]]"), HasSubstr("is not within the shape"));
  EXPECT_THAT(with_parts("[[0,16,9223372036854775807,0,2,2]]"), HasSubstr("is not within the shape"));
  EXPECT_THAT(with_parts("[[0,16],[1,16,0,0,0,3]]"),
              HasSubstr("its part [0:0,0:3] does not fill whole bytes"));
  EXPECT_THAT(with_parts("[[0,16,0,0]]"), HasSubstr("a part has 4 numbers for 2 dimensions"));
  EXPECT_THAT(with_parts("[[0]]"), HasSubstr("not a manifest"));
  EXPECT_THAT(with_parts("[[2,16]]"), HasSubstr("a part is in file 2 of 2"));
  EXPECT_THAT(with_parts("[[0,77]]"), HasSubstr("a part lies outside rank-00000.safetensors"));
  EXPECT_THAT(with_parts("[[0,18446744073709551615]]"), HasSubstr("a part lies outside"));
  EXPECT_THAT(with_parts("[[-1,16]]"), HasSubstr("not a whole number, or too large"));
  EXPECT_THAT(with_parts("[[0,16.5]]"), HasSubstr("not a whole number, or too large"));
}

TEST(Manifest, ImpossibleValuesAreRefused) {
  EXPECT_THAT(refusal([](auto& body) { body["tensors"]["model.w"]["dtype"] = "F33"; }),
              HasSubstr("tensor model.w: it has the unknown type F33"));
  EXPECT_THAT(refusal([](auto& body) { body["tensors"]["model.w"]["shape"] = {-2, -3}; }),
              HasSubstr("a tensor of F32 cannot have the shape [-2, -3]"));
  EXPECT_THAT(refusal([](auto& body) { body["files"][1]["name"] = body["files"][0]["name"]; }),
              HasSubstr("rank-00000.safetensors is named twice"));
  EXPECT_THAT(
      refusal([](auto& body) { body["files"][1]["bytes"] = 65; }),
      HasSubstr("4 digests, one for every 16 bytes, do not cover the 65 bytes of rank-00001.safetensors"));
  EXPECT_THAT(refusal([](auto& body) { body["files"][1]["chunk_bytes"] = 0; }),
              HasSubstr("one for every 0 bytes"));
  EXPECT_THAT(refusal([](auto& body) { body["files"][1]["xxh3"][0] = "abc"; }),
              HasSubstr("rank-00001.safetensors has an invalid digest"));
  EXPECT_THAT(refusal([](auto& body) { body["own"].push_back(body["own"][0]); }),
              HasSubstr("3 ranks have values of their own, of 2"));
  EXPECT_THAT(
      refusal([](auto& body) { body["own"][1]["tensors"]["rng.cpu"]["parts"] = nlohmann::json::array(); }),
      HasSubstr("rank 1: tensor rng.cpu: its 0 parts"));
  EXPECT_THAT(refusal([](auto& body) { body.erase("own"); }), HasSubstr("key 'own' not found"));
  EXPECT_EQ(refusal([](auto& body) { body["own"] = nlohmann::json::array(); }), "taken");
}

TEST(Manifest, IsAssembledFromTheRanksContents) {
  const CheckpointManifest whole = example();
  CheckpointManifest manifest = whole;
  manifest.files.clear();
  manifest.shared = {};
  manifest.own.clear();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    RankContents contents{.files = {whole.files[rank]}, .shared = {}, .own = whole.own[rank]};
    contents.own.tensors["rng.cpu"].parts[0].file = 0;
    if (rank == 0) contents.shared.values = whole.shared.values;
    for (const auto& [name, tensor] : whole.shared.tensors) {
      SavedTensor mine{.dtype = tensor.dtype, .shape = tensor.shape, .parts = {}};
      for (StoredPart part : tensor.parts) {
        if (part.file != rank) continue;
        part.file = 0;
        mine.parts.push_back(part);
      }
      if (!mine.parts.empty()) contents.shared.tensors[name] = mine;
    }
    auto told = parse_rank_contents(encode_rank_contents(contents));
    ASSERT_TRUE(told) << told.error().message();
    ASSERT_TRUE(add_rank(manifest, static_cast<std::int32_t>(rank), *std::move(told)));
    EXPECT_EQ(check_manifest(manifest).has_value(), rank == 1)
        << "rank 1's part of model.w is missing at first";
  }
  EXPECT_EQ(manifest, whole);
}

TEST(Manifest, DisagreementsBetweenRanksAreNamed) {
  const auto telling = [](const Contents& shared) {
    CheckpointManifest manifest = example();
    const Status added = add_rank(manifest, 1, {.files = {}, .shared = shared, .own = {}});
    return added ? "taken" : added.error().message();
  };
  EXPECT_EQ(telling({.tensors = {{"model.w", {Dtype::kF32, {3, 2}, {}}}}, .values = {}}),
            "tensor model.w differs in type or shape between ranks");
  EXPECT_EQ(telling({.tensors = {}, .values = {{"lr", "double:0.2"}}}), "value lr differs between ranks");
  EXPECT_EQ(telling({.tensors = {}, .values = {{"lr", "double:0.1"}}}), "taken");
  EXPECT_THAT(parse_rank_contents("{}").error().message(), HasSubstr("not the contents of a rank"));
}

TEST(Manifest, WithAnInfiniteMetricIsRefusedBeforeItIsWritten) {
  CheckpointManifest manifest = example();
  manifest.metrics["loss"] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(check_manifest(manifest).error().message(), "metric loss is not a finite number");
}

// Each tensor is split into one part for each of 64 ranks. With 512 ranks this takes 0.6 s in an optimised
// build; this test is not optimised.
TEST(Manifest, OfALargeStateIsReadFast) {
  constexpr std::int64_t kRanks = 64;
  constexpr std::int64_t kTensors = 1250;
  CheckpointManifest manifest{.id = {.step = 1, .attempt = Attempt(1)}, .job = "job", .world_size = kRanks};
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    manifest.files.push_back({.name = fmt::format("rank-{:05}.safetensors", rank),
                              .size_bytes = 4 * 8192 * kTensors,
                              .chunks = std::vector<Digest128>(10)});
  for (std::int64_t i = 0; i < kTensors; ++i) {
    SavedTensor tensor{.dtype = Dtype::kF32, .shape = {kRanks * 8, 1024}, .parts = {}};
    for (std::int64_t rank = 0; rank < kRanks; ++rank)
      tensor.parts.push_back({.file = static_cast<std::uint32_t>(rank),
                              .offset_bytes = static_cast<std::uint64_t>(4 * 8192 * i),
                              .slice = {{rank * 8, 0}, {8, 1024}}});
    manifest.shared.tensors[fmt::format("model.layers.{}.weight", i)] = std::move(tensor);
  }
  const std::clock_t begin = std::clock();  // processor time, since other tests run too
  const std::string text = encode_manifest(manifest);
  const std::clock_t encoded = std::clock();
  const auto parsed = parse_manifest(text);
  const std::clock_t read = std::clock();
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_TRUE(*parsed == manifest);
  EXPECT_LT(read - encoded, 20 * (encoded - begin)) << "each part is not compared with all others";
}

}  // namespace
}  // namespace muster
