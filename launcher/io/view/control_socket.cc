#include "launcher/io/view/control_socket.h"

#include <boost/asio/write.hpp>
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kRequestLimitBytes = 4096;
constexpr std::size_t kAnswerLimitBytes = std::size_t{64} << 20;  // the stacks of a thousand ranks
constexpr auto kCallerPatience = std::chrono::seconds(5);         // to read a request, and to write a piece

bool may_ask(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

}  // namespace

void Caller::send(std::string_view line) {
  if (!socket_.is_open() || finished_) return;
  if (pending_.size() + line.size() > kAnswerLimitBytes) return close();
  pending_ += line;
  if (!std::exchange(writing_, true)) tasks_.spawn(write());
}

void Caller::finish() {
  finished_ = true;
  if (!writing_) close();
}

// Closes the socket after the limit. This ends the wait that is going on then.
void Caller::limit_time() {
  timer_.expires_after(kCallerPatience);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (!cancelled) self->close();
  });
}

void Caller::close() {
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

awaitable<void> Caller::write() {
  const auto self = shared_from_this();
  while (!pending_.empty() && socket_.is_open()) {
    const std::string piece = std::exchange(pending_, {});
    limit_time();
    boost::system::error_code error;
    co_await asio::async_write(socket_, asio::buffer(piece),
                               asio::redirect_error(asio::use_awaitable, error));
    timer_.cancel();
    if (error) close();
  }
  writing_ = false;
  if (finished_) close();
}

Expected<ControlAddress> control_address(const std::string& directory) {
  UniqueFd fd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_failure("cannot open " + directory, errno);
  std::string path = fmt::format("/proc/self/fd/{}/control.sock", fd.get());
  return ControlAddress{std::move(fd), std::move(path)};
}

Expected<std::unique_ptr<ControlSocket>> ControlSocket::open(const asio::any_io_executor& executor,
                                                             net::TaskGroup& tasks,
                                                             const std::string& directory,
                                                             OnRequest on_request) {
  const auto address = control_address(directory);
  if (!address) return std::unexpected(address.error());
  boost::system::error_code error;
  Acceptor acceptor(executor);
  acceptor.open(asio::local::stream_protocol(), error);
  if (!error) acceptor.bind(asio::local::stream_protocol::endpoint(address->path), error);
  if (!error) acceptor.listen(kCallerLimit, error);
  if (error) return system_failure(fmt::format("cannot listen on {}/control.sock", directory), error.value());
  return std::unique_ptr<ControlSocket>(
      new ControlSocket(std::move(acceptor), tasks, directory + "/control.sock", std::move(on_request)));
}

ControlSocket::ControlSocket(Acceptor acceptor, net::TaskGroup& tasks, std::string path, OnRequest on_request)
    : acceptor_(std::move(acceptor)),
      tasks_(tasks),
      path_(std::move(path)),
      on_request_(std::move(on_request)) {
  tasks_.spawn(accept_all());
}

ControlSocket::~ControlSocket() {
  unlink(path_.c_str());
}

awaitable<void> ControlSocket::accept_all() {
  asio::steady_timer pause(acceptor_.get_executor());
  for (;;) {
    boost::system::error_code error;
    auto socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      // Most likely this process has no free descriptor, and another accept would fail at once.
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      continue;
    }
    if (caller_count_ >= kCallerLimit || !may_ask(socket.native_handle())) continue;
    ++caller_count_;
    tasks_.spawn(serve(std::shared_ptr<Caller>(new Caller(std::move(socket), tasks_))));
  }
}

awaitable<void> ControlSocket::serve(std::shared_ptr<Caller> caller) {
  const auto line = co_await read_line(caller);
  if (line) {
    on_request_(*line, caller);
    // Waits until the caller disconnects, or until finish() closes the socket. If the caller still sends
    // something, it is not read.
    boost::system::error_code error;
    co_await caller->socket_.async_wait(asio::local::stream_protocol::socket::wait_error,
                                        asio::redirect_error(asio::use_awaitable, error));
  }
  caller->close();
  --caller_count_;
}

awaitable<Expected<std::string>> ControlSocket::read_line(std::shared_ptr<Caller> caller) {
  std::string line;
  char buffer[1024];
  caller->limit_time();
  while (line.size() <= kRequestLimitBytes) {
    boost::system::error_code error;
    const std::size_t got = co_await caller->socket_.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return failure(ErrorCode::kUnavailable, "the caller has left ({})", error.message());
    line.append(buffer, got);
    const std::size_t end = line.find('\n');
    if (end == std::string::npos) continue;
    caller->timer_.cancel();
    line.resize(end);
    co_return line;
  }
  co_return failure(ErrorCode::kCorrupt, "the request has more than {} bytes", kRequestLimitBytes);
}

}  // namespace muster::launcher
