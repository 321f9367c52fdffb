#include "common/checkpoint/reader.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>

#include "tests/scratch_directory.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::HasSubstr;

class CheckpointReader : public testing::Test {
 protected:
  CheckpointReader() { manifest_ = write_checkpoint(directory_, kId, checkpoint_); }

  // Reads with the manifest on disk.
  Expected<std::string> read(const std::string& name, const Slice& slice, int threads = 1,
                             ReadBy by = ReadBy::kCache) {
    const SavedTensor& tensor = manifest_.shared.tensors.at(name);
    std::string bytes(bytes_of(tensor.dtype, slice.sizes).value(), '?');
    auto requests = requests_for(name, tensor, slice, reinterpret_cast<std::byte*>(bytes.data()));
    if (!requests) return std::unexpected(requests.error());
    if (Status done = read_parts(step_, manifest_.files, *std::move(requests), threads, by); !done)
      return std::unexpected(done.error());
    return bytes;
  }
  std::vector<std::string> damages() {
    const auto manifest = directory_.read_manifest(kId);
    if (!manifest) return {manifest.error().message()};
    std::vector<std::string> texts;
    for (const Damage& damage : verify_files(step_, *manifest, {.threads = 2})) texts.push_back(damage.text);
    return texts;
  }

  static constexpr CheckpointId kId{.step = 7, .attempt = Attempt(1)};
  ScratchDirectory scratch_;
  CheckpointDirectory directory_{scratch_.path().string()};
  std::string step_ = directory_.path_of(kId);
  WrittenCheckpoint checkpoint_ = example_checkpoint();
  CheckpointManifest manifest_;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
// Writes a new file, because ext4 waits for the disk when a file is truncated and rewritten.
void write(const std::string& path, const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

TEST_F(CheckpointReader, ReadsEveryTensorAsItWasWritten) {
  for (const auto& [name, tensor] : checkpoint_.tensors)
    EXPECT_EQ(read(name, whole_of(tensor.shape)), tensor.bytes) << name;
}

TEST_F(CheckpointReader, ReadsASliceAcrossThePartsOfSeveralRanks) {
  const std::string& whole = checkpoint_.tensors.at("model.linear.weight").bytes;
  std::string columns;
  for (std::size_t row = 3; row < 13; ++row) columns += whole.substr((row * 9 + 2) * 4, 5 * 4);
  EXPECT_EQ(read("model.linear.weight", {{3, 2}, {10, 5}}), columns);
  EXPECT_THAT(read("model.linear.weight", {{3, 2}, {14, 5}}).error().message(),
              HasSubstr("tensor model.linear.weight: [3:17,2:7] is not within the shape [16, 9]"));
}

TEST_F(CheckpointReader, ReadsOnlyTheChunksThatItNeeds) {
  // The end of rank 1's file belongs to another tensor: damage there is not read.
  const std::string path = step_ + "/rank-00001.safetensors";
  std::string bytes = content_of(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(path, bytes);
  EXPECT_TRUE(read("model.linear.weight", whole_of({16, 9})));
  EXPECT_EQ(damages().size(), 1u);
}

TEST_F(CheckpointReader, DamageIsNamedByFileBytesAndTensor) {
  const StoredPart& part = manifest_.shared.tensors.at("model.linear.weight").parts.at(1);
  const std::string path = step_ + "/rank-00001.safetensors";
  std::string bytes = content_of(path);
  const std::uint64_t place = part.offset_bytes + 100;
  bytes[place] = static_cast<char>(bytes[place] ^ 16);
  write(path, bytes);
  const std::uint64_t chunk = place / 256 * 256;
  const auto refused = read("model.linear.weight", whole_of({16, 9}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(refused.error().message(),
            fmt::format("cannot use {}: its bytes {} to {} are not those that were written; "
                        "they belong to tensor model.linear.weight",
                        path, chunk, chunk + 256));
  const auto past_cache = read("model.linear.weight", whole_of({16, 9}), 1, ReadBy::kDirect);
  ASSERT_FALSE(past_cache);
  EXPECT_EQ(past_cache.error().message(), refused.error().message());
  const auto mapped = read("model.linear.weight", whole_of({16, 9}), 1, ReadBy::kMapping);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().message(), refused.error().message());
  const auto found = damages();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], HasSubstr(fmt::format("{}: bytes {} to {} are not", path, chunk, chunk + 256)));
  EXPECT_THAT(found[0],
              HasSubstr(fmt::format("model.linear.weight[8:16,0:9] from byte {} on", part.offset_bytes)));
}

TEST_F(CheckpointReader, AMissingFileAndAPipeInItsPlaceAreNamed) {
  const std::string path = step_ + "/rank-00000.safetensors";
  std::filesystem::remove(path);
  EXPECT_EQ(read("model.linear.weight", whole_of({16, 9})).error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(damages(), testing::ElementsAre(HasSubstr("cannot open " + path)));
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(damages(), testing::ElementsAre(HasSubstr(path + ": it is not a regular file")));
}

// The result of a faulty writer: all digests are right.
TEST_F(CheckpointReader, AHeaderThatContradictsTheManifestIsDamage) {
  SavedTensor& tensor = manifest_.shared.tensors.at("model.linear.bias");
  tensor.dtype = Dtype::kI32;
  ASSERT_TRUE(write_file_durably(directory_.manifest_path(kId), encode_manifest(manifest_)));
  EXPECT_THAT(damages(),
              testing::ElementsAre(
                  HasSubstr("rank-00000.safetensors: "
                            "its header and the manifest disagree about tensor model.linear.bias[0:8]"),
                  HasSubstr("model.linear.bias[8:16]")));
}

// A tensor that is split among several threads, by rows and by columns.
TEST_F(CheckpointReader, SeveralThreadsReadTheSame) {
  const Extents shape{2500, 5000};
  checkpoint_.tensors = {{"large", written_tensor(Dtype::kF64, shape, 9)}};
  checkpoint_.chunk_bytes = 1 << 20;
  manifest_ = write_checkpoint(directory_, kId, checkpoint_);
  const std::string& bytes = checkpoint_.tensors.at("large").bytes;
  EXPECT_TRUE(read("large", whole_of(shape), 3) == bytes);
  EXPECT_TRUE(read("large", whole_of(shape), 3, ReadBy::kDirect) == bytes);
  EXPECT_TRUE(read("large", whole_of(shape), 3, ReadBy::kMapping) == bytes);
  const auto column = read("large", {{0, 4999}, {2500, 1}}, 3);
  ASSERT_TRUE(column);
  for (std::size_t row = 0; row < 2500; ++row)
    ASSERT_EQ(column->substr(row * 8, 8), bytes.substr((row * 5000 + 4999) * 8, 8)) << row;
  std::uint64_t seen = 0;
  EXPECT_TRUE(
      verify_files(step_, manifest_, {.threads = 3, .progress = [&](std::uint64_t more) { seen += more; }})
          .empty());
  EXPECT_EQ(seen, manifest_.files[0].size_bytes + manifest_.files[1].size_bytes);
}

// The damage may be before, in or after the bytes that are read from its chunk.
TEST_F(CheckpointReader, AFlippedBitIsFoundByEveryReadOfItsChunk) {
  const Extents shape{250, 500};
  constexpr std::uint64_t kRowBytes = 500 * 8;
  checkpoint_.tensors = {{"large", written_tensor(Dtype::kF64, shape, 9)}};
  checkpoint_.chunk_bytes = 16 << 10;
  manifest_ = write_checkpoint(directory_, kId, checkpoint_);
  const StoredPart part = manifest_.shared.tensors.at("large").parts.front();
  const std::string path = step_ + "/" + manifest_.files[part.file].name, good = content_of(path);
  const Slice rows{{part.slice.offsets[0] + 3, 0}, {25, 500}};
  const std::uint64_t begin = part.offset_bytes + 3 * kRowBytes, end = begin + 25 * kRowBytes;
  const auto chunk_of = [&](std::uint64_t place) { return place / checkpoint_.chunk_bytes; };
  int found = 0;
  constexpr int kTries = 300;
  for (unsigned seed = 1; seed <= kTries; ++seed) {
    std::mt19937 random(seed);
    std::string bad = good;
    const std::size_t place = std::uniform_int_distribution<std::size_t>(0, end + 3 * kRowBytes)(random);
    bad[place] = static_cast<char>(bad[place] ^ (1 << random() % 8));
    write(path, bad);
    const bool is_hit = chunk_of(place) >= chunk_of(begin) && chunk_of(place) <= chunk_of(end - 1);
    found += is_hit ? 1 : 0;
    for (const ReadBy by : {ReadBy::kCache, ReadBy::kDirect, ReadBy::kMapping})
      EXPECT_EQ(read("large", rows, 2, by).has_value(), !is_hit) << "seed " << seed;
  }
  EXPECT_GT(found, kTries / 3);
  EXPECT_LT(found, kTries);
}

// Flips bits; truncates, extends, exchanges, copies and partly zeroes files.
TEST_F(CheckpointReader, RandomDamageIsAlwaysFound) {
  ASSERT_TRUE(damages().empty());
  const std::vector<std::string> names{"rank-00000.safetensors", "rank-00001.safetensors", "manifest.json"};
  std::vector<std::string> good;
  for (const std::string& name : names) good.push_back(content_of(step_ + "/" + name));
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    std::vector<std::string> bad = good;
    const std::size_t which = below(3);
    std::string& file = bad[which];
    switch (below(6)) {
      case 0:
      case 1: {
        const std::size_t place = below(file.size());
        file[place] = static_cast<char>(file[place] ^ (1 << below(8)));
        break;
      }
      case 2: file.resize(below(file.size())); break;
      case 3: file += std::string(1 + below(300), '\0'); break;
      case 4: std::swap(file, bad[(which + 1 + below(2)) % 3]); break;
      default: file = bad[(which + 1 + below(2)) % 3]; break;
    }
    for (std::size_t i = 0; i < 3; ++i)
      if (bad[i] != good[i]) write(step_ + "/" + names[i], bad[i]);
    EXPECT_FALSE(damages().empty()) << "seed " << seed;
    for (std::size_t i = 0; i < 3; ++i)
      if (bad[i] != good[i]) write(step_ + "/" + names[i], good[i]);
  }
  EXPECT_TRUE(damages().empty());
}

// Written by the previous version, by two ranks: a network of four layers after six steps of Adam.
class FirstFormat : public testing::Test {
 protected:
  FirstFormat() {
    std::filesystem::copy(GOLDEN_DIRECTORY "/checkpoint_format_1", scratch_.path(),
                          std::filesystem::copy_options::recursive);
  }
  Expected<CheckpointManifest> contents() {
    auto manifest = directory_.read_manifest(kId);
    if (!manifest) return manifest;
    return with_contents(step_, *std::move(manifest), /*verified=*/true);
  }

  static constexpr CheckpointId kId{.step = 6, .attempt = Attempt(1)};
  ScratchDirectory scratch_;
  CheckpointDirectory directory_{scratch_.path().string()};
  std::string step_ = directory_.path_of(kId);
};

TEST_F(FirstFormat, IsReadCompletely) {
  EXPECT_THAT(directory_.resumable().value(), testing::ElementsAre(kId));
  const auto manifest = contents();
  ASSERT_TRUE(manifest) << manifest.error().message();
  EXPECT_EQ(manifest->world_size, 2);
  EXPECT_EQ(manifest->shared.values.at("optimizer.lr.0"), "double:0.01");
  for (const Contents& own : manifest->own) EXPECT_EQ(own.tensors.at("rng.cpu").shape, Extents{5056});
  EXPECT_EQ(manifest->shared.tensors.at("optimizer.linear4.bias.exp_avg").shape, Extents{5});
  // The values that the training itself printed for its parameters and buffers at the end.
  std::string bytes;
  const auto append = [&](const std::string& name) {
    const SavedTensor& tensor = manifest->shared.tensors.at("model." + name);
    std::string more(bytes_of(tensor.dtype, tensor.shape).value(), '?');
    auto requests =
        requests_for(name, tensor, whole_of(tensor.shape), reinterpret_cast<std::byte*>(more.data()));
    ASSERT_TRUE(read_parts(step_, manifest->files, requests.value()));
    bytes += more;
  };
  for (const char* layer : {"linear1", "norm", "linear2", "linear3", "linear4"})
    for (const char* what : {".weight", ".bias"}) append(std::string(layer) + what);
  for (const char* buffer : {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"})
    append(buffer);
  EXPECT_EQ(xxh3_digest(bytes), "3b945ebd66c853eb2898161e11350f00");
  EXPECT_TRUE(verify_files(step_, *directory_.read_manifest(kId), {}).empty());
}

TEST_F(FirstFormat, DamageIsNamedByItsTensor) {
  const auto manifest = contents();
  ASSERT_TRUE(manifest);
  const SavedTensor& tensor = manifest->shared.tensors.at("model.linear2.weight");
  const std::string path = step_ + "/" + manifest->files[tensor.parts[0].file].name;
  std::string bytes = content_of(path);
  bytes[tensor.parts[0].offset_bytes] = static_cast<char>(bytes[tensor.parts[0].offset_bytes] ^ 1);
  write(path, bytes);
  EXPECT_THAT(contents().error().message(), HasSubstr("cannot use " + path + ": its digest is"));
  const auto damages = verify_files(step_, *directory_.read_manifest(kId), {});
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_THAT(damages[0].text, HasSubstr("tensor model.linear2.weight"));
  bytes[8] = '?';  // in the header
  write(path, bytes);
  EXPECT_FALSE(contents());
  EXPECT_EQ(verify_files(step_, *directory_.read_manifest(kId), {}).size(), 1u);
}

}  // namespace
}  // namespace muster
