#include "agent/io/workers/worker_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "agent/io/workers/run_directory.h"
#include "common/base/file.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;

constexpr uid_t kOther = 65534;

bool become_other() {
  return setresgid(kOther, kOther, kOther) == 0 && setresuid(kOther, kOther, kOther) == 0;
}

// "" or why the datagram cannot be sent.
std::string report_step(const std::string& path, int step) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const std::string text = fmt::format(R"({{"v":1,"type":"step","rank":0,"attempt":1,"step":{}}})", step);
  const bool sent = ::sendto(fd.get(), text.data(), text.size(), 0,
                             reinterpret_cast<const sockaddr*>(&address), sizeof address) > 0;
  return sent ? "" : std::strerror(errno);
}

// A process of another user, which descends from this one or not. It reports a step, and another one before
// it ends.
class OtherUser {
 public:
  OtherUser(const std::string& path, bool below, int first_step) {
    std::array<int, 2> said{}, go{};
    EXPECT_EQ(pipe2(said.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(go.data(), O_CLOEXEC), 0);
    said_.reset(said[0]);
    go_.reset(go[1]);
    child_ = fork();
    if (child_ == 0) {
      const pid_t parent = getpid();
      if (!below && fork() != 0) _exit(0);
      while (!below && getppid() == parent) poll(nullptr, 0, 1);
      close(go[1]);
      const std::string result = become_other() ? report_step(path, first_step) : "no such user";
      (void)!::write(said[1], result.c_str(), result.size() + 1);
      char byte = 0;
      (void)!::read(go[0], &byte, 1);
      report_step(path, first_step + 1);
      _exit(0);
    }
    close(said[1]);
    close(go[0]);
  }
  ~OtherUser() { end(); }
  // "" if it has sent its first report.
  std::string first() {
    std::array<char, 128> text{};
    (void)!::read(said_.get(), text.data(), text.size() - 1);
    return text.data();
  }
  // Returns when it has ended and, as a child, has been reaped.
  void end() {
    if (go_) (void)!::write(go_.get(), "x", 1);
    go_.reset();
    char none = 0;
    while (::read(said_.get(), &none, 1) > 0) {
    }
    if (child_ > 0) waitpid(std::exchange(child_, 0), nullptr, 0);
  }

 private:
  UniqueFd said_;
  UniqueFd go_;
  pid_t child_ = 0;
};

// The socket of an agent that runs as root.
class WorkerSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
    auto opened = WorkerSocket::open(io_.get_executor(), directory_->path(),
                                     [this](const Report& report, const std::string&) {
                                       steps_.push_back(static_cast<int>(report.message.step));
                                     });
    ASSERT_TRUE(opened) << opened.error().message();
    socket_ = *std::move(opened);
  }
  std::vector<int> heard() {
    socket_->receive_waiting();
    return steps_;
  }

  asio::io_context io_{1};
  std::unique_ptr<RunDirectory> directory_ = RunDirectory::make().value();
  std::unique_ptr<WorkerSocket> socket_;
  std::vector<int> steps_;
};

TEST_F(WorkerSocketTest, HearsAnotherUserOnlyFromProcessesBelowTheAgent) {
  OtherUser rank(socket_->path(), /*below=*/true, 1);
  ASSERT_EQ(rank.first(), "");
  EXPECT_THAT(heard(), ElementsAre(1));
  OtherUser stranger(socket_->path(), /*below=*/false, 11);
  ASSERT_EQ(stranger.first(), "");
  EXPECT_THAT(heard(), ElementsAre(1)) << "a process of the job runs as this user, but this is another one";
  rank.end();
  EXPECT_THAT(heard(), ElementsAre(1, 2)) << "sent before it was reaped";
  stranger.end();
  EXPECT_THAT(heard(), ElementsAre(1, 2));
}

TEST_F(WorkerSocketTest, AStrangerDoesNotFindTheSocket) {
  struct stat directory{};
  ASSERT_EQ(stat(directory_->path().c_str(), &directory), 0);
  EXPECT_EQ(directory.st_mode & 0777U, 0711U);
  const std::string name = socket_->path().substr(directory_->path().size() + 1);
  EXPECT_EQ(name.size(), 16 + std::strlen("-agent.sock")) << name;
  const std::string sockets = read_file("/proc/net/unix", 64 << 20).value_or("");
  EXPECT_THAT(sockets, testing::HasSubstr(directory_->path())) << "this test looks in the right place";
  EXPECT_THAT(sockets, testing::Not(testing::HasSubstr(name)));
  EXPECT_EQ(report_step(directory_->path() + "/agent.sock", 1), std::strerror(ENOENT));
}

}  // namespace
}  // namespace muster::agent
