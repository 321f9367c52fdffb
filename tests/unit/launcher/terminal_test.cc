#include "launcher/io/view/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace muster::launcher {
namespace {

using testing::HasSubstr;

// A pipe whose reading end returns what has arrived so far.
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

TEST_F(SinkTest, TellsTheWriterWhenThePipesReaderHasTakenItsLines) {
  Sink sink(writer.get());
  std::size_t taken = 0;
  const auto on_taken =
      std::make_shared<const std::function<void(std::size_t)>>([&](std::size_t bytes) { taken += bytes; });
  const std::string lines(1 << 20, '\n');
  for (const std::size_t bytes : {5, 7}) {
    sink.add_lines("", lines);
    sink.tell_when_taken(bytes, on_taken);
  }
  EXPECT_FALSE(sink.write_some());
  EXPECT_EQ(taken, 0U);
  std::size_t read_bytes = 0;
  while (read_bytes < lines.size() / 2) {
    read_bytes += read_all().size();
    sink.write_some();
  }
  EXPECT_EQ(taken, 0U) << "not before all of it has been written";
  while (!sink.write_some() && taken == 0) read_all();
  EXPECT_EQ(taken, 5U);
  while (!sink.write_some()) read_all();
  EXPECT_EQ(taken, 12U);
}

TEST_F(SinkTest, TellsTheWriterEvenIfNobodyReadsAnyMore) {
  signal(SIGPIPE, SIG_IGN);
  Sink sink(writer.get());
  std::size_t taken = 0;
  sink.add_lines("", std::string(1 << 20, '\n'));
  sink.tell_when_taken(5, std::make_shared<const std::function<void(std::size_t)>>(
                              [&](std::size_t bytes) { taken += bytes; }));
  EXPECT_FALSE(sink.write_some());
  reader.reset();
  EXPECT_TRUE(sink.write_some());
  EXPECT_EQ(taken, 5U);
}

TEST_F(SinkTest, NeverWaitsForASlowReaderAndCountsDroppedLines) {
  Sink sink(writer.get());
  const std::string line(9999, 'x');
  constexpr int kLines = 50'000;
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

TEST_F(SinkTest, ContinuesWhenNobodyReadsAnyMore) {
  signal(SIGPIPE, SIG_IGN);
  Sink sink(writer.get());
  reader.reset();
  sink.add("one\n");
  EXPECT_TRUE(sink.write_some());
}

// While it lives, the terminal of this process has pipes for stdout and stderr.
class TerminalTest : public testing::Test {
 protected:
  TerminalTest() {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
      readers[fd].reset(ends[0]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      own[fd].reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
      dup2(ends[1], fd);
      close(ends[1]);
    }
    terminal.emplace(io.get_executor(), false);
  }
  ~TerminalTest() override { give_back(); }
  void give_back() {
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      if (own[fd]) dup2(own[fd].get(), fd);
      own[fd].reset();
    }
  }
  void fill(int stream) {
    for (int i = 0; i < 1000; ++i) terminal->print(stream, std::string(999, 'x') + "\n");
  }
  std::size_t read_from(int fd) {
    char buffer[65536];
    const ssize_t got = read(readers[fd].get(), buffer, sizeof buffer);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  // Runs handlers until nothing is left to do, at most `limit`; returns how many.
  std::size_t handlers_until_idle(std::size_t limit) {
    std::size_t count = 0;
    while (count < limit && io.poll_one() > 0) ++count;
    return count;
  }

  asio::io_context io;
  std::map<int, UniqueFd> readers;
  std::map<int, UniqueFd> own;
  std::optional<Terminal> terminal;
};

TEST_F(TerminalTest, RestsWhileOneStreamIsFullAndTheOtherIdle) {
  fill(STDOUT_FILENO);
  const std::size_t handler_count = handlers_until_idle(100);
  give_back();
  EXPECT_LT(handler_count, 5U);
}

TEST_F(TerminalTest, ReportsAtTheEndHowManyLinesAnAgentDropped) {
  terminal->show_output(NodeId(0), Rank(3), 1, "last\n", 0);
  terminal->show_output(NodeId(0), Rank(3), 1, "", 7);
  terminal->flush({.stall = std::chrono::seconds(1)});
  char buffer[4096];
  const ssize_t got = read(readers[STDOUT_FILENO].get(), buffer, sizeof buffer);
  give_back();
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(got)),
            "node0:3: last\nlaunch: 7 lines are left out here; the log files have them\n");
}

