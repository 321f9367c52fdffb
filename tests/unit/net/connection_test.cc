#include "common/net/connection.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/net/connect.h"
#include "common/net/listener.h"
#include "common/net/task_group.h"
#include "tests/loaded_tls.h"

namespace muster::net {
namespace {

using namespace std::chrono_literals;

std::string frame_bytes(std::uint64_t sequence, std::size_t payload_bytes = 1) {
  std::string body, bytes;
  nlohmann::json::to_cbor(std::string(payload_bytes, 'x'), body);
  wire::append_frame(bytes, {1, NodeId(0), wire::kLauncher, Term(1), Attempt(0), Sequence(sequence)}, body);
  return bytes;
}

// The frames that one side received until its connection ended.
struct Received {
  std::vector<std::uint64_t> sequences;
  std::optional<Error> end;
};

awaitable<void> receive_all(std::shared_ptr<Connection> connection, Received& received) {
  for (;;) {
    Expected<wire::Frame> frame = co_await connection->receive();
    if (!frame) {
      received.end = frame.error();
      connection->close();
      co_return;
    }
    received.sequences.push_back(frame->header.sequence.value());
  }
}

std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> socket_pair(asio::io_context& context) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {Connection::make(adopt_socket(context.get_executor(), fds[0]), nullptr),
          Connection::make(adopt_socket(context.get_executor(), fds[1]), nullptr)};
}

TEST(Connection, FramesArriveInOrderAndAClosedPeerIsNoticed) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  auto [left, right] = socket_pair(context);
  Received received;
  tasks.spawn(receive_all(right, received));
  for (std::uint64_t i = 1; i <= 100; ++i) left->send(frame_bytes(i));
  context.poll();
  EXPECT_EQ(received.sequences.size(), 100u);
  EXPECT_EQ(received.sequences.back(), 100u);
  left->close();
  context.restart();
  context.run();
  EXPECT_EQ(received.end->code(), ErrorCode::kUnavailable);
}

TEST(Connection, SendingNeverWaitsAndReportsItsBacklog) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  auto [left, right] = socket_pair(context);
  constexpr std::size_t kFrames = 64;
  for (std::uint64_t i = 1; i <= kFrames; ++i)
    left->send(frame_bytes(i, 100000));  // more than a socket holds; nothing reads it
  EXPECT_GT(left->backlog_bytes(), std::size_t{1} << 20);
  Received received;
  tasks.spawn(receive_all(right, received));
  while (received.sequences.size() < kFrames) context.run_one();
  EXPECT_EQ(left->backlog_bytes(), 0u);
  left->close();
  context.run();
}

TEST(Connection, BytesThatFitIntoTheSocketAreWrittenBeforeItIsClosed) {
  asio::io_context context;
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const UniqueFd peer(fds[1]);
  auto connection = Connection::make(adopt_socket(context.get_executor(), fds[0]), nullptr);
  const auto read_all = [&peer] {
    std::vector<char> buffer(1 << 20);
    std::size_t sum = 0;
    for (ssize_t got = 0; (got = ::read(peer.get(), buffer.data(), buffer.size())) > 0;)
      sum += static_cast<std::size_t>(got);
    return sum;
  };
  while (connection->backlog_bytes() == 0) connection->send(frame_bytes(1, 1000));
  const std::size_t waiting = connection->backlog_bytes();
  EXPECT_GT(read_all(), 0u);
  connection->close();
  EXPECT_EQ(read_all(), waiting);
}

TEST(Connection, AFrameInTwoPartsArrivesCompleteHoweverMuchIsQueued) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  auto [left, right] = socket_pair(context);
  std::vector<std::uint64_t> sent;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    const std::string frame = frame_bytes(i, 30'011);
    left->send(std::string_view(frame).substr(0, i * 600), std::string_view(frame).substr(i * 600));
    sent.push_back(i);
  }
  EXPECT_GT(left->backlog_bytes(), 0u);
  Received received;
  tasks.spawn(receive_all(right, received));
  while (received.sequences.size() < 50 && !received.end) context.run_one();
  EXPECT_EQ(received.sequences, sent);
  left->close();
  context.run();
}

