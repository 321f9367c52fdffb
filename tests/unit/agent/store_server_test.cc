#include "agent/io/store/store_server.h"

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <deque>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"
#include "tests/unit/agent/store_messages.h"

namespace muster::agent {
namespace {

using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);

// A server on loopback and raw clients of it, all on this thread: run_until() lets the server work until a
// condition holds.
class StoreServerTest : public testing::Test {
 protected:
  void open(const StoreServerOptions& options = {}) {
    Expected<StoreServer> opened = StoreServer::open(io_, options);
    ASSERT_TRUE(opened) << opened.error().message();
    server_.emplace(std::move(*opened));
  }
  bool run_until(const std::function<bool()>& condition) {
    const TimePoint deadline = Clock::now() + kPatience;
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  // Connects from this loopback address; nullptr: from any.
  int connect(std::string_view first_bytes = {}, const char* from = nullptr) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (from != nullptr) {
      EXPECT_EQ(inet_pton(AF_INET, from, &address.sin_addr), 1);
      EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const int number = fd.get();
    fds_.push_back(std::move(fd));
    send(number, first_bytes);
    return number;
  }
  static void send(int fd, std::string_view bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Reads what has arrived; false at the end of the connection.
  static bool receive(int fd, std::string& received) {
    char buffer[65536];
    while (true) {
      const ssize_t size = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (size == 0 || (size < 0 && errno != EAGAIN)) return false;
      if (size < 0) return true;
      received.append(buffer, static_cast<std::size_t>(size));
    }
  }
  bool answers(int fd, std::string_view question, const std::string& answer) {
    std::string received;
    send(fd, question);
    run_until([&] { return !receive(fd, received) || received.size() >= answer.size(); });
    return received == answer;
  }
  bool dropped(int fd) {
    std::string received;
    return run_until([&] { return !receive(fd, received); });
  }

  boost::asio::io_context io_{1};
  std::optional<StoreServer> server_;
  std::deque<UniqueFd> fds_;
};

TEST_F(StoreServerTest, ServesManyClientsAndReleasesThemTogether) {
  open();
  std::vector<int> waiting;
  for (int count = 0; count < 200; ++count) waiting.push_back(connect(validate() + wait({"go"})));
  ASSERT_TRUE(run_until([&] { return server_->client_count() == 200; }));
  ASSERT_TRUE(answers(connect(validate()), set("go", "1") + ping(5), raw(5u)));
  for (const int fd : waiting) EXPECT_TRUE(answers(fd, get("go"), std::string(1, kStopWaiting) + blob("1")));
}

TEST_F(StoreServerTest, AHandshakeThatTakesTooLongIsDroppedAndAClientIsNot) {
  open({.handshake = std::chrono::milliseconds(30)});
  const int silent = connect(), half = connect(validate().substr(0, 3)), client = connect(validate());
  EXPECT_TRUE(dropped(silent));
  EXPECT_TRUE(dropped(half));
  EXPECT_TRUE(answers(client, ping(1), raw(1u)));
  EXPECT_TRUE(dropped(connect())) << "the timer is armed again";
}

TEST_F(StoreServerTest, AThousandIdleConnectionsDoNotKeepClientsOut) {
  open({.stranger_count = 50});
  const int early = connect(validate());
  for (int count = 0; count < 1000; ++count) {
    connect();
    io_.restart();
    io_.poll();
  }
  const int late = connect(validate());
  EXPECT_TRUE(answers(early, set("k", "1") + ping(1), raw(1u)));
  EXPECT_TRUE(answers(late, get("k"), blob("1")));
  EXPECT_EQ(server_->client_count(), 2u);
  EXPECT_LE(server_->stranger_count(), 50u);
}

TEST_F(StoreServerTest, GarbageIsDroppedAndNothingElse) {
  open();
  const int client = connect(validate());
  for (const std::string_view garbage :
       {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "\xff\xff\xff\xff\xff\xff", "\1"}) {
    EXPECT_TRUE(dropped(connect(garbage)));
  }
  EXPECT_TRUE(dropped(connect(std::string(5, '\0'))));
  EXPECT_TRUE(dropped(connect(validate() + "\x7f")));
  EXPECT_TRUE(answers(client, ping(1), raw(1u)));
}

TEST_F(StoreServerTest, WhenDescriptorsRunOutStrangersGoAndClientsStay) {
  open();
  const int client = connect(validate());
  ASSERT_TRUE(answers(client, ping(1), raw(1u)));
  // The test makes the clients' sockets first, so that only accepting them can fail.
  for (int count = 0; count < 30; ++count) connect();
  const int late = connect(validate());
  const int newest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::close(newest), 0);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit tight{static_cast<rlim_t>(newest) + 3, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const bool served = answers(late, ping(2), raw(2u));
  const bool kept = answers(client, ping(3), raw(3u));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(served);
  EXPECT_TRUE(kept);
}

TEST_F(StoreServerTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  open();
  const int client = connect(validate());
  ASSERT_TRUE(run_until([&] { return server_->client_count() == 1; }));
  const int late = connect(validate());
  const int newest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::close(newest), 0);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit none{static_cast<rlim_t>(newest), old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  io_.restart();
  io_.poll();
  io_.restart();
  const std::size_t handlers = io_.poll();
  const bool kept = answers(client, ping(3), raw(3u));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(handlers, 0u);
  EXPECT_TRUE(kept);
  EXPECT_TRUE(answers(late, ping(2), raw(2u)));
}

TEST_F(StoreServerTest, AClientThatDoesNotReadWaitsAndLosesNothing) {
  open();
  const std::string value(4 << 20, 'v');
  const int client = connect(validate());
  std::string input = set("k", value);
  for (std::string_view rest = input; !rest.empty();) {
    const ssize_t size = ::send(client, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size > 0) rest.remove_prefix(static_cast<std::size_t>(size));
    io_.restart();
    io_.poll();
  }
  send(client, get("k") + get("k") + get("k") + ping(9));
  io_.restart();
  while (io_.poll() > 0) io_.restart();
  EXPECT_TRUE(answers(client, ping(10), blob(value) + blob(value) + blob(value) + raw(9u) + raw(10u)));
}

TEST_F(StoreServerTest, StopClosesThePortAndEveryConnectionAtOnce) {
  open();
  const int client = connect(validate() + wait({"k"})), stranger = connect();
  ASSERT_TRUE(run_until([&] { return server_->client_count() == 1 && server_->stranger_count() == 1; }));
  const std::uint16_t port = server_->port();
  server_->stop();
  std::string received;
  EXPECT_FALSE(receive(client, received));
  EXPECT_FALSE(receive(stranger, received));
  open({.port = port});
  EXPECT_TRUE(answers(connect(validate()), check({"k"}), "\1")) << "the next store is fresh";
}

TEST_F(StoreServerTest, ItMayBeDestroyedWithHandlersUnderWay) {
  open({.handshake = std::chrono::milliseconds(1)});
  connect(validate() + ping(1));
  connect();
  ASSERT_TRUE(run_until([&] { return server_->client_count() == 1; }));
  connect(validate());
  server_.reset();
  io_.restart();
  io_.run();  // returns: no handler of the server is left
}

TEST_F(StoreServerTest, AForeignAddressAndATakenPortAreErrors) {
  open();
  const auto taken = StoreServer::open(io_, {.port = server_->port()});
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message(), HasSubstr("cannot serve the c10d store on 127.0.0.1 port"));
  EXPECT_FALSE(StoreServer::open(io_, {.address = boost::asio::ip::make_address("192.0.2.1")}));
}

class StoreUsersTest : public StoreServerTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  }
  // The result for a client of this user: "answer", "end", or why there cannot be such a client. `below`: it
  // descends from this process.
  std::string answer_to(uid_t user, bool below = false) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    const pid_t client = fork();
    if (client == 0) {
      const pid_t parent = getpid();
      if (!below && fork() != 0) _exit(0);
      while (!below && getppid() == parent) poll(nullptr, 0, 1);
      const std::string answer = ask_as(user);
      (void)!::write(ends[1], answer.data(), answer.size());
      _exit(0);
    }
    const UniqueFd answer(ends[0]);
    close(ends[1]);
    std::array<char, 64> text{};
    EXPECT_TRUE(run_until([&] { return ::read(answer.get(), text.data(), text.size()) > 0; }));
    waitpid(client, nullptr, 0);
    return text.data();
  }

 private:
  std::string ask_as(uid_t user) {
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) return "no such user";
    const int fd = connect(validate() + ping(7));
    char byte = 0;
    return ::recv(fd, &byte, 1, 0) == 1 ? "answer" : "end";
  }
};

