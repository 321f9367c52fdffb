#include "launcher/io/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace muster::launcher {
namespace {

using testing::HasSubstr;

// A pipe whose reading end is asked for what has come so far.
class SinkTest : public testing::Test {
 protected:
  SinkTest() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  }
  std::string read_all() {
    std::string all;
    char buffer[65536];
    for (ssize_t got = read(reader.get(), buffer, sizeof buffer); got > 0;
         got = read(reader.get(), buffer, sizeof buffer)) {
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }
  UniqueFd reader;
  UniqueFd writer;
};

TEST_F(SinkTest, WritesWholeLinesInOrder) {
  Sink sink(writer.get());
  sink.add("one\n");
  sink.add("two\n");
  EXPECT_TRUE(sink.write_some());
  EXPECT_EQ(read_all(), "one\ntwo\n");
}

TEST_F(SinkTest, LeavesThePipeBlockingForItsOtherUsers) {
  Sink sink(writer.get());
  sink.add("one\n");
  sink.write_some();
  EXPECT_EQ(fcntl(writer.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(SinkTest, NeverWaitsForASlowReaderAndCountsWhatItLeavesOut) {
  Sink sink(writer.get());
  const std::string line(999, 'x');
  constexpr int kLines = 10'000;
  for (int i = 0; i < kLines; ++i) {
    sink.add(line + "\n");
    sink.write_some();
  }
  EXPECT_FALSE(sink.write_some());
  std::string all = read_all();
  sink.add("last\n");
  while (!sink.write_some()) all += read_all();
  all += read_all();
  const auto complete = static_cast<std::uint64_t>(std::count(all.begin(), all.end(), '\n')) -
                        2;  // without the note and the last
  EXPECT_THAT(all, HasSubstr(fmt::format("launch: {} lines are left out here", kLines - complete)));
  EXPECT_TRUE(all.ends_with("\nlast\n"));
  EXPECT_GT(complete, 1000U);
}

TEST_F(SinkTest, GoesOnWhenNobodyReadsAnyMore) {
  signal(SIGPIPE, SIG_IGN);
  Sink sink(writer.get());
  reader.reset();
  sink.add("one\n");
  EXPECT_TRUE(sink.write_some());
}

}  // namespace
}  // namespace muster::launcher
