#include "bench/many_agents/tls.h"

#include <arpa/inet.h>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <malloc.h>
#include <map>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/process.h"
#include "common/net/connect.h"
#include "common/net/listener.h"

namespace muster::bench {

namespace {

using namespace std::chrono_literals;
using Keys = std::map<std::string, net::Key, std::less<>>;

constexpr Duration kConnectLimit = 60s;
// Real agents are processes of their own. The thread of the caller needs its time for each handshake, so with
// more calls at once the listener would wait for the caller.
constexpr int kCallsAtOnce = 500;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A child process that does its work and then keeps its connections until this object is destroyed.
class Callers {
 public:
  explicit Callers(const std::function<void()>& call) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "errno {}", errno);
    const UniqueFd waits(ends[0]);
    held_ = UniqueFd(ends[1]);
    pid_ = fork();
    CHECK(pid_ >= 0, "errno {}", errno);
    if (pid_ > 0) return;
    held_ = UniqueFd();
    call();
    char byte = 0;
    _exit(static_cast<int>(read(waits.get(), &byte, 1)));
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  ~Callers() {
    held_ = UniqueFd();
    waitpid(pid_, nullptr, 0);
  }

 private:
  UniqueFd held_;
  pid_t pid_ = 0;
};

// Makes calls, one after the other, until none is left.
asio::awaitable<void> call(std::uint16_t port, Keys::const_iterator& next, Keys::const_iterator end,
                           std::vector<std::shared_ptr<net::Connection>>& all) {
  while (next != end) {
    const auto& [identity, key] = *next++;
    auto connection = co_await net::connect("127.0.0.1", port, identity, key, kConnectLimit);
    CHECK(connection, "{}", connection.error().message());
    all.push_back(*std::move(connection));
  }
}

void call_all(std::uint16_t port, const Keys& keys) {
  asio::io_context io(1);
  static std::vector<std::shared_ptr<net::Connection>> all;
  auto next = keys.begin();
  for (int i = 0; i < kCallsAtOnce; ++i)
    asio::co_spawn(io, call(port, next, keys.end(), all), asio::detached);
  io.run();
}

Keys make_keys(int count) {
  Keys keys;
  for (int node = 0; node < count; ++node)
    keys.emplace(fmt::format("many/default/{}/1", node), net::make_key());
  return keys;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port;  // in network order
  return address;
}

double accept_plain(int count) {
  const UniqueFd port(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  CHECK(bind(port.get(), generic, size) == 0 && listen(port.get(), SOMAXCONN) == 0, "errno {}", errno);
  CHECK(getsockname(port.get(), generic, &size) == 0, "errno {}", errno);
  const auto begin = std::chrono::steady_clock::now();
  const Callers callers([&] {
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);  // open until the process ends
      CHECK(fd >= 0 && connect(fd, generic, size) == 0, "errno {}", errno);
    }
  });
  std::vector<UniqueFd> accepted;
  while (std::ssize(accepted) < count) {
    accepted.emplace_back(accept4(port.get(), nullptr, nullptr, SOCK_CLOEXEC));
    CHECK(accepted.back(), "errno {}", errno);
  }
  return seconds_since(begin);
}

}  // namespace

std::size_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

Joining join_over_tls(int count) {
  raise_descriptor_limit();
  Joining result{.plain_seconds = accept_plain(count)};
  const auto tls = net::Tls::load();
  CHECK(tls, "{}", tls.error().message());
  const Keys keys = make_keys(count);
  asio::io_context io(1);
  net::TaskGroup tasks(io.get_executor());
  const auto listener = net::Listener::open(io.get_executor(), "127.0.0.1", 0);
  CHECK(listener, "{}", listener.error().message());
  const std::uint16_t port = (*listener)->port();
  const auto begin = std::chrono::steady_clock::now();
  const Callers callers([&] { call_all(port, keys); });
  const std::size_t before = allocated_bytes();
  std::vector<std::shared_ptr<net::Connection>> joined;
  (*listener)->start(
      **tls, tasks,
      [&keys](std::string_view identity) -> std::optional<net::Key> {
        const auto found = keys.find(identity);
        return found == keys.end() ? std::nullopt : std::optional(found->second);
      },
      [&joined](std::shared_ptr<net::Connection> connection) { joined.push_back(std::move(connection)); },
      {});
  while (std::ssize(joined) < count) io.run_one();
  result.seconds = seconds_since(begin);
  result.bytes_each = static_cast<double>(allocated_bytes() - before) / count;
  (*listener)->stop();
  tasks.cancel();
  io.restart();
  while (!tasks.empty() && io.run_one() > 0) {
  }
  return result;
}

}  // namespace muster::bench
