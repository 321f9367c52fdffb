// Checkpoints in an agent's memory: what is restored from there, and when the disk's are used instead.
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/workers/memory_write_out.h"
#include "common/checkpoint/directory.h"
#include "common/checkpoint/memory_slot.h"
#include "common/checkpoint/reader.h"
#include "runtime/rank/reports.h"
#include "tests/require.h"
#include "tests/train/checkpoint_fixture.h"
#include "tests/train/memory_agent.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

constexpr std::uint64_t kRoom = 64 << 20;
constexpr std::uint64_t kPage = 4096;

CheckpointerOptions with_memory(std::int64_t every) {
  return {.memory_every = every, .keep = 100};
}

std::uint64_t size_of(const UniqueFd& fd) {
  struct stat status{};
  return fstat(fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

class MemoryTierTest : public CheckpointTest {
 protected:
  MemoryTierTest() { setenv("MUSTER_SOCKET", agent_.socket().c_str(), 1); }
  ~MemoryTierTest() override { unsetenv("MUSTER_SOCKET"); }

  // Afterwards steps 2 and 4 are in memory, and step 1 on the disk if `disk` is true.
  std::string train_four_steps(bool disk = true) {
    Training training(directory_, make_adam, with_memory(2));
    training.train(1);
    if (disk) EXPECT_TRUE(training.checkpoints.save(training.state));
    training.train(3);
    return training.result();
  }
  std::int64_t restored_step(std::int64_t memory_every = 2) {
    Training training(directory_, make_adam, with_memory(memory_every));
    return training.checkpoints.restore(training.state);
  }
  std::vector<Reports::MemorySlot> slots() const {
    return Reports(agent_.socket(), 0, 1).memory_slots(0).value();
  }
  // Damages one byte at `from_begin` of each slot.
  void damage(std::uint64_t from_begin) const {
    for (const auto& slot : slots()) {
      char byte = 0;
      EXPECT_EQ(pread(slot.fd.get(), &byte, 1, static_cast<off_t>(from_begin)), 1);
      byte = static_cast<char>(byte ^ 16);
      EXPECT_EQ(pwrite(slot.fd.get(), &byte, 1, static_cast<off_t>(from_begin)), 1);
    }
  }
  MemoryAgent agent_{kRoom};
};

TEST_F(MemoryTierTest, ResumesExactlyFromAStepThatIsOnlyInMemory) {
  std::string expected;
  at::Tensor generator;
  {
    Training undisturbed(directory_, make_adam, with_memory(4));
    undisturbed.train(1);
    ASSERT_TRUE(undisturbed.checkpoints.save(undisturbed.state));
    undisturbed.train(7);
    generator = at::detail::getDefaultCPUGenerator().get_state();
    undisturbed.train(3);
    expected = undisturbed.result();
  }
  torch::manual_seed(99);
  fs::remove_all(directory_ + "/step-1.attempt-1/rank-00000.safetensors");
  Training resumed(directory_, make_adam, with_memory(4));
  ASSERT_EQ(resumed.checkpoints.restore(resumed.state), 8) << "restored without looking at the disk";
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(generator));
  resumed.train(3);
  EXPECT_EQ(resumed.result(), expected);
}

TEST_F(MemoryTierTest, ResumesWithoutACheckpointOnTheDisk) {
  const std::string expected = train_four_steps(/*disk=*/false);
  Training resumed(directory_, make_adam, with_memory(2));
  EXPECT_EQ(resumed.checkpoints.restore(resumed.state), 4);
  EXPECT_EQ(resumed.result(), expected);
  resumed.train(1);
  EXPECT_EQ(resumed.checkpoints.restore(resumed.state), 4) << "the same attempt can restore it again";
}

TEST_F(MemoryTierTest, ANewerCheckpointOnTheDiskWins) {
  {
    Training training(directory_, make_adam, with_memory(2));
    training.train(5);
    ASSERT_TRUE(training.checkpoints.save(training.state));
  }
  EXPECT_EQ(restored_step(), 5);
}

TEST_F(MemoryTierTest, ALaterAttemptsCommitIsNotUndone) {
  train_four_steps();
  {
    Training training(directory_);  // sees only the disk
    ASSERT_EQ(training.checkpoints.restore(training.state), 1);
    training.train(1);
    ASSERT_TRUE(training.checkpoints.save(training.state));
  }
  EXPECT_EQ(restored_step(), 2) << "not step 4, which the earlier attempt had";
}

TEST_F(MemoryTierTest, AnAttemptWithoutASaveKeepsTheSlots) {
  train_four_steps();
  for (int attempt = 2; attempt < 5; ++attempt) EXPECT_EQ(restored_step(), 4) << attempt;
}

TEST_F(MemoryTierTest, DamagedBytesAreFoundAndTheDiskIsRead) {
  std::string on_disk;
  {
    Training training(directory_, make_adam, with_memory(2));
    training.train(1);
    ASSERT_TRUE(training.checkpoints.save(training.state));
    on_disk = training.result();
    training.train(3);
  }
  damage(9000);
  const Warnings warnings;
  Training resumed(directory_, make_adam, with_memory(2));
  ASSERT_EQ(resumed.checkpoints.restore(resumed.state), 1);
  EXPECT_EQ(resumed.result(), on_disk);
  EXPECT_THAT(warnings.lines(),
              Contains(AllOf(HasSubstr("cannot use the checkpoint in memory of step 4 of attempt 1"),
                             HasSubstr("are not those that were written"))));
}

// A part of the state is filled in before the damage is found, so no other checkpoint can be restored.
TEST_F(MemoryTierTest, LateDamageFailsOneAttemptIfTheDiskHasNothingAndTheNextStartsFresh) {
  const auto restore = [&](bool steps) {
    const Job job = make_job();
    at::Tensor large = at::zeros({3 << 20});
    TrainState state;
    state.add("large", large);
    Checkpointer checkpoints(job, {.memory_every = 1, .directory = directory_});
    const std::int64_t restored = checkpoints.restore(state);
    if (steps) checkpoints.step(state);
    return restored;
  };
  EXPECT_EQ(restore(true), 0);
  EXPECT_EQ(restore(false), 1);
  damage(2 * kChunkBytes);
  EXPECT_THAT([&] { restore(false); }, testing::ThrowsMessage<std::runtime_error>(
                                           HasSubstr("the checkpoint in memory is damaged, and")));
  EXPECT_EQ(restore(false), 0);
}

TEST_F(MemoryTierTest, DamagedDescriptionsAreFoundBeforeTheStateIsTouched) {
  train_four_steps();
  damage(kChunkBytes + 100);  // the descriptions follow the only chunk of tensors
  EXPECT_EQ(restored_step(), 1);
}

TEST_F(MemoryTierTest, ASlotWithADamagedHeaderIsIgnored) {
  train_four_steps();
  damage(size_of(slots().front().fd) - kPage + 20);
  EXPECT_EQ(restored_step(), 1);
}

TEST_F(MemoryTierTest, ASlotOfAnotherDirectoryBelongsToAnotherTraining) {
  train_four_steps();
  const std::string other = copy("other");
  Training training(other, make_adam, with_memory(2));
  EXPECT_EQ(training.checkpoints.restore(training.state), 1);
}

TEST_F(MemoryTierTest, TooLittleRoomIsReportedOnceAndTrainingContinues) {
  const MemoryAgent small(1 << 20);
  for (const auto& [socket, why] :
       {std::pair(small.socket(), "--memory-tier of 1 MiB has no room for two of 4 MiB"),
        std::pair(std::string(), "the program was not started by launch --memory-tier")}) {
    setenv("MUSTER_SOCKET", socket.c_str(), 1);
    const Warnings warnings;
    Training training(directory_, make_adam, with_memory(1));
    training.train(4);
    EXPECT_EQ(training.checkpoints.steps(), 4);
    ASSERT_THAT(warnings.lines(), SizeIs(1));
    EXPECT_THAT(warnings.lines()[0], AllOf(HasSubstr("no checkpoints are held in memory from step "),
                                           HasSubstr(why), HasSubstr("training goes on")));
  }
}

// The agent writes its slots to the disk when no attempt will restore them.
class MemoryWriteOutTest : public MemoryTierTest {
 protected:
  agent::MemoryWritten write_out() const {
    agent::HeldMemory held{.slots = {},
                           .directory = directory_,
                           .job = "j",
                           .attempt = Attempt(1),
                           .first_rank = Rank(0),
                           .local_world_size = 1,
                           .world_size = 1,
                           .patience = std::chrono::milliseconds(100)};
    for (auto& slot : slots()) held.slots.push_back(std::move(slot.fd));
    return agent::write_out(held);
  }
};

TEST_F(MemoryWriteOutTest, AHeldStepBecomesACheckpointLikeAnyOther) {
  const std::string expected = train_four_steps();
  EXPECT_EQ(write_out().told, "step 4, which was held in memory, is a checkpoint in " + directory_ + " now");
  const CheckpointId id{.step = 4, .attempt = Attempt(1)};
  const CheckpointDirectory directory(directory_);
  EXPECT_THAT(verify_files(directory.path_of(id), directory.read_manifest(id).value(), {}), SizeIs(0));
  EXPECT_FALSE(fs::exists(directory.path_of(id) + "/rank-00000.contents"));
  Training resumed(directory_);
  ASSERT_EQ(resumed.checkpoints.restore(resumed.state), 4);
  EXPECT_EQ(resumed.result(), expected);
}

TEST_F(MemoryWriteOutTest, NothingIsWrittenIfTheDiskHasANewerStep) {
  {
    Training training(directory_, make_adam, with_memory(2));
    training.train(5);
    ASSERT_TRUE(training.checkpoints.save(training.state));
  }
  EXPECT_EQ(write_out().told, "");
  EXPECT_FALSE(fs::exists(directory_ + "/step-4.attempt-1"));
}

TEST_F(MemoryWriteOutTest, DamagedStepsAndThoseOfATakenDirectoryAreNotCommitted) {
  train_four_steps();
  restored_step(0);  // attempt 2
  EXPECT_THAT(write_out().told,
              AllOf(HasSubstr("step 4, which was held in memory, is lost: "), HasSubstr("attempt 2 of job")));
  fs::remove(directory_ + "/attempts/000002.json");
  fs::remove(directory_ + "/attempts/000002.claim");
  damage(9000);
  EXPECT_EQ(write_out().told,
            "step 4, which was held in memory, is lost: what rank 0 holds in memory is damaged");
  EXPECT_FALSE(fs::exists(directory_ + "/step-4.attempt-1/manifest.json"));
  EXPECT_EQ(restored_step(0), 1);
}

// Each child resumes where the earlier one was killed. It must find one whole step, not older than the last
// complete one.
TEST_F(MemoryTierTest, AWriterThatIsKilledAtAnyTimeLeavesAWholeCheckpoint) {
  using Complete = std::atomic<std::int64_t>;
  void* const shared =
      mmap(nullptr, sizeof(Complete), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& complete = *new (shared) Complete(0);
  const auto train = [&] {
    alarm(60);
    const Job job = make_job();
    at::Tensor large = at::zeros({5 << 20});
    TrainState state;
    state.add("large", large);
    Checkpointer checkpoints(job, {.every = 1 << 30, .memory_every = 1, .directory = directory_});
    const std::int64_t step = checkpoints.restore(state);
    if (step < complete || !large.eq(static_cast<double>(step)).all().item<bool>()) _exit(1);
    for (;;) {
      large.fill_(static_cast<double>(checkpoints.steps() + 1));
      checkpoints.step(state);
      complete = checkpoints.steps() - 1;  // step() has waited for the earlier step's save
    }
  };
  std::mt19937 random(5);
  for (int child = 0; child < 8; ++child) {
    const std::int64_t before = complete;
    const pid_t pid = fork();
    if (pid == 0) {
      try {
        train();
      } catch (...) {
        _exit(2);
      }
    }
    int status = 0;
    while (complete < before + 3 && waitpid(pid, &status, WNOHANG) == 0) usleep(1000);
    usleep(random() % 40'000);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "child " << child << ": " << status;
  }
  munmap(shared, sizeof(Complete));
}

// Several ranks that communicate, with an agent.
class MemoryTierOnRanks : public MemoryTierTest {
 protected:
  // Returns rank 0's result of `train`.
  std::int64_t run(int ranks, const std::function<std::int64_t(Job&)>& train) {
    const std::string port = std::to_string(unused_port());
    const std::string file = scratch_ / "step";
    spawn(
        [&](Job& outer) {
          alarm(60);
          const auto world = read_world("tcp://127.0.0.1:" + port, outer.rank(), ranks,
                                        [](const char* name) { return std::getenv(name); });
          Job job = join(world.value(), std::nullopt, {}, std::nullopt);
          const std::int64_t step = train(job);
          if (job.rank() == 0) write_bytes(file, std::to_string(step));
          outer.barrier();
        },
        ranks);
    return std::stoll(read_bytes(file));
  }

 private:
  static int unused_port() {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    const bool bound = bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
    return bound ? ntohs(address.sin_port) : 0;
  }
};

TEST_F(MemoryTierOnRanks, RanksFindTheirNodesSlotsAndAnotherNumberOfRanksReadsTheDisk) {
  const auto value_of = [](std::int64_t step, std::int64_t tensor) {
    return static_cast<double>(100 * step + tensor);
  };
  const auto train = [&](Job& job, std::int64_t steps) {
    std::vector<at::Tensor> shared;
    at::Tensor own = at::zeros({1000});
    TrainState state;
    for (int i = 0; i < 6; ++i)
      state.add("shared" + std::to_string(i), shared.emplace_back(at::zeros({5000})));
    state.add("own", own);
    Checkpointer checkpoints(job, {.every = 3, .memory_every = 2, .directory = directory_});
    const std::int64_t restored = checkpoints.restore(state);
    for (std::size_t i = 0; restored > 0 && i < shared.size(); ++i)
      require(shared[i].eq(value_of(restored, static_cast<std::int64_t>(i))).all().item<bool>(), "a tensor");
    while (checkpoints.steps() < steps) {
      for (std::size_t i = 0; i < shared.size(); ++i)
        shared[i].fill_(value_of(checkpoints.steps() + 1, static_cast<std::int64_t>(i)));
      checkpoints.step(state);
    }
    require(checkpoints.wait(), "the save");
    return restored;
  };
  EXPECT_EQ(run(2, [&](Job& job) { return train(job, 5); }), 0);
  EXPECT_EQ(run(2, [&](Job& job) { return train(job, 0); }), 4);
  // This agent takes itself for one of two nodes, so the other node's part is missing.
  agent::HeldMemory held{.slots = {},
                         .directory = directory_,
                         .job = "",
                         .attempt = Attempt(2),
                         .first_rank = Rank(0),
                         .local_world_size = 1,
                         .world_size = 2,
                         .patience = std::chrono::milliseconds(100)};
  for (auto& slot : slots())
    if (slot.rank == 0) held.slots.push_back(std::move(slot.fd));
  EXPECT_EQ(agent::write_out(held).told,
            "step 4, which was held in memory, is lost: 1 of 2 ranks have not written their part");
  EXPECT_EQ(run(1, [&](Job& job) { return train(job, 0); }), 3);
}

// Each rank is on a node of its own.
TEST_F(MemoryTierOnRanks, TwoAttemptsPartsOfOneStepAreNotMixed) {
  run(2, [&](Job& job) {
    double value = 0;
    TrainState state;
    state.add("value", value);
    Checkpointer checkpoints(job, {.every = 1 << 30, .memory_every = 2, .directory = directory_});
    while (checkpoints.steps() < 2) checkpoints.step(state);
    return checkpoints.steps();
  });
  const auto write_out = [&](int rank) {
    agent::HeldMemory held{.slots = {},
                           .directory = directory_,
                           .job = "",
                           .attempt = Attempt(1),
                           .first_rank = Rank(rank),
                           .local_world_size = 1,
                           .world_size = 2,
                           .patience = std::chrono::milliseconds(100)};
    for (auto& slot : slots())
      if (slot.rank == rank) held.slots.push_back(std::move(slot.fd));
    return agent::write_out(held);
  };
  const std::string lost =
      "step 2, which was held in memory, is lost: 1 of 2 ranks have not written their part";
  for (const auto& slot : slots()) {
    auto header = read_slot_header(slot.fd.get());
    if (slot.rank == 0 || !header) continue;
    header->attempt = 7;
    header->digest = header->own_digest();
    ASSERT_EQ(pwrite(slot.fd.get(), &*header, sizeof *header, static_cast<off_t>(size_of(slot.fd) - kPage)),
              static_cast<ssize_t>(sizeof *header));
  }
  EXPECT_EQ(write_out(1).told, "");
  EXPECT_EQ(write_out(0).told, lost);
  // The agent also survives if it cannot look for the other ranks' files.
  fs::create_symlink("rank-00001.attempt-1.contents",
                     directory_ + "/step-2.attempt-1/rank-00001.attempt-1.contents");
  EXPECT_EQ(write_out(0).told, lost);
}

// Loads its scale before all ranks have agreed.
struct Scaler {
  double scale = 1;
  bool refuses = false;
  void save(SavedState& to) const { to.shared_value("scale", write_number(scale)); }
  void load(LoadedState& from) {
    if (refuses) throw std::runtime_error("too little memory");
    scale = from.number<double>("scale");
  }
};

TEST_F(MemoryTierOnRanks, NoRankTrainsOnAPartlyLoadedState) {
  const auto train = [&](Job& job, std::int64_t steps, bool refuses) -> std::int64_t {
    Scaler scaler;
    TrainState state;
    state.add("scaler", scaler);
    Checkpointer checkpoints(job, {.every = 1 << 30, .memory_every = 2, .directory = directory_});
    scaler.refuses = refuses && job.rank() == 1;
    try {
      checkpoints.restore(state);
    } catch (const std::runtime_error&) {
      return -1;
    }
    require(scaler.scale == 1, "an untouched state");
    while (checkpoints.steps() < steps) {
      scaler.scale = 2;
      checkpoints.step(state);
    }
    return 0;
  };
  EXPECT_EQ(run(2, [&](Job& job) { return train(job, 2, false); }), 0);
  EXPECT_EQ(run(2, [&](Job& job) { return train(job, 0, true); }), -1);
  EXPECT_EQ(run(2, [&](Job& job) { return train(job, 0, false); }), 0) << "the next attempt starts fresh";
}

}  // namespace
}  // namespace muster
