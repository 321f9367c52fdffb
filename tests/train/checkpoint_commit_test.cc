// Ranks that save together while one is slow, fails, or sees another disk: every committed checkpoint is
// readable, and all ranks learn the same outcome.
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>
#include <utility>

#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/save_agreement.h"
#include "tests/require.h"
#include "tests/scratch_directory.h"
#include "tests/train/training.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

struct LargeNet : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  explicit LargeNet(std::int64_t buffer_bytes) {
    linear = register_module("linear", torch::nn::Linear(12, 5));
    register_buffer("large", at::zeros({buffer_bytes}, at::kByte));
  }
};

struct LargeTraining {
  LargeTraining(Job& a_job, const std::string& directory, std::int64_t buffer_bytes,
                std::chrono::milliseconds timeout)
      : job(a_job),
        net(buffer_bytes),
        checkpoints(job, {.every = 1000, .directory = directory, .keep = 100, .commit_timeout = timeout}) {}
  void fill(double value) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : net.parameters()) parameter.fill_(value);
  }
  Job job;
  NoiseDataset dataset{8};
  LargeNet net;
  torch::optim::SGD optimizer{net.parameters(), torch::optim::SGDOptions(0.1)};
  DataLoader<Example> loader{dataset, {}, 0, 1};
  Checkpointer checkpoints;
  TrainState state{net, optimizer, loader};
};

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)  // they slow all of it down
constexpr std::chrono::milliseconds kShortCommitTimeout{1000};
#else
constexpr std::chrono::milliseconds kShortCommitTimeout{20};
#endif

// Rank 0 takes many times commit_timeout for its own shard. Meanwhile no other rank may give up and retry
// alone. On a busy machine rank 1, whose shard is small, may be late, or rank 0 may start so late that rank 1
// gives up. This test does not check these cases, so it accepts a later step without such a save.
TEST(CheckpointCommit, TheOthersWaitForASlowRank0AndItsCommitIsReadable) {
  const ScratchDirectory scratch;
  const auto buffer_bytes = [](const Job& job) { return job.rank() == 0 ? std::int64_t{200 << 20} : 1; };
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", buffer_bytes(job), kShortCommitTimeout);
        for (const int value : {1, 2}) {
          training.fill(value);
          bool is_saved = false;
          for (int tries = 0; !is_saved && tries < 60; ++tries) {
            job.barrier();
            training.checkpoints.step(training.state);
            is_saved = training.checkpoints.save(training.state);
          }
          require(is_saved, "the save failed");
        }
      },
      2);
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", buffer_bytes(job), std::chrono::minutes(1));
        require(training.checkpoints.restore(training.state) >= 2, "the second checkpoint cannot be read");
        for (const at::Tensor& parameter : training.net.parameters())
          require(parameter.eq(2).all().item<bool>(), "another step's parameters");
      },
      2);
}

// Rank 1 is late once: that save fails on both ranks, and they make the next one together.
TEST(CheckpointCommit, ALateRankFailsTheSaveOnAllAndTheyRetryTogether) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        LargeTraining training(job, scratch / "checkpoints", 1, std::chrono::seconds(1));
        training.checkpoints.step(training.state);
        if (job.rank() == 1) job.store()->wait({"given up"});
        require(!training.checkpoints.save(training.state), "a save without rank 1");
        if (job.rank() == 0) job.store()->set("given up", "");
        job.barrier();
        require(training.checkpoints.save(training.state), "the second try");
        training.checkpoints.step(training.state);
        job.barrier();
        require(training.checkpoints.save(training.state), "the next step");
        require(training.checkpoints.restore(training.state) == 2, "step 2 cannot be read");
      },
      2);
}

// On rank 1 gathering the state fails once.
struct FailingNet : SmallNet {
  BucketOrder bucket_order() {
    if (std::exchange(*fails, false)) throw std::runtime_error("out of memory");
    return {};
  }
  void check_bucket_order(const BucketOrder& /*order*/) const {}
  void set_bucket_order(const BucketOrder& /*order*/) {}
  std::shared_ptr<bool> fails = std::make_shared<bool>(false);
};

