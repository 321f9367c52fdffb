#include "agent/io/store/local_store_host.h"

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "agent/core/store/store_wire.h"
#include "common/base/clock.h"

namespace muster::agent {

namespace {

using boost::system::error_code;

constexpr std::uint32_t kNonce = 0x4d757374;
constexpr Duration kSilence = std::chrono::seconds(1);
constexpr std::size_t kMostRefused = 16;

// Returns the bytes of two commands. Every connection begins with VALIDATE. After VALIDATE comes PING. The
// store answers PING with the argument of PING.
std::array<char, 10> validate_and_ping() {
  std::array<char, 10> bytes{};
  bytes[0] = static_cast<char>(StoreCommand::kValidate);
  std::memcpy(&bytes[1], &kStoreMagic, sizeof kStoreMagic);
  bytes[5] = static_cast<char>(StoreCommand::kPing);
  std::memcpy(&bytes[6], &kNonce, sizeof kNonce);
  return bytes;
}

}  // namespace

// One question to a store. A store accepts the connection even if it then refuses this host. So only an
// answer of the store proves that this host is not refused, and the call waits for the answer. The handlers
// keep this object alive.
class LocalStoreHost::Call : public std::enable_shared_from_this<Call> {
 public:
  // If `served` is true, an agent serves the store. If it is false, rank 0 serves it, and nothing listens
  // yet. In that case a refused connection shows that the host of rank 0 can be reached.
  Call(asio::io_context& io, bool served, std::function<void(const Status&)> done)
      : socket_(io), served_(served), done_(std::move(done)) {}

  void start(const wire::StartWorkers& store) {
    error_code error;
    const auto address = asio::ip::make_address(store.master_address, error);
    if (error)
      return asio::post(socket_.get_executor(), [self = shared_from_this(), error] { self->end(error); });
    socket_.async_connect({address, static_cast<std::uint16_t>(store.master_port)},
                          [self = shared_from_this()](error_code failed) { self->connected(failed); });
  }
  void cancel() {
    done_ = nullptr;
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  void connected(error_code error) {
    if (!served_) return end(error == asio::error::connection_refused ? error_code() : error);
    if (error) return end(error);
    asio::async_write(socket_, asio::buffer(question_),
                      [self = shared_from_this()](error_code failed, std::size_t) {
                        if (failed) self->end(failed);
                      });
    asio::async_read(socket_, asio::buffer(&answer_, sizeof answer_),
                     [self = shared_from_this()](error_code failed, std::size_t) { self->end(failed); });
  }
  void end(error_code error) {
    const auto done = std::exchange(done_, nullptr);
    if (!done) return;
    if (error == asio::error::eof || error == asio::error::connection_reset)
      return done(failure(ErrorCode::kUnavailable, "it closes connections from this host"));
    // If an error comes only after a second, the host does not react at all. An earlier error is an answer of
    // the host or of a router.
    const bool silent = error && Clock::now() - began_ >= kSilence;
    if (error)
      return done(failure(silent ? ErrorCode::kTimedOut : ErrorCode::kUnavailable, "{}", error.message()));
    if (served_ && answer_ != kNonce) return done(failure(ErrorCode::kUnavailable, "it is not a c10d store"));
    done({});
  }

  asio::ip::tcp::socket socket_;
  const TimePoint began_ = Clock::now();
  bool served_;
  std::function<void(const Status&)> done_;
  std::array<char, 10> question_ = validate_and_ping();
  std::uint32_t answer_ = 0;
};

LocalStoreHost::LocalStoreHost(asio::io_context& io, std::function<void(const std::string&)> remark,
                               pid_t launcher)
    : io_(io), remark_(std::move(remark)), launcher_(launcher) {}

LocalStoreHost::~LocalStoreHost() {
  close(false);
}

Expected<std::int32_t> LocalStoreHost::open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) {
  close(false);
  if (!plan.host_store) return 0;
  boost::system::error_code error;
  const auto address = asio::ip::make_address(plan.store_address, error);
  if (error)
    return failure(ErrorCode::kInvalidArgument, "store address '{}': not an IP address", plan.store_address);
  const auto port = static_cast<std::uint16_t>(job.master_port);
  if (!job.store_on_agent) {
    auto reserved = bind_store_port(address, port);
    if (!reserved) return std::unexpected(reserved.error());
    worker_port_ = *std::move(reserved);
    return worker_port_.number;
  }
  StoreServerOptions options{.address = address, .port = port, .launcher = launcher_};
  for (const std::string& peer : plan.peers) {
    options.peers.push_back(asio::ip::make_address(peer, error));
    if (error) return failure(ErrorCode::kInvalidArgument, "peer '{}': not an IP address", peer);
  }
  options.on_refused = [this](const std::string& who) {
    if (remark_ && refused_.size() < kMostRefused && refused_.insert(who).second)
      remark_(fmt::format("the c10d store refuses a connection {}", who));
  };
  auto store = StoreServer::open(io_, options);
  if (!store) return std::unexpected(store.error());
  store_ = *std::move(store);
  return store_->port();
}

void LocalStoreHost::reach(const wire::JobSpec& job, const wire::StartWorkers& start,
                           std::function<void(const Status&)> done) {
  if (call_) call_->cancel();
  call_ = std::make_shared<Call>(io_, job.store_on_agent, std::move(done));
  call_->start(start);
}

void LocalStoreHost::close(bool keep) {
  if (call_) std::exchange(call_, nullptr)->cancel();
  worker_port_ = {};
  if (!keep) store_.reset();
}

}  // namespace muster::agent
