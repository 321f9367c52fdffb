#include "common/base/process.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <gmock/gmock.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace muster {
namespace {

using testing::Contains;
using testing::Not;

pid_t fork_waiting() {
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  return pid;
}

TEST(ListChildren, FindsTheChildrenOfEveryThreadUntilTheyAreReaped) {
  const pid_t own = fork_waiting();
  pid_t others = 0;
  std::vector<pid_t> children;
  std::thread thread([&] {
    others = fork_waiting();
    children = list_children().value();
  });
  thread.join();
  EXPECT_THAT(children, Contains(own));
  EXPECT_THAT(children, Contains(others));
  kill(own, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(own), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(list_children().value(), Contains(own));
  waitpid(own, nullptr, 0);
  EXPECT_THAT(list_children().value(), Not(Contains(own)));
  kill(others, SIGKILL);
  waitpid(others, nullptr, 0);
}

TEST(IsExiting, IsTrueForAKilledProcessBeforeItIsReaped) {
  const pid_t child = fork_waiting();
  EXPECT_FALSE(is_exiting(child));
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(is_exiting(child));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_exiting(child));
}

TEST(ProcessIdentity, IsAliveUntilItsEndAndUnknownElsewhere) {
  ProcessIdentity other = own_identity();
  EXPECT_EQ(is_alive(other), true);
  other.start_ticks += 1;
  EXPECT_EQ(is_alive(other), false) << "another process got its pid";
  other = own_identity();
  other.boot_id = "before";
  EXPECT_EQ(is_alive(other), false);
  other = own_identity();
  other.pid_namespace = "another container";
  EXPECT_EQ(is_alive(other), std::nullopt);
  other.host = "far";
  EXPECT_EQ(is_alive(other), std::nullopt);
  EXPECT_EQ(is_alive(ProcessIdentity{.host = own_identity().host}), std::nullopt);
}

// Runs as another user, with a /proc that shows each user only that user's processes.
TEST(ProcessIdentity, IsUnknownIfProcHidesIt) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  const ProcessIdentity parent = own_identity();
  ProcessIdentity gone = parent;
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  gone.pid = ended;
  ASSERT_EQ(is_alive(parent), true);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const bool hidden = unshare(CLONE_NEWNS) == 0 &&
                        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        mount("proc", "/proc", "proc", 0, "hidepid=2") == 0 && setgroups(0, nullptr) == 0 &&
                        setgid(kNobody) == 0 && setuid(kNobody) == 0;
    if (!hidden) _exit(2);
    _exit(is_alive(parent) == std::nullopt && is_alive(gone) == false ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "cannot mount a separate /proc here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ProcessIdentity, HasEndedAlthoughItsParentHasNotReapedIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::int64_t ticks = own_identity().start_ticks;
    _exit(write(ends[1], &ticks, sizeof ticks) == sizeof ticks ? 0 : 1);
  }
  ProcessIdentity ended = own_identity();
  ended.pid = child;
  ASSERT_EQ(read(ends[0], &ended.start_ticks, sizeof ended.start_ticks), ssize_t{sizeof ended.start_ticks});
  siginfo_t end{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(is_alive(ended), false);
  waitpid(child, nullptr, 0);
  for (const int fd : ends) close(fd);
}

// The kernel's sched_attr in its first size; the slice is its fourth word.
std::array<std::uint64_t, 6> scheduling_of(pid_t thread) {
  std::array<std::uint64_t, 6> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, thread, attributes.data(), sizeof attributes, 0), 0);
  return attributes;
}

TEST(AskForShortSlices, IsGrantedToTheCallerAndNotToItsChildren) {
  std::thread([] {
    const std::uint64_t usual = scheduling_of(0)[3];
    if (usual == 0 || sched_getscheduler(0) != SCHED_OTHER || getpriority(PRIO_PROCESS, 0) < 0)
      GTEST_SKIP() << "Linux before 6.12, another policy, or a raised priority";
    ask_for_short_slices();
    EXPECT_EQ(scheduling_of(0)[3], 100'000U);
    const pid_t child = fork_waiting();
    EXPECT_EQ(scheduling_of(child)[3], usual);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }).join();
}

}  // namespace
}  // namespace muster
