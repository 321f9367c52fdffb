#include "common/base/process.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <gmock/gmock.h>
#include <sched.h>
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

TEST(ListChildren, FindsThoseOfEveryThreadUntilTheyAreReaped) {
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
