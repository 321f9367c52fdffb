#include "tests/hosts/delay_proxy.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <linux/netfilter_ipv4.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"

namespace muster::hosts {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Time = std::chrono::steady_clock;

// The mark of the proxy's own connections, which iptables does not redirect.
constexpr int kMark = 77;

// One direction of one connection.
struct Pipe : std::enable_shared_from_this<Pipe> {
  Pipe(std::shared_ptr<tcp::socket> source, std::shared_ptr<tcp::socket> target, Time::duration by)
      : from(std::move(source)), to(std::move(target)), timer(from->get_executor()), delay(by) {}

  asio::awaitable<void> read() {
    const auto self = shared_from_this();
    boost::system::error_code error;
    while (!error) {
      std::string bytes(64 << 10, '\0');
      bytes.resize(co_await from->async_read_some(asio::buffer(bytes),
                                                  asio::redirect_error(asio::use_awaitable, error)));
      pieces.emplace_back(Time::now() + delay, std::move(bytes));  // an empty piece is the end
      timer.cancel();
    }
  }

  asio::awaitable<void> write() {
    const auto self = shared_from_this();
    boost::system::error_code error;
    for (;;) {
      timer.expires_at(pieces.empty() ? Time::time_point::max() : pieces.front().first);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (pieces.empty() || pieces.front().first > Time::now()) continue;
      const std::string bytes = std::move(pieces.front().second);
      pieces.pop_front();
      if (!bytes.empty())
        co_await asio::async_write(*to, asio::buffer(bytes),
                                   asio::redirect_error(asio::use_awaitable, error));
      if (bytes.empty() || error) break;
    }
    to->shutdown(tcp::socket::shutdown_send, error);
  }

  std::shared_ptr<tcp::socket> from, to;
  asio::steady_timer timer;
  Time::duration delay;
  std::deque<std::pair<Time::time_point, std::string>> pieces;
};

asio::awaitable<void> relay(tcp::socket accepted, Time::duration delay) {
  sockaddr_in wanted{};
  socklen_t size = sizeof wanted;
  CHECK(getsockopt(accepted.native_handle(), SOL_IP, SO_ORIGINAL_DST, &wanted, &size) == 0);
  auto client = std::make_shared<tcp::socket>(std::move(accepted));
  auto server = std::make_shared<tcp::socket>(client->get_executor(), tcp::v4());
  CHECK(setsockopt(server->native_handle(), SOL_SOCKET, SO_MARK, &kMark, sizeof kMark) == 0);
  boost::system::error_code error;
  co_await server->async_connect(
      {asio::ip::address_v4(ntohl(wanted.sin_addr.s_addr)), ntohs(wanted.sin_port)},
      asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  for (const auto& pipe :
       {std::make_shared<Pipe>(client, server, delay), std::make_shared<Pipe>(server, client, delay)}) {
    asio::co_spawn(client->get_executor(), pipe->read(), asio::detached);
    asio::co_spawn(client->get_executor(), pipe->write(), asio::detached);
  }
}

asio::awaitable<void> accept_all(tcp::acceptor acceptor, Time::duration delay) {
  for (;;) {
    tcp::socket accepted = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), relay(std::move(accepted), delay), asio::detached);
  }
}

}  // namespace

void run_command(const std::string& command) {
  CHECK(std::system(command.c_str()) == 0, "{}", command);
}

DelayProxy::DelayProxy(std::chrono::milliseconds delay) {
  asio::io_context io(1);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  const std::string rule = fmt::format("-p tcp -m mark ! --mark {} -j REDIRECT --to-ports {}", kMark,
                                       acceptor.local_endpoint().port());
  io.notify_fork(asio::io_context::fork_prepare);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ != 0) {
    io.notify_fork(asio::io_context::fork_parent);
    run_command("iptables -t nat -A OUTPUT -o lo " + rule);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  io.notify_fork(asio::io_context::fork_child);
  asio::co_spawn(io, accept_all(std::move(acceptor), delay), asio::detached);
  io.run();
  _exit(0);
}

DelayProxy::~DelayProxy() {
  run_command("iptables -t nat -F OUTPUT");
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace muster::hosts
