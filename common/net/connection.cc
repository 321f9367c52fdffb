#include "common/net/connection.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include "common/base/check.h"

namespace muster::net {

namespace {

// Most agents send little. If reads fill the buffer, it grows.
constexpr std::size_t kFirstCipherBytes = 4 << 10;
constexpr std::size_t kCipherBytes = 64 << 10;

}  // namespace

Socket adopt_socket(const asio::any_io_executor& executor, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0, "fd {} is not a socket", fd);
  Socket socket(executor);
  socket.assign(asio::generic::stream_protocol(address.ss_family, 0), fd);
  return socket;
}

std::shared_ptr<Connection> Connection::make(Socket socket, std::unique_ptr<TlsSession> tls) {
  return std::shared_ptr<Connection>(new Connection(std::move(socket), std::move(tls)));
}

Connection::Connection(Socket socket, std::unique_ptr<TlsSession> tls)
    : socket_(std::move(socket)), tls_(std::move(tls)), cipher_(tls_ == nullptr ? 0 : kFirstCipherBytes) {
  socket_.non_blocking(true);
}

awaitable<Status> Connection::handshake(Duration limit, std::function<bool()> may_prove) {
  if (tls_ == nullptr) co_return Status{};
  may_prove_ = std::move(may_prove);
  auto self = shared_from_this();  // keeps this object alive while the coroutine waits
  // The timer's handler may run after this coroutine has ended. So both share this object.
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

bool Connection::silent() const {
  boost::system::error_code ignored;
  return silent_ && socket_.available(ignored) == 0;
}

awaitable<Expected<wire::Frame>> Connection::receive() {
  auto self = shared_from_this();
  while (frames_.empty()) {
    if (!broken_) co_return std::unexpected(broken_.error());
    broken_ = co_await read_more();
  }
  wire::Frame frame = std::move(frames_.front());
  frames_.pop_front();
  co_return frame;
}

void Connection::start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  asio::co_spawn(socket_.get_executor(), read_all(shared_from_this()), [](const std::exception_ptr& thrown) {
    if (thrown) std::rethrow_exception(thrown);  // this is a bug, which ends the program
  });
}

// Passes frames to the handlers until the connection ends. The first frame is not passed within start(), so
// the caller of start() can first finish its own work with the connection.
awaitable<void> Connection::read_all(std::shared_ptr<Connection> self) {
  for (;;) {
    auto frame = co_await self->receive();
    if (self->closed()) co_return;
    if (!frame) {
      self->close();
      self->on_closed_(frame.error());
      co_return;
    }
    self->on_frame_(*std::move(frame));
  }
}

// Reads from the socket once, and splits the bytes into frames.
awaitable<Status> Connection::read_more() {
  boost::system::error_code error;
  const std::span<char> place = tls_ == nullptr ? reader_.room() : std::span(cipher_);
  const std::size_t got = co_await socket_.async_receive(asio::buffer(place.data(), place.size()),
                                                         asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return failure(ErrorCode::kUnavailable, "the connection is closed ({})", error.message());
  silent_ = false;
  std::vector<wire::Frame> frames;
  Status status;
  if (tls_ == nullptr) {
    status = reader_.filled(got, frames);
  } else {
    std::string plain;
    const Status decrypted = tls_->receive({cipher_.data(), got}, plain);
    if (got == cipher_.size() && got < kCipherBytes) cipher_ = std::vector<char>(2 * got);
    if (decrypted && may_prove_ && tls_->established() && !std::exchange(may_prove_, {})()) {
      break_off();  // the queued answer contains this side's proof, and must not be sent
      co_return failure(ErrorCode::kUnavailable, "another connection is used");
    }
    flush();                               // handshake answers and alerts
    status = reader_.feed(plain, frames);  // after an error, `plain` has the bytes before it
    if (status) status = decrypted;
  }
  for (wire::Frame& frame : frames) frames_.push_back(std::move(frame));
  co_return status;
}

void Connection::send(std::string_view frames, std::string_view more) {
  if (closed() || nobody_reads_) return;
  if (tls_ != nullptr) {
    if (!broken_) return;  // a session that has failed cannot encrypt
    if (!tls_->send(frames) || (!more.empty() && !tls_->send(more))) return break_off();
    return flush();
  }
  if (queue_.empty()) {  // writes without a copy
    const std::size_t put = write_what_fits(frames, more);
    const std::size_t of_first = std::min(put, frames.size());
    frames.remove_prefix(of_first);
    more.remove_prefix(put - of_first);
  }
  queue_.append(frames);
  queue_.append(more);
  write_later();
}

void Connection::flush() {
  if (closed()) return;
  if (tls_ != nullptr) {
    const std::string output = tls_->take_output();
    std::string_view rest = output;
    // A queue that has been used keeps a block of memory, and most connections never need one.
    if (!rest.empty() && queue_.empty()) rest.remove_prefix(write_what_fits(rest));
    queue_.append(rest);
  }
  while (!queue_.empty()) {
    const std::size_t put = write_what_fits(queue_.front());
    if (put == 0) break;
    queue_.consume(put);
  }
  write_later();
}

void Connection::write_later() {
  if (nobody_reads_) queue_.clear();
  if (queue_.empty() || std::exchange(waits_to_write_, true)) return;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->waits_to_write_ = false;
    if (!error) self->flush();
  });
}

// Writes as many bytes as the socket takes without blocking. The frame then need not wait for the event loop.
// Errors are not reported here, because the reader also notices that the connection is closed.
std::size_t Connection::write_what_fits(std::string_view first, std::string_view second) {
  iovec parts[] = {{const_cast<char*>(first.data()), first.size()},
                   {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t put = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put < 0 && errno != EAGAIN && errno != EINTR) nobody_reads_ = true;
  return put > 0 ? static_cast<std::size_t>(put) : 0;
}

const std::string& Connection::identity() const {
  CHECK(tls_ != nullptr, "only TLS proves an identity");
  return tls_->identity();
}

// Shuts the socket down. The reader then reports that the peer has closed the connection.
void Connection::break_off() {
  nobody_reads_ = true;
  queue_.clear();
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
}

void Connection::close() {
  flush();  // writes what still waits in the queue
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace muster::net
