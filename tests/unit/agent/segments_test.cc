#include "agent/io/mpi/segments.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace
}  // namespace muster::agent
