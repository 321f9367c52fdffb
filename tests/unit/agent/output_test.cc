#include "agent/io/output/output.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"
#include "common/net/task_group.h"
#include "tests/scratch_directory.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The agent's end of the pipe whose other end is `worker_end`.
int agent_end(int worker_end) {
  struct stat wanted{};
  CHECK(fstat(worker_end, &wanted) == 0);
  for (int fd = 0; fd < worker_end + 100; ++fd) {
    struct stat its{};
    if (fd != worker_end && fstat(fd, &its) == 0 && its.st_ino == wanted.st_ino &&
        its.st_dev == wanted.st_dev)
      return fd;
  }
  return -1;
}

bool has_reader(int worker_end) {
  pollfd end{.fd = worker_end, .events = POLLOUT, .revents = 0};
  return poll(&end, 1, 0) == 1 && (end.revents & POLLERR) == 0;
}

class OutputTest : public testing::Test {
 protected:
  void run() {
    io_.restart();
    io_.run();
  }
  // Runs until everything is in the log file.
  void run_until_written() {
    tasks_.spawn(writer_.written(std::chrono::seconds(30), [] { return false; }));
    run();
  }

  const ScratchDirectory folder_;
  const std::string log_ = folder_ / "rank_0/stdout.log";
  std::vector<std::string> lines_, remarks_;
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  net::LogWriter writer_{io_.get_executor()};
  std::shared_ptr<Output> output_ =
      Output::open(io_.get_executor(),
                   {.path = log_, .writer = writer_, .stall = std::chrono::milliseconds(200)},
                   {.lines = [this](std::string_view lines) { lines_.emplace_back(lines); },
                    .remark = [this](const std::string& line) { remarks_.push_back(line); },
                    .hold = [] { return false; }})
          .value();
};

TEST_F(OutputTest, ReadsAllOutputOfAWorkerThatEndedBeforeItWasWatched) {
  tasks_.spawn(output_->read_all());
  ASSERT_EQ(write(output_->worker_end(), "last words", 10), 10);
  output_->worker_has_its_end();
  output_->close();
  run_until_written();
  EXPECT_TRUE(tasks_.empty());
  EXPECT_EQ(read_file(log_, 100).value(), "last words");
  EXPECT_THAT(remarks_, ElementsAre());
}

TEST_F(OutputTest, ClosesItsDescriptorsWhenDestroyedAfterThePipesEnd) {
  const int fd = agent_end(output_->worker_end());
  tasks_.spawn(output_->read_all());
  ASSERT_EQ(write(output_->worker_end(), "line\n", 5), 5);
  output_->worker_has_its_end();
  run();
  EXPECT_THAT(lines_, ElementsAre("line\n"));
  output_.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

// One io_context cannot watch a pipe twice; the kernel's limit on watched files has the same effect.
TEST_F(OutputTest, APipeThatCannotBeWatchedIsClosedWithARemark) {
  asio::posix::stream_descriptor taken(io_, agent_end(output_->worker_end()));
  tasks_.spawn(output_->read_all());
  EXPECT_TRUE(has_reader(output_->worker_end()));
  run();
  taken.release();
  EXPECT_TRUE(tasks_.empty());
  EXPECT_FALSE(has_reader(output_->worker_end()));
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("cannot watch the output for " + log_)));
}

// The log file's path is a pipe without a reader, so that opening it blocks.
TEST_F(OutputTest, LinesThatALogFileDoesNotTakeAreCountedAndPassedOn) {
  std::filesystem::create_directories(folder_ / "rank_0");
  ASSERT_EQ(mkfifo(log_.c_str(), 0600), 0);
  tasks_.spawn(output_->read_all());
  constexpr int kLines = 400'000;
  std::jthread worker([end = UniqueFd(dup(output_->worker_end()))] {
    for (int i = 0; i < kLines; ++i) CHECK(write(end.get(), "xxxxxxx\n", 8) == 8);
  });
  output_->worker_has_its_end();
  run();
  worker.join();
  std::size_t passed_on = 0;
  for (const std::string& lines : lines_) passed_on += lines.size();
  EXPECT_EQ(passed_on, std::size_t{8 * kLines});
  const Output::Lost lost = output_->lost();
  EXPECT_GT(lost.lines, 0U);
  EXPECT_EQ(8 * lost.lines, lost.bytes);
  EXPECT_EQ(lost.bytes + lost.waiting_bytes, std::size_t{8 * kLines});
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr(log_ + " cannot keep up with the output")));
  // Now there is a reader: the file then says where lines are missing.
  const UniqueFd reader(open(log_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  output_->close();
  std::string taken;
  char buffer[65536];
  while (!writer_.idle()) {
    const ssize_t got = read(reader.get(), buffer, sizeof buffer);
    if (got > 0) taken.append(buffer, static_cast<std::size_t>(got));
  }
  for (ssize_t got; (got = read(reader.get(), buffer, sizeof buffer)) > 0;)
    taken.append(buffer, static_cast<std::size_t>(got));
  EXPECT_TRUE(taken.ends_with(
      fmt::format("\nmuster: {} lines ({} bytes) are left out here\n", lost.lines, lost.bytes)));
  EXPECT_EQ(static_cast<std::uint64_t>(std::ranges::count(taken, 'x')) / 7 + lost.lines,
            std::uint64_t{kLines});
}

}  // namespace
}  // namespace muster::agent