TEST(CheckpointCommit, ARankThatCannotGatherItsStateFailsTheSaveOnAllAndTheyRetryTogether) {
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        alarm(60);  // less than the others' patience
        FailingNet net;
        torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
        const NoiseDataset dataset(8);
        DataLoader<Example> loader(dataset, {}, 0, 1);
        TrainState state(net, optimizer, loader);
        Checkpointer checkpoints(job, {.every = 1000, .directory = scratch / "checkpoints"});
        checkpoints.step(state);
        *net.fails = job.rank() == 1;
        require(!checkpoints.save(state), "a save without rank 1's part");
        require(checkpoints.save(state), "the second try");
      },
      2);
}

// Both ranks use the same directory at first; then rank 1's is replaced by one with the same attempts.
TEST(CheckpointCommit, AShardThatRank0CannotSeeIsNotCommitted) {
  const ScratchDirectory scratch;
  for (const char* name : {"shared", "elsewhere"}) fs::create_directories(scratch / name);
  for (const char* name : {"0", "1"}) fs::create_directory_symlink(scratch / "shared", scratch / name);
  spawn(
      [&](Job& job) {
        const std::string mine = scratch / std::to_string(job.rank());
        LargeTraining training(job, mine, 1, std::chrono::minutes(1));
        training.checkpoints.step(training.state);
        if (job.rank() == 1) {
          fs::copy(scratch / "shared/attempts", scratch / "elsewhere/attempts", fs::copy_options::recursive);
          fs::remove(mine);
          fs::create_directory_symlink(scratch / "elsewhere", mine);
        }
        job.barrier();
        require(!training.checkpoints.save(training.state), "rank 1's shard is elsewhere");
      },
      2);
  EXPECT_TRUE(fs::exists(scratch / "elsewhere/step-1.attempt-1/rank-00001.safetensors"));
  EXPECT_FALSE(fs::exists(scratch / "shared/step-1.attempt-1"));
}

c10::intrusive_ptr<c10d::TCPStore> serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Rank 1 saves. Rank 0, which serves the store, ends after it has received rank 1's file.
Status saved_while_rank_0_ends(const std::string& path, bool after_commit) {
  const CommitPlan plan{.directory = CheckpointDirectory(path),
                        .job = "job",
                        .attempt = Attempt(1),
                        .timeout = std::chrono::minutes(1),
                        .patience = std::chrono::minutes(1)};
  require(plan.directory.begin_attempt(plan.job).has_value(), "the attempt begins");
  auto server = serve_store();
  std::optional<Meeting> meeting(std::in_place, server, 0, 2);
  Status saved;
  std::jthread rank_1([&, port = server->getPort()] {
    c10d::TCPStoreOptions client;
    client.port = port;
    Meeting mine(c10::make_intrusive<c10d::TCPStore>("127.0.0.1", client), 1, 2);
    saved = commit_checkpoint(plan, mine, 3, [](const std::string&) { return RankContents(); });
  });
  meeting->give("");
  require(meeting->collect(plan.timeout).has_value(), "rank 1's file arrives");
  if (after_commit) std::ofstream(plan.directory.manifest_path({.step = 3, .attempt = plan.attempt})) << "{}";
  meeting.reset();
  server.reset();
  rank_1.join();
  return saved;
}

TEST(CheckpointCommit, ARankReadsTheManifestIfRank0EndsWithItsStore) {
  const ScratchDirectory scratch;
  EXPECT_TRUE(saved_while_rank_0_ends(scratch / "after", true));
  const Status before = saved_while_rank_0_ends(scratch / "before", false);
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().code(), ErrorCode::kTimedOut);
  EXPECT_TRUE(before.error().message().starts_with("rank 0 did not answer: ")) << before.error().message();
}

TEST(CheckpointCommit, ADirectoryThatIsMovedDuringASaveIsTheReasonOfTheFailure) {
  const ScratchDirectory scratch;
  const CommitPlan plan{.directory = CheckpointDirectory(scratch / "checkpoints"),
                        .job = "job",
                        .attempt = Attempt(1),
                        .timeout = std::chrono::minutes(1),
                        .patience = std::chrono::minutes(1)};
  ASSERT_TRUE(plan.directory.begin_attempt(plan.job));
  const auto server = serve_store();
  Meeting meeting(server, 0, 1);
  const Status saved = commit_checkpoint(plan, meeting, 3, [&](const std::string& directory) {
    fs::rename(plan.directory.path(), scratch / "away");
    return Expected<RankContents>(system_failure("cannot rename to " + directory + "/x", ENOENT));
  });
  ASSERT_FALSE(saved);
  EXPECT_TRUE(saved.error().message().starts_with("the checkpoint directory " + plan.directory.path() +
                                                  " is gone (moved or removed during the training)"))
      << saved.error().message();
  EXPECT_FALSE(fs::exists(plan.directory.path()));
}

