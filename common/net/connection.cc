#include "common/net/connection.h"

#include <boost/asio/write.hpp>
#include <cerrno>
#include <sys/socket.h>

#include "common/base/check.h"

namespace muster::net {

Socket adopt_socket(const asio::any_io_executor& executor, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0, "fd {} is no socket", fd);
  Socket socket(executor);
  socket.assign(asio::generic::stream_protocol(address.ss_family, 0), fd);
  return socket;
}

std::shared_ptr<Connection> Connection::make(Socket socket, std::unique_ptr<TlsSession> tls) {
  return std::shared_ptr<Connection>(new Connection(std::move(socket), std::move(tls)));
}

Connection::Connection(Socket socket, std::unique_ptr<TlsSession> tls)
    : socket_(std::move(socket)), tls_(std::move(tls)), buffer_(128 * 1024) {
  socket_.non_blocking(true);
}

awaitable<Status> Connection::handshake(Duration limit) {
  if (tls_ == nullptr) co_return Status{};
  auto self = shared_from_this();  // the caller may drop us while we wait
  // Shared, because a timer that has expired may be heard of only after this coroutine is gone.
  struct Progress {
    bool expired = false;
    bool done = false;
  };
  const auto progress = std::make_shared<Progress>();
  asio::steady_timer timer(socket_.get_executor(), limit);
  timer.async_wait([self, progress](const boost::system::error_code& error) {
    if (error || progress->done) return;
    progress->expired = true;
    self->close();
  });
  flush();
  while (!tls_->established()) {
    Status status = co_await read_more();
    if (progress->expired) co_return failure(ErrorCode::kTimedOut, "no TLS handshake in time");
    if (!status) {
      progress->done = true;
      co_return status;
    }
  }
  progress->done = true;
  co_return Status{};
}

awaitable<Expected<wire::Frame>> Connection::receive() {
  auto self = shared_from_this();
  while (frames_.empty()) {
    Status status = co_await read_more();
    if (!status) co_return std::unexpected(status.error());
  }
  wire::Frame frame = std::move(frames_.front());
  frames_.pop_front();
  co_return frame;
}

// Reads once and takes apart what came.
awaitable<Status> Connection::read_more() {
  boost::system::error_code error;
  const std::size_t got =
      co_await socket_.async_receive(asio::buffer(buffer_), asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return failure(ErrorCode::kUnavailable, "the connection is closed ({})", error.message());
  std::string_view bytes(buffer_.data(), got);
  std::string plain;
  if (tls_ != nullptr) {
    Status status = tls_->receive(bytes, plain);
    flush();  // handshake answers and alerts
    if (!status) co_return status;
    bytes = plain;
  }
  std::vector<wire::Frame> frames;
  Status status = reader_.feed(bytes, frames);
  for (wire::Frame& frame : frames) frames_.push_back(std::move(frame));
  co_return status;
}

void Connection::send(std::string_view frames) {
  if (closed()) return;
  if (tls_ == nullptr) {
    pending_.append(frames);
  } else if (!tls_->send(frames)) {
    close();
    return;
  }
  flush();
}

void Connection::flush() {
  if (tls_ != nullptr) pending_ += tls_->take_output();
  if (!in_flight_.empty() || pending_.empty() || closed()) return;
  write_what_fits();
  if (pending_.empty()) return;
  in_flight_.swap(pending_);
  asio::async_write(socket_, asio::buffer(in_flight_),
                    [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                      self->in_flight_.clear();
                      if (!error) self->flush();
                      // A failed write is not reported here: the reader sees the closed connection as well.
                    });
}

// Without waiting, and at once: a frame should not wait for the event loop's next turn.
void Connection::write_what_fits() {
  const ssize_t put =
      ::send(socket_.native_handle(), pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put > 0) pending_.erase(0, static_cast<std::size_t>(put));
}

const std::string& Connection::identity() const {
  CHECK(tls_ != nullptr, "only TLS proves an identity");
  return tls_->identity();
}

void Connection::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace muster::net
