#include "common/base/file.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/program.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

int entries(const ScratchDirectory& directory) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++count;
  return count;
}

TEST(File, DurableWriteReplacesTheContentAndLeavesNoOtherFile) {
  ScratchDirectory directory;
  const std::string path = directory / "x";
  ASSERT_TRUE(write_file_durably(path, "old"));
  ASSERT_TRUE(write_file_durably(path, "new content"));
  EXPECT_EQ(read_file(path, 100).value(), "new content");
  EXPECT_EQ(entries(directory), 1);
}

TEST(File, IsReplacedOnlyByACompleteFile) {
  ScratchDirectory directory;
  const std::string path = directory / "x";
  const auto replace = [&](const std::string& bytes, bool fails) {
    return replace_file(path, [&](const std::string& temporary) -> Status {
      std::ofstream(temporary) << bytes;
      if (fails) return failure(ErrorCode::kInternal, "no more");
      return {};
    });
  };
  ASSERT_TRUE(replace("old", false));
  EXPECT_EQ(replace("half", true).error().message(), "no more");
  EXPECT_EQ(read_file(path, 100).value(), "old");
  ASSERT_TRUE(replace("new", false));
  EXPECT_EQ(read_file(path, 100).value(), "new");
  EXPECT_EQ(entries(directory), 1);
}

TEST(File, ADirectoryIsNotReplacedAndTheNewFileIsRemoved) {
  ScratchDirectory directory;
  const std::string path = directory / "x";
  ASSERT_TRUE(make_directories(path));
  EXPECT_EQ(write_file_durably(path, "new").error().message(),
            "cannot rename to " + path + ": Is a directory");
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_EQ(entries(directory), 1);
}

TEST(ProgramFile, APathIsWrittenWithoutADotAtItsBeginning) {
  EXPECT_EQ(path_from("/work", "./train"), "/work/train");
  EXPECT_EQ(path_from("/work", ".//./train"), "/work/train");
  EXPECT_EQ(path_from("/work", "../train"), "/work/../train") << "work may be a link";
  EXPECT_EQ(path_from("/work", ".train"), "/work/.train");
  EXPECT_EQ(path_from("/work", "/bin/true"), "/bin/true");
  EXPECT_EQ(path_from("", "./train"), "./train");
}

TEST(File, AKernelSettingIsReadCompletely) {
  std::string line;
  std::getline(std::ifstream("/proc/sys/kernel/pid_max"), line);
  EXPECT_EQ(read_file("/proc/sys/kernel/pid_max", 64).value(), line + "\n");
}

TEST(File, ExclusiveCreationRefusesAnExistingFileAndKeepsIt) {
  ScratchDirectory directory;
  const std::string path = directory / "x";
  ASSERT_TRUE(create_file_exclusively(path, "first"));
  const Status second = create_file_exclusively(path, "second");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kFenced);
  EXPECT_EQ(read_file(path, 100).value(), "first");
  EXPECT_EQ(entries(directory), 1);
}

// Files left by a killed process that had the same pid, which is usual in a container.
TEST(File, FilesOfAKilledProcessDoNotDisturb) {
  ScratchDirectory directory;
  for (int count = 0; count < 100; ++count) {
    for (const char* name : {"x", "y"})
      std::ofstream(fmt::format("{}.tmp-{}-{}", directory / name, getpid(), count)) << "left";
  }
  EXPECT_TRUE(write_file_durably(directory / "x", "new"));
  EXPECT_TRUE(create_file_exclusively(directory / "y", "new"));
}

TEST(File, ReadingStopsAtTheLimit) {
  ScratchDirectory directory;
  const std::string path = directory / "x";
  std::ofstream(path) << std::string(1000, 'a');
  EXPECT_EQ(read_file(path, 1000).value().size(), 1000u);
  const auto refused = read_file(path, 999);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
}

TEST(File, ReadsFilesWithoutASize) {
  EXPECT_FALSE(read_file("/proc/self/status", 1 << 20).value().empty());
}

TEST(File, OnlyARegularFileIsRead) {
  ScratchDirectory directory;
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(directory / "x") << "text";
  EXPECT_EQ(read_regular_file(directory / "x", 100).value(), "text");
  EXPECT_EQ(read_regular_file(pipe, 100).error().message(), "cannot read " + pipe + ": not a regular file");
  EXPECT_EQ(read_regular_file(directory.path(), 100).error().code(), ErrorCode::kCorrupt);
}

TEST(File, MissingDirectoriesAreMadeDurably) {
  ScratchDirectory directory;
  const std::string path = directory / "a/b/c";
  ASSERT_TRUE(make_directories_durably(path));
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_TRUE(make_directories_durably(path)) << "it may exist";
  EXPECT_EQ(make_directories_durably("/dev/null/x").error().code(), ErrorCode::kNotFound);
}

// Otherwise the same failure would have another text each time.
TEST(File, FailuresNameTheFileAndNotItsTemporaryName) {
  EXPECT_EQ(write_file_durably("/nowhere/x", "").error().message(),
            "cannot create /nowhere/x: No such file or directory");
  EXPECT_EQ(create_file_exclusively("/nowhere/x", "").error().message(),
            "cannot create /nowhere/x: No such file or directory");
  const ScratchDirectory directory;
  const auto fail = [](const std::string& temporary) -> Status {
    return failure(ErrorCode::kPermission, "cannot write {}: no more", temporary);
  };
  const Status failed = replace_file(directory / "x", fail);
  EXPECT_EQ(failed.error().message(), fmt::format("cannot write {}: no more", directory / "x"));
  EXPECT_EQ(failed.error().code(), ErrorCode::kPermission);
}

TEST(File, FailuresNameThePath) {
  EXPECT_EQ(read_file("/nowhere/x", 1).error().message(),
            "cannot open /nowhere/x: No such file or directory");
  EXPECT_EQ(write_file_durably("/proc/x", "").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(make_directories("/dev/null/x").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster
