#include "common/checkpoint/catalog.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_directory.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::HasSubstr;

class Catalog : public testing::Test {
 protected:
  CheckpointId commit(std::uint64_t step, Attempt attempt, double accuracy) {
    const CheckpointId id{.step = step, .attempt = attempt};
    WrittenCheckpoint checkpoint = example_checkpoint();
    checkpoint.metrics["accuracy"] = accuracy;
    write_checkpoint(directory_, id, checkpoint);
    return id;
  }
  std::vector<CatalogEntry> catalog() { return read_catalog(directory_).value(); }
  std::string index() {
    std::ifstream file(scratch_ / "index.json");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchDirectory scratch_;
  CheckpointDirectory directory_{scratch_.path().string()};
};

TEST_F(Catalog, ListsTheCheckpoints) {
  EXPECT_TRUE(catalog().empty());
  const Attempt first = directory_.begin_attempt("job").value().attempt;
  const CheckpointId good = commit(100, first, 0.5);
  commit(300, Attempt(9), 0.5);
  std::filesystem::create_directory(scratch_ / "step-200.attempt-1");
  ASSERT_TRUE(directory_.pin(good));
  const auto all = catalog();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].known.id, good);
  EXPECT_TRUE(all[0].known.usable && all[0].known.counts && all[0].known.pinned);
  EXPECT_EQ(all[0].written_at, 1'700'000'100);
  EXPECT_EQ(all[0].size_bytes,
            std::filesystem::file_size(scratch_ / "step-100.attempt-1/rank-00000.safetensors") +
                std::filesystem::file_size(scratch_ / "step-100.attempt-1/rank-00001.safetensors"));
  EXPECT_FALSE(all[1].known.committed);
  EXPECT_TRUE(all[2].known.usable);
  EXPECT_FALSE(all[2].known.counts) << "its attempt has no file";
  EXPECT_EQ(latest_of(all).value(), good);
}

TEST_F(Catalog, TheIndexIsOnlyAHint) {
  const Attempt first = directory_.begin_attempt("job").value().attempt;
  commit(100, first, 0.5);
  const CheckpointId best = commit(200, first, 0.75);
  EXPECT_EQ(best_of(catalog(), BestBy{"accuracy", true}).value(), best);
  const std::string good = index();
  EXPECT_THAT(good, HasSubstr("0.75"));
  // The catalog believes the index as long as the manifest is the same file.
  std::string other = good;
  other.replace(other.find("0.75"), 4, "0.25");
  std::ofstream(scratch_ / "index.json") << other;
  EXPECT_EQ(best_of(catalog(), BestBy{"accuracy", true}).value().step, 100u);
  // A manifest that is written again is a different file.
  ASSERT_TRUE(directory_.remove(best));
  commit(200, first, 0.125);
  EXPECT_EQ(best_of(catalog(), BestBy{"accuracy", true}).value().step, 100u);
  EXPECT_THAT(index(), HasSubstr("0.125"));
  // The mark matches, but the last field that is read does not exist.
  std::string half = index();
  ASSERT_NE(half.find("\"metrics\":"), std::string::npos);
  half.replace(half.rfind("\"metrics\":"), 10, "\"other\":");
  const std::uint64_t size_bytes = catalog()[1].size_bytes;
  std::ofstream(scratch_ / "index.json") << half;
  EXPECT_EQ(catalog()[1].size_bytes, size_bytes);
  for (const char* broken : {"", "{", "[]", R"({"format":1,"checkpoints":[]})", R"({"format":7})",
                             R"({"format":1,"checkpoints":{"step-200.attempt-1":5}})",
                             R"({"format":1,"checkpoints":{"step-200.attempt-1":{"manifest":1}}})"}) {
    std::ofstream(scratch_ / "index.json") << broken;
    EXPECT_EQ(best_of(catalog(), BestBy{"accuracy", false}).value().step, 200u) << broken;
    EXPECT_THAT(index(), HasSubstr("0.125")) << broken;
  }
}

TEST_F(Catalog, SaysWhyACheckpointCannotBeUsed) {
  const Attempt first = directory_.begin_attempt("job").value().attempt;
  commit(100, first, 0.5);
  std::ofstream(scratch_ / "step-100.attempt-1/manifest.json") << "?";
  const auto all = catalog();
  EXPECT_TRUE(all[0].known.committed);
  EXPECT_FALSE(all[0].known.usable);
  EXPECT_THAT(all[0].damage.value().message(), HasSubstr("not a manifest"));
  EXPECT_EQ(latest_of(all).error().code(), ErrorCode::kNotFound);
}

// The manifest's time and size stay the same, as after a fault of the disk.
TEST_F(Catalog, TheIndexHidesNoDamageOfACheckpointThatAnAttemptSkipped) {
  const Attempt first = directory_.begin_attempt("job").value().attempt;
  commit(100, first, 0.5);
  commit(200, first, 0.5);
  EXPECT_TRUE(catalog()[1].known.usable);
  const std::string manifest = scratch_ / "step-200.attempt-1/manifest.json";
  const auto written_at = std::filesystem::last_write_time(manifest);
  std::fstream(manifest, std::ios::in | std::ios::out) << "?";
  std::filesystem::last_write_time(manifest, written_at);
  EXPECT_TRUE(catalog()[1].known.usable) << "the index cannot know";
  ASSERT_EQ(directory_.begin_attempt("job").value().resume->step, 100u);
  EXPECT_FALSE(catalog()[1].known.usable);
  EXPECT_TRUE(catalog()[1].known.committed);
}

TEST_F(Catalog, AManifestThatCannotBeLookedForIsNotTakenForMissing) {
  directory_.begin_attempt("job").value();
  std::filesystem::create_symlink("step-100.attempt-1", scratch_ / "step-100.attempt-1");
  const auto all = catalog();
  EXPECT_TRUE(all[0].known.committed);
  EXPECT_FALSE(all[0].known.usable);
  EXPECT_THAT(all[0].damage.value().message(), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(Catalog, TheBestNeedsAMetric) {
  const Attempt first = directory_.begin_attempt("job").value().attempt;
  commit(100, first, 0.5);
  EXPECT_THAT(best_of(catalog(), {}).error().message(), HasSubstr("--metric NAME --mode min|max"));
  EXPECT_THAT(best_of(catalog(), BestBy{"loss", false}).error().message(), HasSubstr("has the metric loss"));
}

TEST_F(Catalog, APinnedCheckpointIsNotRemoved) {
  const CheckpointId id = commit(100, directory_.begin_attempt("job").value().attempt, 0.5);
  ASSERT_TRUE(directory_.pin(id));
  EXPECT_EQ(directory_.remove(id).error().code(), ErrorCode::kPermission);
  EXPECT_TRUE(directory_.read_manifest(id));
  ASSERT_TRUE(directory_.unpin(id));
  EXPECT_TRUE(directory_.remove(id));
  EXPECT_FALSE(directory_.pin(id)) << "it does not exist";
  commit(100, id.attempt, 0.5);
  std::filesystem::create_symlink("pinned", scratch_ / "step-100.attempt-1/pinned");
  EXPECT_EQ(directory_.remove(id).error().code(), ErrorCode::kPermission) << "it cannot be looked for";
}

}  // namespace
}  // namespace muster