TEST_F(TerminalTest, WritesOnWhicheverStreamIsReadFirst) {
  fill(STDOUT_FILENO);
  fill(STDERR_FILENO);
  std::size_t from_err = 0;
  while (const std::size_t got = read_from(STDERR_FILENO)) {
    from_err += got;
    handlers_until_idle(100);
  }
  std::size_t from_out = 0;
  while (const std::size_t got = read_from(STDOUT_FILENO)) {
    from_out += got;
    handlers_until_idle(100);
  }
  give_back();
  EXPECT_EQ(from_err, 1'000'000U);
  EXPECT_EQ(from_out, 1'000'000U);
}

// With a terminal for stderr.
class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    int master = -1;
    int slave = -1;
    unsetenv("NO_COLOR");
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    screen.reset(master);
    fcntl(master, F_SETFL, O_NONBLOCK);
    own.reset(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    dup2(slave, STDERR_FILENO);
    close(slave);
    terminal.emplace(io.get_executor(), false);
  }
  ~ProgressTest() override { give_back(); }
  void give_back() {
    if (own) dup2(own.get(), STDERR_FILENO);
    own.reset();
  }
  // The kernel passes a terminal's output on in a thread of its own: waits until the output ends with `end`.
  std::string shown(std::string_view end) {
    terminal->flush({.stall = std::chrono::seconds(1)});
    std::string text;
    pollfd ready{screen.get(), POLLIN, 0};
    while (!text.ends_with(end) && poll(&ready, 1, 5000) > 0) {
      char buffer[4096];
      const ssize_t got = read(screen.get(), buffer, sizeof buffer);
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  UniqueFd screen;
  UniqueFd own;
  asio::io_context io;
  std::optional<Terminal> terminal;
};

TEST_F(ProgressTest, IsOneLineThatTheNextReplaces) {
  terminal->show_progress("1 of 2");
  terminal->show_progress("2 of 2");
  terminal->say("ready");
  terminal->say("go");
  const std::string screen_text = shown("go\r\n");
  give_back();
  EXPECT_EQ(screen_text, "launch: 1 of 2\r\x1b[Klaunch: 2 of 2\r\x1b[Klaunch: ready\r\nlaunch: go\r\n");
}

TEST_F(ProgressTest, IsAPlainLineWithoutColors) {
  setenv("NO_COLOR", "", 1);
  terminal.emplace(io.get_executor(), false);
  terminal->show_progress("now");
  const std::string when_empty = shown("now");
  setenv("NO_COLOR", "1", 1);
  terminal.emplace(io.get_executor(), false);
  terminal->show_progress("now");
  const std::string when_set = shown("now\r\n");
  unsetenv("NO_COLOR");
  give_back();
  EXPECT_EQ(when_empty, "launch: now") << "as if it were not there";
  EXPECT_EQ(when_set, "launch: now\r\n");
}

TEST_F(ProgressTest, IsCutToTheWidthOfTheTerminal) {
  const winsize narrow{.ws_row = 24, .ws_col = 12, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(screen.get(), TIOCSWINSZ, &narrow);
  terminal->show_progress("1 of 2 agents");
  const std::string screen_text = shown("1 o");
  give_back();
  EXPECT_EQ(screen_text, "launch: 1 o");
}

TEST_F(TerminalTest, ShowsProgressInLinesWithoutATerminal) {
  terminal->show_progress("1 of 2");
  terminal->show_progress("");
  terminal->show_progress("2 of 2");
  char buffer[4096];
  const ssize_t got = read(readers[STDERR_FILENO].get(), buffer, sizeof buffer);
  give_back();
  EXPECT_EQ(std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
            "launch: 1 of 2\nlaunch: 2 of 2\n");
}

}  // namespace
}  // namespace muster::launcher