TEST_F(StoreUsersTest, OnLoopbackOnlyTheAgentsOwnUserIsAccepted) {
  std::vector<std::string> refused;
  open({.on_refused = [&](const std::string& who) { refused.push_back(who); }});
  EXPECT_EQ(answer_to(65534), "end");
  EXPECT_EQ(answer_to(0), "answer");
  EXPECT_EQ(refused, std::vector<std::string>{"of uid 65534: no process of this job has made it"});
}

TEST_F(StoreUsersTest, ARankThatHasChangedItsUserIsAccepted) {
  open();
  EXPECT_EQ(answer_to(65534, /*below=*/true), "answer");
}

TEST_F(StoreUsersTest, AnotherProcessOfTheUserOfARankIsNotAccepted) {
  open();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t rank = fork();
  if (rank == 0) {
    char byte = setresuid(65534, 65534, 65534) == 0 ? 'x' : '-';
    (void)!::write(ends[1], &byte, 1);
    for (;;) pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(answer_to(65534, /*below=*/true), "answer");
  EXPECT_EQ(answer_to(65534), "end");
  kill(rank, SIGKILL);
  waitpid(rank, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

// As root has it in a container.
TEST_F(StoreUsersTest, WithoutCapSysPtraceTheUserOfARankDecides) {
  const pid_t inside = fork();
  if (inside == 0) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (syscall(SYS_capget, &header, data.data()) != 0) _exit(77);
    data[0].effective &= ~(1U << CAP_SYS_PTRACE);
    data[0].permitted &= ~(1U << CAP_SYS_PTRACE);
    if (syscall(SYS_capset, &header, data.data()) != 0) _exit(77);
    open();
    _exit(answer_to(65534) == "end" && answer_to(65534, /*below=*/true) == "answer" ? 0 : 1);
  }
  int status = 0;
  waitpid(inside, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot give up the capability here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Each namespace has its own loopback, and answers for itself.
TEST_F(StoreUsersTest, InsideANetworkNamespaceToo) {
  const pid_t inside = fork();
  if (inside == 0) {
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    if (unshare(CLONE_NEWNET) != 0) _exit(77);
    const UniqueFd there(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (ioctl(there.get(), SIOCSIFFLAGS, &loopback) != 0) _exit(77);
    open();
    _exit(answer_to(65534) == "end" && answer_to(0) == "answer" ? 0 : 1);
  }
  int status = 0;
  waitpid(inside, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot make a network namespace here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A client that sends a command and closes at once leaves a socket without an owner.
TEST_F(StoreServerTest, OnlyPeersAreAcceptedIfTheyAreNamed) {
  std::vector<std::string> refused;
  open({.peers = {boost::asio::ip::make_address("127.0.0.2"), boost::asio::ip::make_address("fd00::2")},
        .on_refused = [&](const std::string& who) { refused.push_back(who); }});
  const int stranger = connect(validate(), "127.0.0.3");
  const int peer = connect(validate(), "127.0.0.2");
  EXPECT_TRUE(dropped(stranger));
  EXPECT_TRUE(answers(peer, ping(7), raw(7u)));
  EXPECT_EQ(refused, std::vector<std::string>{"from 127.0.0.3: not an address of this job's hosts"});
}

TEST_F(StoreServerTest, AConnectionWithoutAnOwnerIsNotObeyed) {
  open();
  connect(validate() + set("key", "value"));
  fds_.clear();
  const int other = connect(validate());
  EXPECT_TRUE(answers(other, ping(1), raw(1u))) << "the other was taken before";
  EXPECT_TRUE(answers(other, check({"key"}), std::string("\1")));
}

TEST_F(StoreServerTest, ItsDescriptorsAreClosedOnExec) {
  open();
  connect(validate());
  ASSERT_TRUE(run_until([&] { return server_->client_count() == 1; }));
  DIR* directory = ::opendir("/proc/self/fd");
  ASSERT_NE(directory, nullptr);
  int sockets = 0;
  while (const dirent* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || fd < 3) continue;
    sockaddr_storage name{};
    size = sizeof name;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 || name.ss_family != AF_INET)
      continue;
    ++sockets;
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
  }
  ::closedir(directory);
  EXPECT_EQ(sockets, 3);
}

}  // namespace
}  // namespace muster::agent
