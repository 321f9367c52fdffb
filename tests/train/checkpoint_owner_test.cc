// Tests which of two jobs may write to a checkpoint directory that only their programs name.
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/checkpoint/directory.h"
#include "runtime/rank/uncaught.h"
#include "tests/train/checkpoint_fixture.h"
#include "tests/warnings.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A process that began an attempt of this job and lives as long as this object.
class OtherLaunch {
 public:
  OtherLaunch(const std::string& directory, const std::string& job) {
    int ready[2];
    CHECK(pipe(ready) == 0, "pipe");
    pid_ = fork();
    if (pid_ == 0) {
      const bool begun = CheckpointDirectory(directory).begin_attempt(job).has_value();
      (void)!write(ready[1], begun ? "b" : "-", 1);
      pause();
      _exit(0);
    }
    char answer = 0;
    CHECK(read(ready[0], &answer, 1) == 1 && answer == 'b', "the other launch begins");
    for (const int fd : ready) close(fd);
  }
  OtherLaunch(const OtherLaunch&) = delete;
  OtherLaunch& operator=(const OtherLaunch&) = delete;
  ~OtherLaunch() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string pid() const { return std::to_string(pid_); }

 private:
  pid_t pid_ = 0;
};

TEST_F(CheckpointTest, RefusesAnotherLaunchsDirectoryButARestartTakesItsOwn) {
  const auto start = [this](const char* job, const char* restarts) {
    setenv("MUSTER_JOB_ID", job, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", restarts, 1);
    const Training training(directory_);
  };
  const Warnings warnings;
  {
    const OtherLaunch other(directory_, "first");
    const auto refusal = ThrowsMessage<std::runtime_error>(directory_ + " is in use by job first (process " +
                                                           other.pid() + "), which is running");
    EXPECT_THAT([&] { start("second", "0"); }, refusal);
    EXPECT_THAT([&] { start("second", "1"); }, refusal) << "this job has never owned the directory";
    EXPECT_THAT([&] { start("first", "0"); }, refusal) << "another job of the same name";
    try {
      start("second", "0");
    } catch (const OnAllRanks& nature) {
      EXPECT_TRUE(nature.final);
    }
    EXPECT_TRUE(CheckpointDirectory(directory_).check_newest(Attempt(1)));
    start("first", "1");
    EXPECT_FALSE(CheckpointDirectory(directory_).check_newest(Attempt(1)));
  }
  {
    const OtherLaunch ended(directory_, "first");
  }
  start("second", "0");
  for (const char* name : {"MUSTER_JOB_ID", "TORCHELASTIC_RESTART_COUNT"}) unsetenv(name);
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
  write_bytes(directory_ + "/attempts/000005.json",
              R"({"format":1,"attempt":5,"job":"away","host":"far","resume":null})");
  const Training training(directory_);
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(HasSubstr(directory_ + " is taken over from job away on host far: "
                                                          "if that job still runs, it will stop")));
}

}  // namespace
}  // namespace muster