TEST(Connection, BytesSentAfterThePeerIsGoneAreNotKept) {
  asio::io_context context;
  auto [left, right] = socket_pair(context);
  for (std::uint64_t i = 1; i <= 20; ++i) left->send(frame_bytes(i, 100'000));
  EXPECT_GT(left->backlog_bytes(), 0u);
  right->close();
  context.poll();
  left->send(frame_bytes(21, 100'000));
  EXPECT_EQ(left->backlog_bytes(), 0u);
}

TEST(Connection, DestroyedBeforeItIsReadCallsNoHandler) {
  asio::io_context context;
  auto [left, right] = socket_pair(context);
  right->send(frame_bytes(1));
  int told = 0;
  left->start([&told](const wire::Frame&) { ++told; }, [&told](const Error&) { ++told; });
  left->close();
  left.reset();
  context.run();
  EXPECT_EQ(told, 0);
}

TEST(Connection, BytesThatAreNotAFrameEndIt) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  auto [left, right] = socket_pair(context);
  Received received;
  tasks.spawn(receive_all(right, received));
  left->send("GET / HTTP/1.1\r\n\r\n");
  context.run();
  EXPECT_EQ(received.end->code(), ErrorCode::kCorrupt);
}

TEST(Connection, FramesBeforeGarbageAreDelivered) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  auto [left, right] = socket_pair(context);
  Received received;
  tasks.spawn(receive_all(right, received));
  left->send(frame_bytes(1) + frame_bytes(2) + "GET / HTTP/1.1\r\n\r\n");
  context.run();
  EXPECT_EQ(received.sequences, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(received.end->code(), ErrorCode::kCorrupt);
}

awaitable<void> complete_handshake(std::shared_ptr<Connection> connection, Duration limit,
                                   std::optional<Status>& result) {
  result = co_await connection->handshake(limit);
}

// Reads the bytes that have arrived from the peer, and writes the answer.
void answer(int fd, TlsSession& session) {
  std::string bytes(16384, '\0');
  const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
  ASSERT_GT(got, 0);
  std::string plain;
  ASSERT_TRUE(session.receive({bytes.data(), static_cast<std::size_t>(got)}, plain));
  ASSERT_TRUE(write_all(fd, session.take_output(), "socket"));
}

TEST(Connection, AHandshakeThatSucceedsAtItsTimeoutHasSucceeded) {
  constexpr Duration kLimit = 20ms;
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd peer(fds[1]);
  const Key key = make_key();
  const auto server = loaded_tls().server([key](std::string_view) { return key; });
  auto connection =
      Connection::make(adopt_socket(context.get_executor(), fds[0]), loaded_tls().client("name", key));
  std::optional<Status> result;
  tasks.spawn(complete_handshake(connection, kLimit, result));
  context.poll();
  const TimePoint limit = Clock::now() + kLimit;
  answer(peer.get(), *server);
  while (Clock::now() <= limit) {
  }
  // The answer and the time-out are both ready now, and the answer is handled first.
  context.poll();
  ASSERT_TRUE(result);
  EXPECT_TRUE(*result);
  EXPECT_FALSE(connection->closed());
  connection->close();
}

TEST(Connection, FramesBeforeUndecryptableBytesAreDeliveredAndNotAnswered) {
  asio::io_context context;
  TaskGroup tasks(context.get_executor());
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd peer(fds[1]);
  const Key key = make_key();
  const auto server = loaded_tls().server([key](std::string_view) { return key; });
  auto connection =
      Connection::make(adopt_socket(context.get_executor(), fds[0]), loaded_tls().client("name", key));
  std::optional<Status> result;
  tasks.spawn(complete_handshake(connection, 5s, result));
  context.poll();
  answer(peer.get(), *server);
  context.restart();
  while (!result) context.run_one();
  ASSERT_TRUE(*result);
  answer(peer.get(), *server);
  int told = 0;
  std::optional<Error> end;
  connection->start(
      [&](const wire::Frame&) {
        ++told;
        connection->send(frame_bytes(1));
      },
      [&end](const Error& why) { end = why; });
  ASSERT_TRUE(server->send(frame_bytes(1)));
  ASSERT_TRUE(write_all(peer.get(), server->take_output() + std::string(64, 'x'), "socket"));
  context.restart();
  context.poll();
  EXPECT_EQ(told, 1) << "it came before the bytes that cannot be decrypted";
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code(), ErrorCode::kCorrupt);
}

// A listener with its keys, and the results of connections to it.
class Server {
 public:
  explicit Server(asio::io_context& context, Listener::Limits limits = {}) : tasks_(context.get_executor()) {
    listener_ = Listener::open(context.get_executor(), "127.0.0.1", 0).value();
    auto find = [this](std::string_view name) -> std::optional<Key> {
      return loaded_tls().derive_key(secret_, name);
    };
    listener_->start(
        loaded_tls(), tasks_, find,
        [this](std::shared_ptr<Connection> c) { connections_.push_back(std::move(c)); }, limits);
  }
  std::uint16_t port() const { return listener_->port(); }
  Key key_of(const std::string& identity) const { return loaded_tls().derive_key(secret_, identity); }
  const std::vector<std::shared_ptr<Connection>>& connections() const { return connections_; }
  TaskGroup& tasks() { return tasks_; }
  void stop() {
    listener_->stop();
    for (const auto& connection : connections_) connection->close();
  }

 private:
  Key secret_ = make_key();
  TaskGroup tasks_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::shared_ptr<Connection>> connections_;
};

awaitable<void> connect_to(std::uint16_t port, std::string identity, Key key,
                           Expected<std::shared_ptr<Connection>>& result, bool& done) {
  result = co_await connect("127.0.0.1", port, std::move(identity), key, 5s);
  done = true;
}

using Result = Expected<std::shared_ptr<Connection>>;

Result connect_now(asio::io_context& context, Server& server, const std::string& identity, const Key& key) {
  Result result;
  bool done = false;
  server.tasks().spawn(connect_to(server.port(), identity, key, result, done));
  while (!done) context.run_one();
  return result;
}

TEST(Listener, AnAgentWithItsKeyIsAcceptedUnderItsName) {
  asio::io_context context;
  Server server(context);
  Result client = connect_now(context, server, "job/worker/node1", server.key_of("job/worker/node1"));
  ASSERT_TRUE(client);
  while (server.connections().empty()) context.run_one();
  EXPECT_EQ(server.connections()[0]->identity(), "job/worker/node1");
  Received received;
  server.tasks().spawn(receive_all(server.connections()[0], received));
  (*client)->send(frame_bytes(1));
  (*client)->send(frame_bytes(2));
  while (received.sequences.size() < 2) context.run_one();
  (*client)->close();
  server.stop();
  context.run();
  EXPECT_EQ(received.end->code(), ErrorCode::kUnavailable);
}

TEST(Listener, AClientWithoutTheKeyIsRefused) {
  asio::io_context context;
  Server server(context);
  const Result client = connect_now(context, server, "job/worker/node1", server.key_of("job/worker/node2"));
  ASSERT_FALSE(client);
  EXPECT_TRUE(server.connections().empty());
  server.stop();
  context.run();
}

awaitable<void> call_any(std::vector<Endpoint> listeners, Key key, Duration limit, Result& result,
                         bool& done) {
  result = co_await connect_to_any(std::move(listeners), "job/worker/node1", key, limit);
  done = true;
}

TEST(ConnectToAny, ProvesItselfToOnlyOneAlthoughAllAnswer) {
  asio::io_context context;
  Server first(context);
  Server second(context);
  const Key key = first.key_of("job/worker/node1");
  Result result;
  bool done = false;
  const Endpoint place{"127.0.0.1", first.port()};
  // The second listener is another launcher's, with other keys.
  first.tasks().spawn(call_any({{"127.0.0.1", second.port()}, place, place, place}, key, 5s, result, done));
  while (!done) context.run_one();
  ASSERT_TRUE(result) << result.error().message();
  context.run_for(100ms);
  EXPECT_EQ(first.connections().size(), 1U);
  EXPECT_TRUE(second.connections().empty());
  EXPECT_FALSE((*result)->closed());
  EXPECT_FALSE(first.connections()[0]->closed());
  (*result)->close();
  first.stop();
  second.stop();
  context.restart();
  context.run();
}

TEST(ConnectToAny, NamesEachUnreachedAddressAfterTheTimeout) {
  asio::io_context context;
  Server server(context);
  asio::ip::tcp::acceptor silent(context, {asio::ip::address_v4::loopback(), 0});
  const std::uint16_t port = silent.local_endpoint().port();
  Result result;
  bool done = false;
  server.tasks().spawn(call_any({{"127.0.0.1", 1}, {"127.0.0.1", port}}, make_key(), 50ms, result, done));
  while (!done) context.run_one();
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("cannot connect to 127.0.0.1 port 1: Connection refused; "),
            std::string::npos);
  EXPECT_NE(result.error().message().find(fmt::format("cannot connect to 127.0.0.1 port {}: no", port)),
            std::string::npos);
  server.stop();
  context.run();
}

TEST(Listener, IdleStrangersAreDroppedAndDoNotKeepOthersOut) {
  asio::io_context context;
  Server server(context, {.handshake = 10s, .unproven_count = 16});
  std::vector<asio::ip::tcp::socket> idle;
  const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(), server.port());
  for (int i = 0; i < 1000; ++i) {
    idle.emplace_back(context).connect(endpoint);
    context.poll();
  }
  const Result client = connect_now(context, server, "job/worker/node1", server.key_of("job/worker/node1"));
  EXPECT_TRUE(client);
  // The first stranger was dropped long before its handshake's time-out.
  char byte = 0;
  boost::system::error_code error;
  idle.front().read_some(asio::buffer(&byte, 1), error);
  EXPECT_TRUE(error);
  if (client) (*client)->close();
  server.stop();
  context.run();
}

