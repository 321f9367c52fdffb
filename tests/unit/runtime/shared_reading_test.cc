#include "runtime/checkpoint/shared_reading.h"

#include <csignal>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/scratch_directory.h"
#include "tests/written_checkpoint.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Members are processes, the first one is the test's. More chunks than slots.
class SharedReadingTest : public testing::Test {
 protected:
  struct Result {
    Status status;
    std::string bytes;
  };

  Result read(SharedReading& reading, const Slice& slice, std::size_t members, std::byte* target = nullptr) {
    const SavedTensor& tensor = manifest_.shared.tensors.at("large");
    Result result{.status = {}, .bytes = std::string(bytes_of(tensor.dtype, slice.sizes).value(), '?')};
    if (target == nullptr) target = reinterpret_cast<std::byte*>(result.bytes.data());
    auto requests = requests_for("large", tensor, slice, target);
    CHECK(requests, "{}", requests.error().message());
    reading.announce(*requests);
    for (++shared_->announced; shared_->announced < members;) sched_yield();
    std::vector<pid_t> processes;
    for (std::size_t member = 0; member < members; ++member) {
      while (shared_->processes[member] == 0) sched_yield();
      processes.push_back(shared_->processes[member]);
    }
    reading.watch(processes);
    result.status = reading.read(step_, *std::move(requests));
    return result;
  }

  // In a process of its own, that ends with what `work` returns.
  void start_member(const std::string& address, std::size_t member, std::size_t members,
                    const std::function<int(SharedReading&)>& work) {
    const pid_t process = fork();
    if (process != 0) {
      shared_->processes[member] = process;
      return;
    }
    auto reading = SharedReading::open(address, manifest_.files, member, members);
    _exit(reading ? work(**reading) : 100);
  }
  std::unique_ptr<SharedReading> create(std::size_t members) {
    auto reading = SharedReading::create(manifest_.files, members);
    CHECK(reading, "{}", reading.error().message());
    shared_->processes[0] = getpid();
    return *std::move(reading);
  }
  int status_of(std::size_t member) const {
    int status = -1;
    waitpid(shared_->processes[member], &status, 0);
    return status;
  }

  const std::string& whole() const { return checkpoint_.tensors.at("large").bytes; }
  std::string columns() const {
    std::string bytes;
    for (std::size_t row = 0; row < 500; ++row) bytes += whole().substr((row * 300 + 100) * 4, 50 * 4);
    return bytes;
  }

  static constexpr CheckpointId kId{.step = 7, .attempt = Attempt(1)};
  static constexpr std::uint64_t kChunk = 8192;
  const Slice all_{{0, 0}, {500, 300}};
  const Slice columns_{{0, 100}, {500, 50}};
  ScratchDirectory scratch_;
  CheckpointDirectory directory_{scratch_.path().string()};
  std::string step_ = directory_.path_of(kId);
  WrittenCheckpoint checkpoint_{.tensors = {{"large", written_tensor(Dtype::kF32, {500, 300}, 1)}},
                                .chunk_bytes = kChunk};
  CheckpointManifest manifest_ = write_checkpoint(directory_, kId, checkpoint_);
  struct Shared {
    std::atomic<std::size_t> announced;
    std::atomic<pid_t> processes[4];
  };
  Shared* shared_ = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
};

TEST_F(SharedReadingTest, GivesEachMemberWhatItAsksFor) {
  const auto first = create(4);
  start_member(first->address(), 1, 4, [&](SharedReading& reading) {
    const Result result = read(reading, columns_, 4);
    return result.status && result.bytes == columns() ? 0 : 1;
  });
  start_member(first->address(), 2, 4, [&](SharedReading& reading) {  // nothing
    return read(reading, {{0, 0}, {0, 300}}, 4).status ? 0 : 1;
  });
  start_member(first->address(), 3, 4, [&](SharedReading& reading) {
    const Result result = read(reading, {{499, 0}, {1, 300}}, 4);
    return result.status && result.bytes == whole().substr(499 * 1200) ? 0 : 1;
  });
  const Result result = read(*first, all_, 4);
  EXPECT_TRUE(result.status);
  EXPECT_TRUE(result.bytes == whole());
  for (const std::size_t member : {1, 2, 3}) EXPECT_EQ(status_of(member), 0) << member;
}

TEST_F(SharedReadingTest, ATornChunkIsNamedByAllThatNeedItAndTheOthersGetTheirs) {
  const std::string path = step_ + "/rank-00001.safetensors";
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(5 * kChunk + 10);
  file << "torn";
  file.close();
  const auto first = create(3);
  const std::string why = fmt::format("cannot use {}: its bytes {} to {} are not those that were written",
                                      path, 5 * kChunk, 6 * kChunk);
  start_member(first->address(), 1, 3, [&](SharedReading& reading) {
    const Result result = read(reading, columns_, 3);
    return !result.status && result.status.error().code() == ErrorCode::kCorrupt &&
                   result.status.error().message().starts_with(why)
               ? 0
               : 1;
  });
  start_member(first->address(), 2, 3, [&](SharedReading& reading) {
    const Result result = read(reading, {{0, 0}, {250, 300}}, 3);
    return result.status && result.bytes == whole().substr(0, 250 * 1200) ? 0 : 1;
  });
  const Result result = read(*first, all_, 3);
  ASSERT_FALSE(result.status);
  EXPECT_EQ(result.status.error().message(), why + "; they belong to tensor large");
  EXPECT_EQ(status_of(1), 0);
  EXPECT_EQ(status_of(2), 0);
}

TEST_F(SharedReadingTest, AMemberThatIsKilledIsNotWaitedFor) {
  const auto first = create(2);
  start_member(first->address(), 1, 2, [&](SharedReading& reading) {
    // It falls over its own memory, in the middle.
    std::signal(SIGSEGV, SIG_DFL);
    void* const memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(static_cast<char*>(memory) + (300 << 10), 100 << 10, PROT_NONE);
    (void)read(reading, all_, 2, static_cast<std::byte*>(memory));
    return 1;
  });
  const TimePoint begin = Clock::now();
  const Result result = read(*first, all_, 2);
  EXPECT_LT(Clock::now() - begin, SharedReading::kPatience / 2);
  EXPECT_TRUE(result.status);
  EXPECT_TRUE(result.bytes == whole());
  EXPECT_TRUE(WIFSIGNALED(status_of(1)));
}

TEST_F(SharedReadingTest, MemoryThatIsNotThereOrOfOthersIsRefused) {
  const auto first = create(2);
  EXPECT_EQ(SharedReading::open("elsewhere 1 2", manifest_.files, 1, 2).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(SharedReading::open(first->address() + "9", manifest_.files, 1, 2));
  const auto some = std::span(manifest_.files).first(1);
  EXPECT_TRUE(SharedReading::open(first->address(), manifest_.files, 1, 2));
  ManifestFile large = manifest_.files[0];
  large.chunk_bytes = 64 << 10;
  EXPECT_THAT(SharedReading::open(first->address(), std::span(&large, 1), 1, 2).error().message(),
              HasSubstr("does not have the size of the memory of 2 members"));
  EXPECT_FALSE(SharedReading::is_worth_it(some, 2));
}

}  // namespace
}  // namespace muster
