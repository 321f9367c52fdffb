#include "common/net/connect.h"

#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <utility>

namespace muster::net {

using asio::ip::tcp;

namespace {

using Connected = Expected<std::shared_ptr<Connection>>;

constexpr Duration kPauseWhenTurnedAway = std::chrono::milliseconds(100);
constexpr Duration kHeadStart = std::chrono::milliseconds(50);

// The data that is shared by several tasks. Each task connects to one listener, and all do so at the same
// time.
struct Race {
  Race(const asio::any_io_executor& executor, Duration limit, std::size_t count)
      : over(executor, limit), head_start(executor), failures(count), running(count) {}

  asio::steady_timer over;  // canceled when one task has connected, or all have failed
  // Until this timer ends, only the first connection that was made starts a TLS handshake; the others wait. A
  // handshake takes longer than everything else that an agent does at its start, and usually all addresses
  // reach the same launcher.
  asio::steady_timer head_start;
  bool has_first = false;
  std::vector<std::string> failures;  // by listener
  std::size_t running;
  bool won = false;  // one task has begun to prove its identity, so no other task may do this
  std::shared_ptr<Connection> winner;
  std::vector<std::shared_ptr<tcp::socket>> sockets;
  std::vector<std::weak_ptr<Connection>> connections;
};

// Ends the head start of the first connection when this object is destroyed. Then the other connections also
// make their handshakes.
class HeadStart {
 public:
  explicit HeadStart(std::shared_ptr<Race> race) : race_(std::move(race)) {}
  HeadStart(const HeadStart&) = delete;
  HeadStart& operator=(const HeadStart&) = delete;
  ~HeadStart() {
    if (race_) race_->head_start.expires_at(TimePoint::min());
  }

 private:
  std::shared_ptr<Race> race_;
};

// `away` tells whether the listener has turned the caller away. It does so if too many connections to it have
// not yet proved who they are.
struct Turn {
  bool away = false;
};

// Connects once. If the listener turns the caller away, sets `turn->away`. If there is only one listener,
// `race` is null.
awaitable<Connected> call_once(Endpoint listener, std::string identity, Key key, Duration limit,
                               std::shared_ptr<Race> race, std::shared_ptr<Turn> turn) {
  const auto executor = co_await asio::this_coro::executor;
  const std::string place = fmt::format("cannot connect to {} port {}", listener.address, listener.port);
  auto tls = Tls::load();
  if (!tls) co_return failure_within(place, std::move(tls));
  boost::system::error_code error;
  const auto parsed = asio::ip::make_address(listener.address, error);
  if (error) co_return failure(ErrorCode::kInvalidArgument, "{}: not an IP address", place);
  auto socket = std::make_shared<tcp::socket>(executor);
  if (race) race->sockets.push_back(socket);
  asio::steady_timer timer(executor, limit);
  timer.async_wait([socket](const boost::system::error_code& cancelled) {
    if (!cancelled) socket->close();
  });
  co_await socket->async_connect(tcp::endpoint(parsed, listener.port),
                                 asio::redirect_error(asio::use_awaitable, error));
  timer.cancel();
  if (!error && !socket->is_open()) error = asio::error::operation_aborted;
  if (error) co_return system_failure(place, error.value());
  const bool first = race && !std::exchange(race->has_first, true);
  if (first) race->head_start.expires_after(kHeadStart);
  if (race && !first) co_await race->head_start.async_wait(asio::redirect_error(asio::use_awaitable, error));
  if (!socket->is_open() || (race && race->won)) co_return system_failure(place, ECANCELED);
  const HeadStart until_failure(first ? race : nullptr);
  socket->set_option(tcp::no_delay(true), error);
  auto connection = Connection::make(std::move(*socket), (*tls)->client(std::move(identity), key));
  if (race) race->connections.push_back(connection);
  turn->away = true;
  std::function<bool()> may_prove = [alone = race == nullptr, weak = std::weak_ptr(race), turn] {
    turn->away = false;  // the listener has answered
    const auto shared = weak.lock();
    return alone || (shared && !std::exchange(shared->won, true));
  };
  Status proven = co_await connection->handshake(limit, std::move(may_prove));
  if (!proven && proven.error().code() != ErrorCode::kUnavailable) turn->away = false;
  if (!proven) co_return failure_within(place, Connected(std::unexpected(proven.error())));
  co_return connection;
}

// Connects. If the listener turns the caller away, tries again, until `limit` has passed.
awaitable<Connected> call(Endpoint listener, std::string identity, Key key, Duration limit,
                          std::shared_ptr<Race> race) {
  const TimePoint deadline = Clock::now() + limit;
  asio::steady_timer pause(co_await asio::this_coro::executor);
  for (;;) {
    const auto turn = std::make_shared<Turn>();
    auto connected = co_await call_once(listener, identity, key, deadline - Clock::now(), race, turn);
    const bool again = !connected && turn->away && !(race && race->won);
    if (!again || Clock::now() + kPauseWhenTurnedAway >= deadline) co_return connected;
    pause.expires_after(kPauseWhenTurnedAway);
    boost::system::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (race && race->won) co_return connected;
  }
}

awaitable<void> compete(std::shared_ptr<Race> race, std::size_t index, awaitable<Connected> called) {
  const auto connected = co_await std::move(called);
  --race->running;
  if (connected)
    race->winner = *connected;
  else
    race->failures.at(index) = connected.error().message();
  if (race->winner != nullptr || race->running == 0) race->over.cancel();
}

}  // namespace

awaitable<Connected> connect(std::string address, std::uint16_t port, std::string identity, Key key,
                             Duration limit) {
  return call({std::move(address), port}, std::move(identity), key, limit, nullptr);
}

awaitable<Connected> connect_to_any(std::vector<Endpoint> listeners, std::string identity, Key key,
                                    Duration limit) {
  const auto executor = co_await asio::this_coro::executor;
  const auto race = std::make_shared<Race>(executor, limit, listeners.size());
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    race->failures[i] =
        fmt::format("cannot connect to {} port {}: no answer", listeners[i].address, listeners[i].port);
    asio::co_spawn(executor, compete(race, i, call(listeners[i], identity, key, limit, race)),
                   asio::detached);
  }
  boost::system::error_code ignored;
  if (!listeners.empty()) co_await race->over.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  const auto winner = race->winner;
  race->won = true;
  for (const auto& socket : race->sockets) socket->close(ignored);
  for (const auto& connection : race->connections) {
    const auto caller = connection.lock();
    if (caller && caller != winner) caller->close();
  }
  if (winner != nullptr) co_return winner;
  co_return failure(ErrorCode::kUnavailable, "{}", fmt::join(race->failures, "; "));
}

}  // namespace muster::net
