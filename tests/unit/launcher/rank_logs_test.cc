#include "launcher/io/view/rank_logs.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr NodeId kNode{1};
constexpr Attempt kAttempt{2};

class RankLogsTest : public testing::Test {
 protected:
  explicit RankLogsTest(std::int64_t limit_bytes = 0)
      : logs_(writer_, scratch_.path(), limit_bytes,
              [this](const std::string& line) { said_.push_back(line); }) {
    logs_.arrivals().belong(kNode, kAttempt, Rank(2), 1);
    logs_.arrivals().kept_elsewhere(kNode, "h1", "/logs/job");
  }
  void come(std::uint64_t offset, const std::string& text, bool last = false) {
    wire::LogPiece piece{.rank = Rank(2), .offset = offset, .text = wire::Bytes(text), .last = last};
    logs_.keep(kNode, kAttempt, piece, [this](const wire::LogTaken& taken) { taken_ = taken; });
    asio::co_spawn(context_, writer_.written(std::chrono::seconds(5), [] { return false; }), asio::detached);
    context_.restart();
    context_.run();
  }
  std::string text(const std::string& name = "stdout.log") const {
    return read_file(scratch_ / ("attempt_2/rank_2/" + name), 1 << 20).value_or("(none)");
  }

  const ScratchDirectory scratch_;
  asio::io_context context_{1};
  net::LogWriter writer_{context_.get_executor()};
  RankLogs logs_;
  std::vector<std::string> said_;
  wire::LogTaken taken_;
};

TEST_F(RankLogsTest, WritesEveryByteOnceAndReportsItsProgress) {
  come(0, "one\n");
  EXPECT_EQ(taken_.bytes, 4U);
  come(0, "one\ntwo\n");
  EXPECT_EQ(taken_.bytes, 8U);
  come(8, "", true);
  EXPECT_EQ(taken_.bytes, 8U);
  EXPECT_EQ(text(), "one\ntwo\n");
  EXPECT_FALSE(taken_.stopped);
  EXPECT_THAT(said_, SizeIs(0));
}

TEST_F(RankLogsTest, TheNextAgentOfALostNodeContinuesItsFiles) {
  come(0, "one\n");
  logs_.agent_closed(kNode);
  come(0, "one\ntw");
  EXPECT_EQ(taken_.bytes, 6U);
  come(6, "o\n", true);
  EXPECT_EQ(taken_.bytes, 8U);
  EXPECT_FALSE(taken_.stopped);
  EXPECT_EQ(text(), "one\ntwo\n");
  EXPECT_THAT(said_, SizeIs(0));
}

TEST_F(RankLogsTest, RefusesAFileOfAnotherNode) {
  const wire::LogPiece piece{.rank = Rank(5), .offset = 10, .text = wire::Bytes("theirs")};
  logs_.keep(kNode, kAttempt, piece, [this](const wire::LogTaken& taken) { taken_ = taken; });
  EXPECT_EQ(taken_.rank, Rank(5));
  EXPECT_EQ(taken_.bytes, 16U);
  EXPECT_TRUE(taken_.stopped);
}

TEST_F(RankLogsTest, AnEmptyFileIsThere) {
  come(0, "", true);
  EXPECT_EQ(text(), "");
}

TEST_F(RankLogsTest, LeavesAFileOfAnotherWriterAloneAndReportsThatOnce) {
  std::filesystem::create_directories(scratch_ / "attempt_2/rank_2");
  ASSERT_TRUE(write_file_durably(scratch_ / "attempt_2/rank_2/stdout.log", "theirs"));
  come(0, "mine");
  come(4, "mine");
  EXPECT_TRUE(taken_.stopped);
  EXPECT_EQ(text(), "theirs");
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("File exists"));
  logs_.arrivals().told_to_leave(kNode);
  ASSERT_THAT(logs_.arrivals().missing(), SizeIs(1));
  EXPECT_THAT(logs_.arrivals().missing()[0], HasSubstr("8 bytes of its ranks' logs are missing here"));
}

struct RankLogsWithLimit : RankLogsTest {
  RankLogsWithLimit() : RankLogsTest(80'000) {}
};

TEST_F(RankLogsWithLimit, KeepsTheLimitAndMarksMissingBytesInTheFile) {
  const std::string line = std::string(999, 'x') + "\n";
  std::uint64_t offset = 0;
  for (int i = 0; i < 200; ++i) {
    come(offset, line);
    offset += line.size();
  }
  std::uint64_t kept = 0;
  for (const auto& file : std::filesystem::directory_iterator(scratch_ / "attempt_2/rank_2"))
    kept += file.file_size();
  EXPECT_LE(kept, 80'000U);
  EXPECT_GT(kept, 60'000U);
  come(offset + 500'000, "the newest\n");
  EXPECT_EQ(taken_.bytes, offset + 500'011);
  EXPECT_THAT(text(), HasSubstr("\nmuster: 500000 bytes are missing here"));
  EXPECT_THAT(text(), testing::EndsWith("the newest\n"));
}

}  // namespace
}  // namespace muster::launcher
