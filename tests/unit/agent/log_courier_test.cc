#include "agent/io/output/log_courier.h"

#include <filesystem>
#include <gmock/gmock.h>

#include "common/base/file.h"
#include "common/net/task_group.h"
#include "tests/scratch_directory.h"
#include "tests/unit/agent/agent_parts.h"

namespace muster::agent {
namespace {

using wire::LogFile;

class LogCourierTest : public testing::Test {
 protected:
  ~LogCourierTest() override {
    channel_->close();
    tasks_.cancel();
    run_until([this] { return tasks_.empty(); });
  }
  void run_until(const std::function<bool()>& holds) {
    io_.restart();
    while (!holds()) io_.run_one();
  }
  // Makes a file as an earlier agent of this node has left it; returns its path.
  std::string leave(LogFile file, const std::string& text) {
    const std::string path = folder_ / std::string(name_of(file));
    EXPECT_TRUE(write_file_durably(path, text));
    auto parts = std::make_unique<net::LogParts>(path, UniqueFd(), nullptr);
    EXPECT_TRUE(parts->take_over());
    courier_->add_left({kAttempt, Rank(2), file}, writer_.add(std::move(parts), [](const std::string&) {}));
    return path;
  }

  static constexpr Attempt kAttempt{3};
  const ScratchDirectory folder_;
  HandTime time_;
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  net::LogWriter writer_{io_.get_executor()};
  const std::shared_ptr<HandChannel> channel_ = std::make_shared<HandChannel>();
  Link link_{time_, channel_, NodeId(1)};
  const std::shared_ptr<LogCourier> courier_ = std::make_shared<LogCourier>(link_);
};

TEST_F(LogCourierTest, ALeftFileThatCannotBeReadIsLeftOutAndTheOthersAreSent) {
  std::filesystem::remove(leave(LogFile::kStdout, "gone"));
  leave(LogFile::kStderr, "there");
  tasks_.spawn(courier_->run());
  run_until([this] { return !channel_->sent.empty(); });
  const auto* const piece = std::get_if<wire::LogPiece>(&channel_->sent.front());
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(piece->file, LogFile::kStderr);
  EXPECT_FALSE(courier_->done());
  courier_->taken(kAttempt, {.rank = Rank(2), .file = LogFile::kStderr, .bytes = 5});
  run_until([this] { return courier_->done(); });
  EXPECT_EQ(channel_->sent.size(), 1U);
}

TEST_F(LogCourierTest, StopsSendingALeftFileThatTheLauncherDoesNotWant) {
  leave(LogFile::kStdout, std::string(3 * LogSending::kPieceBytes, 'x'));
  tasks_.spawn(courier_->run());
  run_until([this] { return !channel_->sent.empty(); });
  courier_->taken(kAttempt, {.rank = Rank(2), .file = LogFile::kStdout, .stopped = true});
  EXPECT_TRUE(courier_->done());
}

}  // namespace
}  // namespace muster::agent
