// A real agent that connects to its launcher over TLS, or talks to it over stdin and stdout.
#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/net/addresses.h"
#include "common/net/listener.h"
#include "common/wire/codec.h"
#include "tests/certificate_server.h"
#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

constexpr const char* kIdentity = "job/agent/3/2";

std::string line_of(const net::Key& key) {
  return net::to_hex(key) + "\n";
}

// An agent's process with `input` on its stdin, which stays open.
class CallingAgent {
 public:
  CallingAgent(const std::string& addresses, const std::string& input, std::vector<std::string> more = {}) {
    int in[2];
    int out[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipe");
    const UniqueFd theirs(in[0]);
    const UniqueFd their_output(out[1]);
    input_.reset(in[1]);
    output_.reset(out[0]);
    CHECK(write_all(input_.get(), input, "pipe"), "pipe");
    std::vector<std::string> words = {AGENT_PROGRAM, "--connect", addresses,       "--identity", kIdentity,
                                      "--node",      "3",         "--incarnation", "2"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(theirs.get(), STDIN_FILENO);
    dup2(their_output.get(), STDOUT_FILENO);
    execv(AGENT_PROGRAM, argv.data());
    _exit(127);
  }
  CallingAgent(const CallingAgent&) = delete;
  CallingAgent& operator=(const CallingAgent&) = delete;
  ~CallingAgent() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  void end_input() { input_.reset(); }
  bool ended() {
    ended_ = ended_ || waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }
  // Everything on the agent's stdout until its end.
  std::string output() {
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = read(output_.get(), bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
    return text;
  }

 private:
  UniqueFd input_;
  UniqueFd output_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int status_ = 0;
};

std::string loopback(std::uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
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
    listener_->start(**net::Tls::load(), tasks_, find_key,
                     [this](std::shared_ptr<net::Connection> connection) {
                       ++connection_count_;
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
  // Receives the Hello, and tells the agent to leave.
  awaitable<void> converse() {
    const auto frame = co_await connection_->receive();
    if (!frame) co_return;
    const auto message = wire::decode_for_launcher(*frame);
    if (message && std::holds_alternative<wire::Hello>(*message)) hello_ = std::get<wire::Hello>(*message);
    if (leave_at_hello_) send_leave();
  }
  void send_leave() {
    connection_->send(wire::encode({{}, NodeId(3), wire::kLauncher, Term(1), Attempt(0), Sequence(1)},
                                   wire::ToAgent(wire::Leave{})));
  }
  // Waits for the agent's end.
  void serve(CallingAgent& agent) {
    EXPECT_TRUE(eventually([this, &agent] {
      io_.restart();
      io_.run_for(5ms);
      return agent.ended();
    }));
  }
  int run_agent(const std::string& input) {
    CallingAgent agent(loopback(listener_->port()), input);
    serve(agent);
    return agent.exit_code();
  }

  const net::Key key_ = net::make_key();
  asio::io_context io_;
  net::TaskGroup tasks_{io_.get_executor()};
  std::unique_ptr<net::Listener> listener_;
  std::shared_ptr<net::Connection> connection_;
  std::optional<wire::Hello> hello_;
  int connection_count_ = 0;
  bool leave_at_hello_ = true;
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
  CallingAgent agent(loopback(acceptor.local_endpoint().port()), line_of(key_));
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
  serve(agent);
  EXPECT_EQ(agent.exit_code(), 69);
}

TEST_F(AgentConnect, GivesUpWithTheWrongKey) {
  EXPECT_EQ(run_agent(line_of(net::make_key())), 69);
  EXPECT_EQ(connection_, nullptr);
}

TEST_F(AgentConnect, GivesUpOnWhatIsNoKey) {
  const std::string digits = net::to_hex(key_);
  for (const std::string& input : {std::string(), std::string("\n"), digits, digits.substr(1) + "\n",
                                   digits + "0\n", std::string(1000, '0')}) {
    CallingAgent agent(loopback(listener_->port()), input);
    agent.end_input();
    serve(agent);
    EXPECT_EQ(agent.exit_code(), 69) << input;
  }
  EXPECT_EQ(connection_, nullptr);
}

TEST_F(AgentConnect, SaysWhoItIsBeforeItCallsAndHowItIsSpokenTo) {
  CallingAgent agent(loopback(listener_->port()), line_of(key_));
  serve(agent);
  const std::string output = agent.output();
  EXPECT_THAT(output, testing::StartsWith("muster-agent 1 " + std::to_string(agent.pid()) + " "));
  EXPECT_THAT(output, testing::EndsWith("\ncontrol tcp\n"));
  EXPECT_EQ(std::ranges::count(output, '\n'), 2);
}

TEST_F(AgentConnect, CallsAllAddressesAtOnceAndTheFirstThatProvesTheKeyIsUsed) {
  // An address without a listener, one with a silent listener, and the launcher's address twice.
  asio::ip::tcp::acceptor silent(io_, {asio::ip::address_v4::loopback(), 0});
  const std::string own = loopback(listener_->port());
  CallingAgent agent(loopback(1) + "," + loopback(silent.local_endpoint().port()) + "," + own + "," + own,
                     line_of(key_));
  serve(agent);
  EXPECT_EQ(agent.exit_code(), 0);
  EXPECT_TRUE(hello_);
  EXPECT_EQ(connection_count_, 1) << "it proved itself on more than one connection";
}

TEST_F(AgentConnect, GivesUpWhereNoAddressCanBeUsed) {
  CallingAgent agent(loopback(1) + ",not-a-number:7", line_of(key_));
  serve(agent);
  EXPECT_EQ(agent.exit_code(), 69);
}

TEST_F(AgentConnect, LeavesAtOnceWhenItsInputEndsBeforeItIsConnected) {
  asio::ip::tcp::acceptor silent(io_, {asio::ip::address_v4::loopback(), 0});
  CallingAgent agent(loopback(silent.local_endpoint().port()), line_of(key_));
  const asio::ip::tcp::socket taken = silent.accept();
  EXPECT_FALSE(agent.ended());
  const TimePoint ended_at = Clock::now();
  agent.end_input();
  EXPECT_TRUE(eventually([&agent] { return agent.ended(); }));
  EXPECT_LT(Clock::now() - ended_at, 2s);
  EXPECT_EQ(agent.exit_code(), 69);
}

TEST_F(AgentConnect, DoesNotMindTheEndOfItsInputOnceItIsConnected) {
  leave_at_hello_ = false;
  CallingAgent agent(loopback(listener_->port()), line_of(key_));
  const auto run_until = [this](const std::function<bool()>& condition, std::chrono::milliseconds limit) {
    return eventually(
        [this, &condition] {
          io_.restart();
          io_.run_for(5ms);
          return condition();
        },
        limit);
  };
  ASSERT_TRUE(run_until([this] { return hello_.has_value(); }, 30s));
  agent.end_input();
  EXPECT_FALSE(run_until([&agent] { return agent.ended(); }, 200ms));
  send_leave();
  serve(agent);
  EXPECT_EQ(agent.exit_code(), 0);
}

class AgentStdio : public AgentProcess {
 protected:
  TestLauncher::Options stdio(std::vector<std::string> arguments = {"--stdio"}) const {
    return {.error_file = scratch_ / "stderr", .stdio = true, .arguments = std::move(arguments)};
  }
};

TEST_F(AgentStdio, RunsAJobAndPassesOnMuchOutput) {
  TestLauncher launcher(stdio());
  ASSERT_EQ(launcher.preamble.size(), 2U);
  EXPECT_THAT(launcher.preamble[0],
              testing::StartsWith(fmt::format("muster-agent 1 {} ", launcher.agent_pid())));
  EXPECT_EQ(launcher.preamble[1], "control stdio");
  launcher.welcome(job("read line; echo \"input: <$line>\"; seq 1 200000"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string output = launcher.output(0, 1);
  EXPECT_THAT(output, testing::StartsWith("input: <>\n1\n2\n"));
  EXPECT_THAT(output, testing::EndsWith("\n200000\n"));
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
}

TEST_F(AgentStdio, IsTheSecondChoiceWhereNoAddressIsReached) {
  TestLauncher launcher(
      stdio({"--connect", "127.0.0.1:1,[::1]:1", "--identity", "job/agent/0/1", "--or-stdio"}));
  ASSERT_EQ(launcher.preamble.size(), 2U);
  EXPECT_EQ(launcher.preamble[1], "control stdio");
  launcher.send(wire::Leave{});
  EXPECT_EQ(launcher.agent_exit(), 0);
}

TEST_F(AgentStdio, IsTheSecondChoiceWhereNobodyAnswers) {
  asio::io_context io;
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  const TimePoint before = Clock::now();
  TestLauncher launcher(stdio(
      {"--connect", loopback(silent.local_endpoint().port()), "--identity", "job/agent/0/1", "--or-stdio"}));
  EXPECT_EQ(launcher.preamble.back(), "control stdio");
  EXPECT_GE(Clock::now() - before, 2s);
}

TEST_F(AgentStdio, TakesTheEndOfItsInputForItsLaunchersEnd) {
  TestLauncher launcher(stdio());
  launcher.welcome(job("trap '' TERM; sleep 1000"));
  ASSERT_EQ(launcher.start(1).size(), 1U);
  launcher.hang_up();
  EXPECT_EQ(launcher.agent_exit(), 1);
  EXPECT_TRUE(eventually([this] { return processes().empty(); }));
}

// The worker's output about its environment when the store is at `address`.
std::string printed_with_store_at(const std::string& address, TestLauncher& launcher) {
  wire::PrepareAttempt plan;
  plan.node_count = 1;
  plan.world_size = 1;
  plan.local_world_size = 1;
  plan.host_store = true;
  plan.store_address = address;
  launcher.send(plan);
  const auto prepared = launcher.wait_for<wire::AttemptPrepared>();
  if (!prepared) return {};
  launcher.send(wire::StartWorkers{address, prepared->store_port, std::nullopt});
  launcher.wait_for<wire::WorkersGone>();
  return launcher.output(0, 1);
}

TEST_F(AgentStdio, WorkersUseTheInterfaceOfTheStoresAddress) {
  const auto all = net::host_addresses();
  const auto own = std::ranges::find(all, false, &net::HostAddress::loopback);
  if (own == all.end()) GTEST_SKIP() << "this host has loopback only";
  TestLauncher launcher(stdio());
  launcher.welcome(job("echo $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME"));
  EXPECT_EQ(printed_with_store_at(own->address, launcher), own->interface + " " + own->interface + "\n");
}

TEST_F(AgentStdio, WorkersChooseTheInterfaceThemselvesWhereTheStoreIsOnLoopback) {
  TestLauncher launcher(stdio());
  launcher.welcome(job("echo \"<$GLOO_SOCKET_IFNAME$NCCL_SOCKET_IFNAME>\""));
  EXPECT_EQ(printed_with_store_at("127.0.0.1", launcher), "<>\n");
}

TEST_F(AgentStdio, KeepsLogsElsewhereWhereTheLogDirectoryCannotBeMade) {
  ASSERT_TRUE(write_file_durably(scratch_ / "logs", "no directory"));
  TestLauncher::Options options = stdio();
  options.environment = {"XDG_STATE_HOME=" + scratch_ / "state"};
  TestLauncher launcher(options);
  wire::JobSpec spec = job("echo kept");
  spec.log_directory = scratch_ / "logs/here";
  launcher.welcome(spec);
  ASSERT_EQ(launcher.start(1).size(), 1U);
  ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
  const std::string kept = scratch_ / ("state/muster/" + spec.job_id);
  EXPECT_EQ(read_file(kept + "/attempt_1/rank_0/stdout.log", 100).value_or("(none)"), "kept\n");
  const auto elsewhere = launcher.all<wire::LogsElsewhere>();
  ASSERT_EQ(elsewhere.size(), 1U);
  EXPECT_EQ(elsewhere[0].directory, kept);
  // The output may arrive before the workers' end. The first piece has the text; an empty piece ends a
  // stream.
  std::optional<wire::LogPiece> sent;
  do {
    for (const auto& piece : launcher.all<wire::LogPiece>())
      if (piece.file == wire::LogFile::kStdout && !sent) sent = piece;
  } while (!sent && launcher.wait_for<wire::LogPiece>());
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->text.view(), "kept\n");
}

TEST_F(AgentProcess, RefusesAnAttemptWhereItsLaunchersLogDirectoryCannotBeMade) {
  ASSERT_TRUE(write_file_durably(scratch_ / "logs", "no directory"));
  TestLauncher launcher({.environment = {"XDG_STATE_HOME=" + scratch_ / "state"}});
  launcher.welcome(job("true"));
  launcher.prepare(1);
  const auto refused = launcher.wait_for<wire::AttemptRefused>();
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->message, testing::HasSubstr("cannot keep logs"));
  EXPECT_TRUE(launcher.all<wire::AgentRemark>().empty());
}

}  // namespace
}  // namespace muster
