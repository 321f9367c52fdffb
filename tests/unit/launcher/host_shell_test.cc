#include "launcher/io/fleet/host_shell.h"

#include <cerrno>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/scratch_directory.h"

namespace muster::launcher {
namespace {

// While it lives, allows only this many more descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t free) {
    getrlimit(RLIMIT_NOFILE, &own_);
    const rlimit few{.rlim_cur = 64, .rlim_max = own_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.emplace_back(fd);
    taken_.resize(taken_.size() - free);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &own_); }
  const rlimit& own() const { return own_; }

 private:
  rlimit own_{};
  std::vector<UniqueFd> taken_;
};

// The shell opens a file and both ends of a socket before it starts the child, and then the child's pidfd.
TEST(HostShell, ReportsALackOfDescriptorsAndLeavesNoChild) {
  const ScratchDirectory scratch;
  asio::io_context io;
  const asio::steady_timer first(io);  // Asio opens its own descriptors now
  for (std::size_t free = 0; free < 4; ++free) {
    const FewDescriptors few(free);
    const auto shell = ChildShell::start(io.get_executor(), {"sleep", "1000"}, scratch / "errors", few.own());
    ASSERT_FALSE(shell) << free;
    EXPECT_THAT(shell.error().message(), testing::HasSubstr("Too many open files")) << free;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << free;
    EXPECT_EQ(errno, ECHILD) << free;
  }
}

}  // namespace
}  // namespace muster::launcher
