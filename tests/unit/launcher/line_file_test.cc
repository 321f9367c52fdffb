#include "launcher/io/view/line_file.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

class LineFileTest : public testing::Test {
 protected:
  LineFile make(const std::string& path) {
    return {writer_, path, [this](const std::string& what) { warnings_.push_back(what); }};
  }
  // Waits until the file system has accepted all, or hangs.
  void write() {
    asio::co_spawn(context_, writer_.written(std::chrono::milliseconds(200), [] { return false; }),
                   asio::detached);
    context_.restart();
    context_.run();
  }

  const ScratchDirectory scratch_;
  asio::io_context context_{1};
  net::LogWriter writer_{context_.get_executor()};
  std::vector<std::string> warnings_;
};

TEST_F(LineFileTest, ContinuesWhereItEnded) {
  const std::string path = scratch_ / "events.jsonl";
  for (const char* line : {"one\n", "two\n"}) {
    make(path).append(line);
    write();
  }
  EXPECT_EQ(read_file(path, 100).value(), "one\ntwo\n");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(LineFileTest, SaysOnceThatTheDiskIsFull) {
  const std::string path = scratch_ / "events.jsonl";
  std::filesystem::create_symlink("/dev/full", path);
  LineFile file = make(path);
  for (const char* line : {"one\n", "two\n"}) {
    file.append(line);
    write();
  }
  EXPECT_THAT(warnings_,
              ElementsAre(MatchesRegex(
                  "cannot write .*/events.jsonl: No space left on device; the job goes on without it")));
}

// A trial of a sweep ends while others run: its console is gone then.
TEST_F(LineFileTest, DoesNotWarnAfterItsEnd) {
  const std::string path = scratch_ / "events.jsonl";
  std::filesystem::create_symlink("/dev/full", path);
  make(path).append("one\n");
  write();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(LineFileTest, WritesOnceItCanBeOpened) {
  const std::string path = scratch_ / "events.jsonl";
  std::filesystem::create_directory(path);
  LineFile file = make(path);
  file.append("one\n");
  write();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("Is a directory")));
  std::filesystem::remove(path);
  file.append("two\n");
  write();
  EXPECT_EQ(read_file(path, 100).value(), "two\n");
}

TEST_F(LineFileTest, AHangingDiskDelaysNoCaller) {
  const std::string path = scratch_ / "events.jsonl";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // nobody opens it for reading
  LineFile file = make(path);
  file.append("one\n");
  context_.poll();  // the writer's thread begins
  const std::string line(1000, 'x');
  for (std::size_t bytes = 0; bytes <= LineFile::kQueueBytes; bytes += line.size()) file.append(line);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("events.jsonl fast enough; the job goes on without it")));
  const UniqueFd reader(
      open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // the writer's thread can end
  ASSERT_TRUE(reader);
  std::array<char, 1 << 16> sink;
  while (!writer_.idle()) (void)!read(reader.get(), sink.data(), sink.size());
}

}  // namespace
}  // namespace muster::launcher
