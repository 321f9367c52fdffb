#include "common/net/log_parts.h"

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/scratch_directory.h"

namespace muster::net {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimitBytes = 8000;

class LogPartsTest : public testing::Test {
 protected:
  LogParts make(const std::string& name) { return LogParts(scratch_ / name, UniqueFd(), budget_); }
  static void write(LogParts& log, std::string_view bytes) {
    const Status written = log.write(bytes);
    ASSERT_TRUE(written) << written.error().message();
    ASSERT_TRUE(bytes.empty());
  }
  std::string text(const std::string& name) const {
    return read_file(scratch_ / name, 1 << 20).value_or("(none)");
  }
  std::uint64_t all_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& file : fs::directory_iterator(scratch_.path())) sum += file.file_size();
    return sum;
  }

  const ScratchDirectory scratch_;
  const std::shared_ptr<LogBudget> budget_ = std::make_shared<LogBudget>(kLimitBytes);
};

TEST_F(LogPartsTest, AFileWithoutABudgetIsNotSplit) {
  LogParts log(scratch_ / "deep/down/stdout.log", UniqueFd(), nullptr);
  write(log, std::string(100'000, 'x'));
  EXPECT_EQ(text("deep/down/stdout.log").size(), 100'000U);
}

TEST_F(LogPartsTest, AFileIsSplitAtTheEndOfALineAndThePartsAreNumberedFromTheOldest) {
  LogParts log = make("stdout.log");
  std::string all;
  for (int i = 0; i < 60; ++i) all += fmt::format("line {:02} {}\n", i, std::string(41, 'x'));  // 50 bytes
  write(log, all.substr(0, 1010));
  write(log, all.substr(1010));
  std::string kept;
  for (const char* name : {"stdout.1.log", "stdout.2.log", "stdout.log"}) {
    EXPECT_EQ(text(name).size(), kLimitBytes / 8) << name;
    EXPECT_TRUE(text(name).ends_with('\n'));
    kept += text(name);
  }
  EXPECT_EQ(kept, all);
}

TEST_F(LogPartsTest, TwoStreamsNeverExceedTheirBudgetAndKeepTheNewest) {
  LogParts out = make("stdout.log");
  LogParts err = make("stderr.log");
  for (int i = 0; i < 3000; ++i) {
    write(out, fmt::format("out {}\n", i));
    if (i % 100 == 0) write(err, fmt::format("err {}\n", i));
    ASSERT_LE(all_bytes(), kLimitBytes);
  }
  EXPECT_GT(all_bytes(), kLimitBytes / 2);
  EXPECT_TRUE(text("stdout.log").ends_with("out 2999\n"));
  EXPECT_TRUE(text("stderr.log").ends_with("err 2900\n"));
  EXPECT_EQ(text("stdout.1.log"), "(none)");
}

TEST_F(LogPartsTest, APartWithoutASuccessorIsEmptiedAndRemovedWithTheNext) {
  LogParts out = make("stdout.log");
  LogParts err = make("stderr.log");
  write(out, std::string(1000, 'a') + "\nmore\n");
  ASSERT_EQ(text("stdout.1.log").size(), 1000U);
  for (int i = 0; i < 3000; ++i) write(err, fmt::format("err {}\n", i));
  EXPECT_EQ(text("stdout.1.log"), "");
  EXPECT_EQ(text("stdout.log"), "\nmore\n");
  write(out, std::string(999, 'b') + "\n");
  EXPECT_EQ(text("stdout.1.log"), "(none)");
  EXPECT_EQ(text("stdout.2.log"), "\nmore\n");
}

TEST_F(LogPartsTest, ALineLongerThanAPartIsKeptInSeveral) {
  LogParts log = make("stdout.log");
  write(log, std::string(2500, 'x') + "\n");
  EXPECT_EQ(text("stdout.1.log").size(), 1000U);
  EXPECT_EQ(text("stdout.2.log").size(), 1000U);
  EXPECT_EQ(text("stdout.log").size(), 501U);
}

TEST_F(LogPartsTest, AFileThatJustFitsIsNotSplit) {
  LogParts log = make("stdout.log");
  const std::string all = "line\n" + std::string(995, 'x');
  write(log, all);
  EXPECT_EQ(text("stdout.log"), all);
  EXPECT_EQ(text("stdout.1.log"), "(none)");
}

TEST_F(LogPartsTest, APartIsNeverOverwritten) {
  LogParts first = make("stdout.log");
  write(first, std::string(1000, 'a') + "\n");
  LogParts second = make("stdout.log");  // another writer, which knows no parts
  const std::string much = std::string(1000, 'b') + "\nmore\n";
  std::string_view bytes = much;
  EXPECT_FALSE(second.write(bytes));
  EXPECT_EQ(text("stdout.1.log"), std::string(1000, 'a'));
}

TEST_F(LogPartsTest, AFileThatCouldNotBeOpenedIsTriedAgain) {
  fs::create_directory(scratch_ / "stdout.log");
  LogParts log = make("stdout.log");
  std::string_view bytes = "one\n";
  EXPECT_FALSE(log.write(bytes));
  EXPECT_EQ(bytes, "one\n");
  fs::remove(scratch_ / "stdout.log");
  write(log, bytes);
  EXPECT_EQ(text("stdout.log"), "one\n");
}

// The agent does this for a launcher with another log directory.
TEST_F(LogPartsTest, ReadsBackAllPartsWithoutTheRemovedOnes) {
  LogParts log = make("stdout.log");
  std::string all;
  for (int i = 0; i < 600; ++i) all += fmt::format("line {:03} {}\n", i, std::string(40, 'x'));  // 50 bytes
  write(log, all.substr(0, 5000));
  const auto read_from = [&](std::uint64_t offset) {
    std::string text;
    for (;;) {
      const auto piece = log.read(offset, 300);
      EXPECT_TRUE(piece) << piece.error().message();
      if (!piece || piece->bytes.empty()) return text;
      if (piece->offset > offset) text += fmt::format("[{}]", piece->offset - offset);
      text += piece->bytes;
      offset = piece->offset + piece->bytes.size();
    }
  };
  EXPECT_EQ(read_from(0), all.substr(0, 5000));
  EXPECT_EQ(read_from(4321), all.substr(4321, 5000 - 4321));
  write(log, all.substr(5000));
  EXPECT_EQ(log.written_bytes(), all.size());
  const std::string rest = read_from(5000);
  EXPECT_TRUE(rest.starts_with('[')) << "they were removed because of the limit";
  EXPECT_TRUE(all.ends_with(rest.substr(rest.find(']') + 1)));
  EXPECT_EQ(read_from(all.size()), "");
}

TEST_F(LogPartsTest, AFileThatMustBeNewIsNotWrittenToIfItExists) {
  ASSERT_TRUE(write_file_durably(scratch_ / "stdout.log", "somebody else's"));
  LogParts log = make("stdout.log");
  log.set_new();
  std::string_view bytes = "mine";
  EXPECT_FALSE(log.write(bytes));
  EXPECT_EQ(text("stdout.log"), "somebody else's");
}

}  // namespace
}  // namespace muster::net
