#include "agent/io/output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/net/task_group.h"
#include "tests/scratch_directory.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The agent's end of the pipe that `worker_end` is the other end of.
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

  const ScratchDirectory folder_;
  const std::string log_ = folder_ / "rank_0/stdout.log";
  std::vector<std::string> lines_, notices_;
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  std::shared_ptr<Output> output_ =
      Output::open(io_.get_executor(), log_,
                   {.lines = [this](std::string_view lines) { lines_.emplace_back(lines); },
                    .notice = [this](const std::string& line) { notices_.push_back(line); },
                    .hold = [] { return false; }})
          .value();
};

TEST_F(OutputTest, TakesAllOfAWorkerThatEndedBeforeItWasWatched) {
  tasks_.spawn(output_->read_all());
  ASSERT_EQ(write(output_->worker_end(), "last words", 10), 10);
  output_->worker_has_its_end();
  output_->close();
  run();
  EXPECT_TRUE(tasks_.empty());
  EXPECT_EQ(read_file(log_, 100).value(), "last words");
  EXPECT_THAT(notices_, ElementsAre());
}

TEST_F(OutputTest, GivesItsDescriptorsBackWhenItGoesAfterThePipesEnd) {
  const int fd = agent_end(output_->worker_end());
  tasks_.spawn(output_->read_all());
  ASSERT_EQ(write(output_->worker_end(), "line\n", 5), 5);
  output_->worker_has_its_end();
  run();
  EXPECT_THAT(lines_, ElementsAre("line\n"));
  output_.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

// It cannot be watched twice by one io_context; the kernel's limit of watched files has the same effect.
TEST_F(OutputTest, APipeThatCannotBeWatchedIsClosedAndItIsSaid) {
  asio::posix::stream_descriptor taken(io_, agent_end(output_->worker_end()));
  tasks_.spawn(output_->read_all());
  EXPECT_TRUE(has_reader(output_->worker_end()));
  run();
  taken.release();
  EXPECT_TRUE(tasks_.empty());
  EXPECT_FALSE(has_reader(output_->worker_end()));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("cannot watch the output for " + log_)));
}

}  // namespace
}  // namespace muster::agent
