#include "common/base/process.h"

#include <csignal>
#include <gmock/gmock.h>
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

}  // namespace
}  // namespace muster
