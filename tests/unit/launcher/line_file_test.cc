#include "launcher/io/line_file.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

using testing::MatchesRegex;
using testing::Optional;

TEST(LineFile, GoesOnWhereItEnded) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "events.jsonl";
  EXPECT_EQ(LineFile(path).append("one\n"), std::nullopt);
  EXPECT_EQ(LineFile(path).append("two\n"), std::nullopt);
  EXPECT_EQ(read_file(path, 100).value(), "one\ntwo\n");
}

TEST(LineFile, SaysOnceThatTheDiskIsFull) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "events.jsonl";
  std::filesystem::create_symlink("/dev/full", path);
  LineFile file(path);
  EXPECT_THAT(file.append("one\n"),
              Optional(MatchesRegex(
                  "cannot write .*/events.jsonl: No space left on device; the job goes on without it")));
  EXPECT_EQ(file.append("two\n"), std::nullopt);
}

TEST(LineFile, SaysOnceThatItCannotBeOpened) {
  const ScratchDirectory scratch;
  LineFile file(scratch / "gone/events.jsonl");
  EXPECT_FALSE(file.open());
  EXPECT_THAT(file.append("one\n"),
              Optional(MatchesRegex(
                  "cannot create .*/events.jsonl: No such file or directory; the job goes on without it")));
  EXPECT_EQ(file.append("two\n"), std::nullopt);
}

TEST(LineFile, TakesWhatComesOnceItCanBeOpened) {
  const ScratchDirectory scratch;
  LineFile file(scratch / "late/events.jsonl");
  EXPECT_NE(file.append("one\n"), std::nullopt);
  std::filesystem::create_directory(scratch / "late");
  EXPECT_EQ(file.append("two\n"), std::nullopt);
  EXPECT_EQ(read_file(scratch / "late/events.jsonl", 100).value(), "two\n");
}

}  // namespace
}  // namespace muster::launcher
