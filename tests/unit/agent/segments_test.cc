#include "agent/io/mpi/segments.h"

#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/io/mpi/mapped_files.h"
#include "common/base/process.h"
#include "common/base/text.h"

namespace muster::agent {
namespace {

namespace fs = std::filesystem;

class Segments : public testing::Test {
 protected:
  ~Segments() override {
    for (const int node : {1, 11}) remove_segments_below(job_, NodeId(node), std::nullopt);
  }
  SegmentsOwner owner(int node, std::uint32_t incarnation) const {
    return {.job = job_, .node = NodeId(node), .incarnation = Incarnation(incarnation)};
  }
  // A directory with a file in it, as an MPI library would leave it.
  std::string made(const SegmentsOwner& owner, std::uint64_t attempt) {
    auto path = make_segments_directory(owner, Attempt(attempt));
    EXPECT_TRUE(path) << path.error().message();
    if (!path) return "";
    std::ofstream(*path + "/vader_segment") << "shared";
    return *path;
  }

  // A unique name, so that other tests, and this one run in parallel, use others.
  const std::string job_ = fmt::format("segments-test-{}", getpid());
};

TEST_F(Segments, AreInADirectoryOfTheAttemptThatOthersMayNotEnter) {
  const std::string path = made(owner(1, 2), 3);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0700U);
  EXPECT_TRUE(path.starts_with("/dev/shm/")) << path;
  EXPECT_NE(made(owner(1, 1), 3), path) << "of another incarnation";
  EXPECT_NE(made(owner(11, 2), 3), path) << "of another node";
}

TEST_F(Segments, OfAnEarlierAttemptAreRemovedByTheNext) {
  const std::string first = made(owner(1, 1), 1);
  const std::string other = made(owner(11, 1), 1);
  const std::string second = made(owner(1, 1), 2);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second));
  EXPECT_TRUE(fs::exists(other)) << "node 11 is not node 1";
  remove_segments(owner(1, 1));
  EXPECT_FALSE(fs::exists(second));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(Segments, OfDeadAgentsAreRemovedByTheirIncarnation) {
  const std::string first = made(owner(1, 9), 1);
  const std::string second = made(owner(1, 10), 1);
  const std::string third = made(owner(1, 11), 1);
  remove_segments_below(job_, NodeId(1), Incarnation(10));
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second) && fs::exists(third)) << "9 is below 10, and 11 is not";
  remove_segments_below(job_, NodeId(1), std::nullopt);
  EXPECT_FALSE(fs::exists(second) || fs::exists(third));
}

TEST_F(Segments, ThatRanksHaveMappedAreRemovedWithTheDirectory) {
  const std::string directory = made(owner(1, 1), 1);
  const std::string mapped = "/dev/shm/mpich_shm_" + job_;
  const std::string other = "/dev/shm/mpich_shm_other_" + job_;
  for (const std::string& path : {mapped, other}) std::ofstream(path) << std::string(4096, 'x');
  {
    const int file = open(mapped.c_str(), O_RDONLY);
    void* const place = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    ASSERT_NE(place, MAP_FAILED);
    close(file);
    const auto found = files_mapped_by({getpid()}, is_segment_of_mpi);
    EXPECT_EQ(found, std::set{mapped});
    link_segments(directory, found);
    link_segments(directory, found);
    munmap(place, 4096);
  }
  remove_segments(owner(1, 1));
  EXPECT_FALSE(fs::exists(directory) || fs::exists(mapped));
  EXPECT_TRUE(fs::remove(other));
}

TEST_F(Segments, ThatAnotherUserNamesInADirectoryOfThatNameStay) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  const std::string directory = make_segments_directory(owner(3, 1), Attempt(1)).value();
  const std::string victim = fmt::format("/dev/shm/mpich_shm_test_{}", getpid());
  std::ofstream(victim) << "memory of another job";
  link_segments(directory, {victim});
  ASSERT_EQ(chown(directory.c_str(), 65534, 65534), 0);
  remove_segments(owner(3, 1));
  EXPECT_TRUE(fs::remove(victim)) << "it was removed";
  EXPECT_FALSE(fs::exists(directory));
}

TEST(SegmentsOfMpi, AreRecognizedByTheirNames) {
  for (const char* path :
       {"/dev/shm/mpich_shm_44e29f_0", "/dev/shm/Intel_MPI_x7Rk2a", "/dev/shm/psm3_shm.0.1"})
    EXPECT_TRUE(is_segment_of_mpi(path)) << path;
  for (const char* path : {"/dev/shm/torch_1_2", "/dev/shmmpich_shm_1", "/dev/shm/muster-j/mpich_shm_1",
                           "/tmp/mpich_shm_1", "/dev/shm/"})
    EXPECT_FALSE(is_segment_of_mpi(path)) << path;
}

TEST(MappedFiles, AreThoseOfDescendantsToo) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "sleep 100; true", nullptr);
    _exit(1);
  }
  const auto is_sleep = [](std::string_view path) { return path.ends_with("/sleep"); };
  while (files_mapped_by(with_descendants(child), is_sleep).empty()) sched_yield();
  for (const auto& each : std::filesystem::directory_iterator("/proc"))
    if (const auto pid = parse_number<pid_t>(each.path().filename().native());
        pid && parent_of(*pid) == child)
      kill(*pid, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace muster::agent