TEST(Listener, CallersInTheMiddleOfAHandshakeAreNotDroppedForOthers) {
  constexpr int kCallers = 200;
  asio::io_context context;
  Server server(context, {.handshake = 10s, .unproven_count = 4});
  int proven = 0;
  const auto call = [&](std::string identity) -> awaitable<void> {
    const auto caller = co_await connect("127.0.0.1", server.port(), identity, server.key_of(identity), 10s);
    EXPECT_TRUE(caller) << caller.error().message();
    if (++proven == kCallers) server.stop();
    if (caller) (*caller)->close();
  };
  for (int i = 0; i < kCallers; ++i) server.tasks().spawn(call(fmt::format("job/worker/node{}", i)));
  context.run();
  EXPECT_EQ(proven, kCallers);
}

TEST(Listener, NewStrangersFromOneAddressAreRefusedAndTheOldestStay) {
  asio::io_context context;
  Server server(context, {.handshake = 10s, .unproven_count = 256, .unproven_of_an_address = 16});
  std::vector<asio::ip::tcp::socket> idle;
  const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(), server.port());
  for (int i = 0; i < 300; ++i) {
    idle.emplace_back(context).open(asio::ip::tcp::v4());
    idle.back().bind({asio::ip::make_address_v4("127.0.0.2"), 0});
    idle.back().connect(endpoint);
    context.poll();
  }
  EXPECT_TRUE(connect_now(context, server, "job/worker/node1", server.key_of("job/worker/node1")));
  const auto is_dropped = [](asio::ip::tcp::socket& socket) {
    socket.non_blocking(true);
    char byte = 0;
    boost::system::error_code error;
    socket.read_some(asio::buffer(&byte, 1), error);
    return error != asio::error::would_block;
  };
  EXPECT_FALSE(is_dropped(idle.front()));
  EXPECT_FALSE(is_dropped(idle[15]));
  EXPECT_TRUE(is_dropped(idle[16]));
  EXPECT_TRUE(is_dropped(idle.back()));
  server.stop();
  context.run();
}

