// Clients of the launcher's control port: a stranger with any bytes, or a client that has a key and whose
// bytes are changed on the way; then any messages of an authenticated agent.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/net/connection.h"
#include "common/net/task_group.h"
#include "launcher/io/fleet/session.h"
#include "tests/fuzz/input.h"
#include "tests/loaded_tls.h"

namespace muster {
namespace {

constexpr std::string_view kIdentity = "job/default/0/1";
const net::Key kKey = loaded_tls().derive_key(net::Key{1}, kIdentity);

// The launcher's end, as listener and session create it.
class Called {
 public:
  Called(asio::io_context& io, int socket, bool with_tls)
      : time_(io.get_executor()), tasks_(io.get_executor()) {
    const auto find_key = [](std::string_view identity) -> std::optional<net::Key> {
      if (identity != kIdentity) return std::nullopt;
      return kKey;
    };
    connection_ = net::Connection::make(net::adopt_socket(io.get_executor(), socket),
                                        with_tls ? loaded_tls().server(find_key) : nullptr);
    tasks_.spawn(greet(with_tls));
  }
  bool proven() const { return session_ != nullptr; }

 private:
  awaitable<void> greet(bool with_tls) {
    const Status proven = co_await connection_->handshake(std::chrono::hours(1));
    if (!proven) {
      connection_->close();
      co_return;
    }
    if (with_tls) CHECK(connection_->identity() == kIdentity, "{}", connection_->identity());
    session_ = std::make_shared<launcher::Session>(time_, NodeId(0), connection_);
    session_->start([](Attempt, const wire::ToLauncher&) {}, [](const Error&) {});
    session_->send(Attempt(), wire::Welcome{NodeId(0), {}});
  }

  net::SystemTime time_;
  net::TaskGroup tasks_;
  std::shared_ptr<net::Connection> connection_;
  std::shared_ptr<launcher::Session> session_;
};

std::string read_all(int socket) {
  std::string bytes(1 << 16, '\0');
  const ssize_t got = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

// A change of the client's bytes.
struct Damage {
  std::size_t place;
  unsigned char change;  // 0: none
};

// Runs until neither side sends anything. Returns whether the client accepts the server as the launcher.
bool shake_hands(asio::io_context& io, int socket, net::TlsSession& client, const Damage& damage) {
  std::size_t sent = 0;
  for (;;) {
    std::string flight = client.take_output();
    if (damage.place >= sent && damage.place - sent < flight.size())
      flight[damage.place - sent] = static_cast<char>(flight[damage.place - sent] ^ damage.change);
    sent += flight.size();
    send(socket, flight.data(), flight.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    io.poll();
    const std::string answer = read_all(socket);
    std::string plain;
    if (answer.empty() || !client.receive(answer, plain)) return client.established();
  }
}

void call(FuzzInput input) {
  enum Kind { kStranger, kProven, kWrongKey, kDamaged, kOverSocket, kKindCount };
  const auto kind = static_cast<Kind>(input.byte() % kKindCount);
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd peer(ends[1]);
  asio::io_context io(1);
  Called called(io, ends[0], kind != kOverSocket);
  io.poll();
  if (kind == kStranger || kind == kOverSocket) {
    const std::string_view bytes = input.rest();
    send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    io.poll();
    if (kind == kStranger) CHECK(!called.proven(), "a stranger was accepted as an agent");
  } else {
    const Damage damage{input.byte() * 256 + input.byte(), static_cast<unsigned char>(input.byte())};
    const auto client = loaded_tls().client(std::string(kIdentity), kind == kWrongKey ? net::Key{2} : kKey);
    const bool established = shake_hands(io, peer.get(), *client, kind == kDamaged ? damage : Damage{0, 0});
    if (kind == kProven) CHECK(established && called.proven(), "the right key was refused");
    if (kind == kWrongKey) CHECK(!called.proven(), "a wrong key was accepted");
    if (established && client->send(input.rest())) {
      const std::string flight = client->take_output();
      send(peer.get(), flight.data(), flight.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      io.poll();
    }
  }
  shutdown(peer.get(), SHUT_WR);
  io.poll();
  CHECK(io.stopped(), "a task waits for a client that is gone");
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::call(muster::FuzzInput(data, size));
  return 0;
}