TEST(CheckpointCommit, ATextThatIsNotUtf8FailsTheSaveOnAllAndTheyRetryTogether) {
  EXPECT_THROW(SavedState().own("\xff", at::zeros({1})), std::invalid_argument);
  EXPECT_THROW(SavedState().own_value("name", "\xff"), std::invalid_argument);
  const ScratchDirectory scratch;
  spawn(
      [&](Job& job) {
        alarm(60);  // less than the others' patience
        std::string text = "\xff";
        TrainState state;
        state.add("text", text);
        Checkpointer checkpoints(job, {.directory = scratch / "checkpoints"});
        require(!checkpoints.save(state), "a save of bytes that are not UTF-8");
        text = "bytes";
        require(checkpoints.save(state), "the second try");
      },
      2);
}

// A rank that saves with the others and learns what is wrong: an empty text if nothing is.
class Agreeing {
 public:
  explicit Agreeing(Job& job) : meeting_(job.store(), job.rank(), job.world_size()) {}
  std::string hear(const Expected<SavedState>& state) {
    meeting_.open(std::to_string(++saves_));
    const auto share = agreement_.agree(meeting_, state);
    return share ? "" : share.error().message();
  }

 private:
  Meeting meeting_;
  SaveAgreement agreement_{/*check_replicas=*/true, std::chrono::seconds(20), {}};
  int saves_ = 0;
};

TEST(SaveAgreement, AllRanksReceiveAFailureOfAnyLengthWhole) {
  spawn(
      [](Job& job) {
        alarm(60);
        Agreeing all(job);
        for (const int failing : {0, 1}) {
          for (std::size_t size = 40; size < 80; ++size) {
            Expected<SavedState> state;
            const std::string why(size, 'x');
            if (job.rank() == failing) state = failure(ErrorCode::kUnavailable, "{}", why);
            require(all.hear(state).ends_with(": " + why), "the reason");
          }
        }
      },
      2);
}

TEST(SaveAgreement, AllRanksLearnThatOneRankCannotReadItsState) {
  spawn(
      [](Job& job) {
        alarm(60);
        Agreeing all(job);
        for (const int failing : {0, 1}) {
          SavedState state;
          state.shared("tensor", at::empty({2}, job.rank() == failing ? at::kMeta : at::kCPU));
          require(all.hear(state).contains(fmt::format("rank {}: ", failing)), "a tensor without bytes");
        }
        require(all.hear(SavedState()).empty(), "the next save");
      },
      2);
}

// Each rank also has slices, shapes and names of its own.
TEST(SaveAgreement, ComparesSharedPartsOfRanksThatDifferElsewhere) {
  spawn(
      [](Job& job) {
        alarm(60);
        Agreeing all(job);
        const auto hear = [&](double bias, const std::string& rate) {
          SavedState state;
          state.own("place", at::zeros({job.rank() + 1}));
          state.of_first("counts", at::zeros({job.rank() + 1}));
          state.slice("moments", at::full({2}, job.rank()), {.shape = {4}, .offsets = {2 * job.rank()}});
          state.shared("bias", at::full({5}, bias));
          state.shared_value("rate", rate);
          return all.hear(state);
        };
        require(hear(1, "0.1").empty(), "equal shared parts");
        require(hear(job.rank(), "0.1").starts_with("bias of rank 1 differs from that of rank 0"), "bias");
        require(hear(1, std::to_string(job.rank())).starts_with("rate of rank 1 differs"), "rate");
      },
      2);
}

TEST(SaveAgreement, SuccessiveSavesCompareAllOfATensor) {
  spawn(
      [](Job& job) {
        alarm(60);
        Agreeing all(job);
        const at::Tensor large = at::zeros({400'000});  // more than one save compares
        if (job.rank() == 1) large[-1] = 1;
        SavedState state;
        state.shared("large", large);
        bool is_seen = false;
        for (int save = 0; save < 2; ++save) is_seen = !all.hear(state).empty() || is_seen;
        require(is_seen, "the last element");
      },
      2);
}

}  // namespace
}  // namespace muster
