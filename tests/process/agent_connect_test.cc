// A real agent that connects to its launcher over TLS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/net/listener.h"
#include "common/wire/codec.h"
#include "tests/certificate_server.h"
#include "tests/process/agent_test_launcher.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

constexpr const char* kIdentity = "job/agent/3/2";

std::string line_of(const net::Key& key) {
  return net::to_hex(key) + "\n";
}

// The agent's process; its key comes on stdin.
pid_t start_agent(std::uint16_t port, const std::string& input) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  CHECK(write_all(write_end.get(), input, "pipe"), "pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(read_end.get(), STDIN_FILENO);
    const std::string address = "127.0.0.1:" + std::to_string(port);
    execl(AGENT_PROGRAM, AGENT_PROGRAM, "--connect", address.c_str(), "--identity", kIdentity, "--node", "3",
          "--incarnation", "2", nullptr);
    _exit(127);
  }
  return pid;
}

class AgentConnect : public testing::Test {
 protected:
  AgentConnect() {
    auto opened = net::Listener::open(io_.get_executor(), "127.0.0.1", 0);
    CHECK(opened, "{}", opened.error().message());
    listener_ = *std::move(opened);
    const auto find_key = [this](std::string_view identity) {
      return identity == kIdentity ? std::optional(key_) : std::nullopt;
    };
    listener_->start(tasks_, find_key,
                     [this](std::shared_ptr<net::Connection> connection) {
                       connection_ = std::move(connection);
                       tasks_.spawn(converse());
                     },
                     {});
  }
  ~AgentConnect() override {
    listener_->stop();
    if (connection_ != nullptr) connection_->close();
    io_.restart();
    io_.run();
  }
  // Takes the Hello, and sends the agent away.
  awaitable<void> converse() {
    const auto frame = co_await connection_->receive();
    if (!frame) co_return;
    const auto message = wire::decode_for_launcher(*frame);
    if (message && std::holds_alternative<wire::Hello>(*message)) hello_ = std::get<wire::Hello>(*message);
    connection_->send(wire::encode({{}, NodeId(3), wire::kLauncher, Term(1), Attempt(0), Sequence(1)},
                                   wire::ToAgent(wire::Leave{})));
  }
  // Its exit code.
  int run_agent(const std::string& input) {
    const pid_t pid = start_agent(listener_->port(), input);
    int status = 0;
    const bool ended = eventually([this, pid, &status] {
      io_.restart();
      io_.run_for(5ms);
      return waitpid(pid, &status, WNOHANG) == pid;
    });
    EXPECT_TRUE(ended);
    if (!ended) kill(pid, SIGKILL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const net::Key key_ = net::make_key();
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  std::unique_ptr<net::Listener> listener_;
  std::shared_ptr<net::Connection> connection_;
  std::optional<wire::Hello> hello_;
};

TEST_F(AgentConnect, ProvesItselfWithItsKeyAndObeys) {
  EXPECT_EQ(run_agent(line_of(key_)), 0);
  ASSERT_TRUE(hello_);
  EXPECT_EQ(hello_->node, NodeId(3));
  EXPECT_EQ(hello_->incarnation, Incarnation(2));
  EXPECT_EQ(connection_->identity(), kIdentity);
}

TEST_F(AgentConnect, SaysNothingToALauncherWithACertificateInsteadOfTheKey) {
  asio::ip::tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
  const pid_t pid = start_agent(acceptor.local_endpoint().port(), line_of(key_));
  asio::ip::tcp::socket socket = acceptor.accept();
  CertificateServer impostor;
  boost::system::error_code ended;
  while (!impostor.accepted()) {
    std::string bytes(16384, '\0');
    bytes.resize(socket.read_some(asio::buffer(bytes), ended));
    if (ended) break;
    impostor.receive(bytes);
    socket.send(asio::buffer(impostor.take_output()));
  }
  EXPECT_FALSE(impostor.accepted());
  socket.close();
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 69);
}

TEST_F(AgentConnect, GivesUpWithTheWrongKey) {
  EXPECT_EQ(run_agent(line_of(net::make_key())), 69);
  EXPECT_EQ(connection_, nullptr);
}

TEST_F(AgentConnect, GivesUpOnWhatIsNoKey) {
  const std::string digits = net::to_hex(key_);
  for (const std::string& input :
       {std::string(), std::string("\n"), digits.substr(1), digits + "0\n", std::string(1000, '0')})
    EXPECT_EQ(run_agent(input), 69) << input;
  EXPECT_EQ(connection_, nullptr);
}

TEST_F(AgentConnect, TakesAKeyThatEndsWithTheInput) {
  EXPECT_EQ(run_agent(net::to_hex(key_)), 0);
  EXPECT_TRUE(hello_);
}

}  // namespace
}  // namespace muster
