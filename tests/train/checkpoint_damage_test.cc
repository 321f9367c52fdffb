// Damaged or missing checkpoints: training never loads damaged bytes, and it continues.
#include <array>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "common/checkpoint/directory.h"
#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::HasSubstr;

// On several ranks that communicate.
class CheckpointDamageOnRanks : public CheckpointTest {};

TEST_F(CheckpointTest, AnyFlippedBitIsFoundAndTheEarlierCheckpointIsUsed) {
  save_two();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 120; ++round) {
    const std::string damaged = copy("damaged");
    // A third of the rounds damages the manifest, a third the shard's header, a third any byte of the shard.
    const std::string path =
        damaged + "/step-2.attempt-1/" + (round % 3 == 0 ? "manifest.json" : "rank-00000.safetensors");
    const auto size =
        round % 3 == 1 ? std::min<std::uint64_t>(fs::file_size(path), 2000) : fs::file_size(path);
    const auto byte = static_cast<std::streamoff>(random() % size);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(byte);
    const char flipped = static_cast<char>(file.get() ^ (1 << random() % 8));
    file.seekp(byte);
    file.put(flipped);
    file.close();
    ASSERT_EQ(restored_step(damaged), 1) << path << " byte " << byte;
  }
}

// Fewer under sanitizers, where a load takes ten times as long.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int kDamages = 150;
#else
constexpr int kDamages = 1000;
#endif
// Flipped bits, cuts, exchanged and repeated pieces, in the shard and the manifest.
TEST_F(CheckpointTest, NoDamageOfAnyKindGetsIntoAModel) {
  save_two();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t limit) { return random() % std::max<std::size_t>(limit, 1); };
  SmallNet expected, loaded;
  load_model(expected, directory_, {.step = 1});
  load_model(loaded, directory_, {.step = 2});
  ASSERT_NE(bytes_of(expected), bytes_of(loaded));
  const std::string newest = directory_ + "/step-2.attempt-1/";
  const Warnings quiet;
  for (int round = 0; round < kDamages; ++round) {
    const std::string name = round % 3 == 0 ? "manifest.json" : "rank-00000.safetensors";
    const std::string whole = read_bytes(newest + name);
    std::string bytes = whole;
    const std::size_t size = 1 + below(whole.size() / 4);
    const std::size_t from = below(whole.size() - size);
    const std::size_t to = below(whole.size() - size);
    switch (round % 5) {
      case 0:
      case 1: bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8)); break;
      case 2: bytes.resize(below(bytes.size())); break;
      case 3: bytes.replace(to, size, whole, from, size); break;
      default: bytes.insert(to, whole, from, size); break;
    }
    if (bytes == whole) continue;
    write_bytes(newest + name, bytes);
    // Parts that the model does not need may be damaged: the newest checkpoint is loaded as it was saved.
    SmallNet net;
    const auto step = load_model(net, directory_).step;
    ASSERT_EQ(bytes_of(net), bytes_of(step == 1 ? expected : loaded)) << name << ", round " << round;
    EXPECT_EQ(step, 1) << name << ", round " << round;
    write_bytes(newest + name, whole);
  }
  fs::copy_file(directory_ + "/step-1.attempt-1/rank-00000.safetensors", newest + "rank-00000.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(load_model(loaded, directory_).step, 1) << "the other checkpoint's file";
}

// Three ranks; each rank's file in place of each other's.
TEST_F(CheckpointDamageOnRanks, ExchangedAndRepeatedFilesOfRanksAreFound) {
  constexpr int kRanks = 3;
  spawn(
      [&](Job& job) {
        const NoiseDataset dataset(8);
        SmallNet net;
        torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
        DataLoader<Example> loader(dataset, {}, job.rank(), job.world_size());
        TrainState state(net, optimizer, loader);
        Checkpointer checkpoints(job, {.every = 1, .directory = directory_});
        for (int step = 1; step <= 2; ++step) {
          const at::NoGradGuard no_grad;
          for (at::Tensor& parameter : net.parameters()) parameter.fill_(static_cast<double>(step));
          checkpoints.step(state);
        }
        require(checkpoints.wait(), "two saves");
      },
      kRanks);
  const std::string newest = directory_ + "/step-2.attempt-1/";
  std::array<std::string, kRanks> whole;
  for (int rank = 0; rank < kRanks; ++rank)
    whole[static_cast<std::size_t>(rank)] = read_bytes(newest + rank_file_name(rank));
  const Warnings quiet;
  SmallNet net;
  int damaged = 0;
  for (std::size_t places = 0; places < 27; ++places) {
    const std::array of{places % 3, places / 3 % 3, places / 9};
    for (int rank = 0; rank < kRanks; ++rank)
      write_bytes(newest + rank_file_name(rank), whole[of[static_cast<std::size_t>(rank)]]);
    const bool is_whole = of == std::array<std::size_t, 3>{0, 1, 2};
    ASSERT_EQ(load_model(net, directory_).step, is_whole ? 2 : 1) << fmt::format("{}", fmt::join(of, ", "));
    for (const at::Tensor& parameter : net.parameters())
      ASSERT_TRUE(parameter.eq(is_whole ? 2.0 : 1.0).all().item<bool>());
    damaged += is_whole ? 0 : 1;
  }
  EXPECT_EQ(damaged, 26);
}

TEST_F(CheckpointTest, SavesFailWhileTheDirectoryIsGone) {
  Training training(directory_);
  training.train(1);
  ASSERT_TRUE(training.checkpoints.save(training.state));
  fs::rename(directory_, scratch_ / "away");
  write_bytes(directory_, "");  // so that no save creates it again
  const Warnings warnings;
  training.train(1);
  EXPECT_FALSE(training.checkpoints.save(training.state));
  ASSERT_EQ(warnings.lines().size(), 1U);
  EXPECT_THAT(warnings.lines()[0], HasSubstr("training goes on, the newest one is that of step 1"));
  fs::remove(directory_);
  fs::rename(scratch_ / "away", directory_);
  EXPECT_TRUE(training.checkpoints.save(training.state));
  EXPECT_EQ(load_model(*training.net, directory_).step, 2);
}

TEST_F(CheckpointTest, FallsBackFromATornOrMissingShardAndAForeignManifest) {
  save_two();
  const std::string shard = "/step-2.attempt-1/rank-00000.safetensors";
  const std::string manifest = "/step-2.attempt-1/manifest.json";
  const std::string torn = copy("torn");
  fs::resize_file(torn + shard, fs::file_size(torn + shard) - 1);
  EXPECT_EQ(restored_step(torn), 1);
  const std::string missing = copy("missing");
  fs::remove(missing + shard);
  EXPECT_EQ(restored_step(missing), 1);
  const std::string foreign = copy("foreign");
  fs::copy_file(foreign + "/step-1.attempt-1/manifest.json", foreign + manifest,
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(restored_step(foreign), 1);
  EXPECT_EQ(restored_step(directory_), 2);
}

}  // namespace
}  // namespace muster