TEST(Listener, ARefusedCallerTriesAgainUntilThereIsRoom) {
  asio::io_context context;
  Server server(context, {.handshake = 300ms, .unproven_of_an_address = 1});
  asio::ip::tcp::socket stranger(context);
  stranger.connect({asio::ip::address_v4::loopback(), server.port()});
  context.poll();
  const auto start = std::chrono::steady_clock::now();
  const Result client = connect_now(context, server, "job/worker/node1", server.key_of("job/worker/node1"));
  EXPECT_TRUE(client) << client.error().message();
  EXPECT_GT(std::chrono::steady_clock::now() - start, 100ms);
  if (client) (*client)->close();
  server.stop();
  context.run();
}

TEST(Listener, ASlowHandshakeIsCutOff) {
  asio::io_context context;
  Server server(context, {.handshake = 20ms, .unproven_count = 16});
  asio::ip::tcp::socket slow(context);
  slow.connect({asio::ip::address_v4::loopback(), server.port()});
  boost::system::error_code result;
  bool ended = false;
  char byte = 0;
  slow.async_receive(asio::buffer(&byte, 1), [&](const boost::system::error_code& error, std::size_t) {
    result = error;
    ended = true;
  });
  while (!ended) context.run_one();
  EXPECT_TRUE(result);
  server.stop();
  context.run();
}

TEST(Listener, AnAddressThatCannotBeUsedIsNamed) {
  asio::io_context context;
  const auto refused = Listener::open(context.get_executor(), "192.0.2.1", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "cannot listen on 192.0.2.1 port 0: Cannot assign requested address");
}

}  // namespace
}  // namespace muster::net
