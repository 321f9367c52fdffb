#include "agent/io/stdio_socket.h"

#include <array>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"

namespace muster::agent {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;

int moved(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  CHECK(copy >= 0, "cannot copy descriptor {}: {}", fd, std::strerror(errno));
  return copy;
}

// Returns whether both descriptors are the same stream socket. This is so if the launcher gave the host shell
// (for example ssh) a socket, and no program in between uses pipes.
bool are_one_socket(int one, int other) {
  struct stat first{};
  struct stat second{};
  int type = 0;
  socklen_t size = sizeof type;
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && S_ISSOCK(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino &&
         getsockopt(one, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace

std::shared_ptr<StdioSocket> StdioSocket::open(const asio::any_io_executor& executor) {
  return std::shared_ptr<StdioSocket>(new StdioSocket(executor));
}

StdioSocket::StdioSocket(const asio::any_io_executor& executor)
    : in_(executor), out_(executor), users_(executor), own_(executor), timer_(executor) {
  if (are_one_socket(STDIN_FILENO, STDOUT_FILENO)) {
    users_ = net::adopt_socket(executor, moved(STDIN_FILENO));
  } else {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair: {}",
          std::strerror(errno));
    users_ = net::adopt_socket(executor, ends[0]);
    own_ = net::adopt_socket(executor, ends[1]);
    in_.assign(moved(STDIN_FILENO));
    out_.assign(moved(STDOUT_FILENO));
  }
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  dup2(nothing.get(), STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

net::Socket StdioSocket::take() {
  if (!own_.is_open()) return std::move(users_);
  const auto executor = own_.get_executor();
  asio::co_spawn(executor, copy_in(shared_from_this()), asio::detached);
  asio::co_spawn(executor, copy_out(shared_from_this()), asio::detached);
  return std::move(users_);
}

void StdioSocket::finish(Duration limit) {
  if (!out_.is_open()) return;
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (!cancelled) self->close();
  });
}

void StdioSocket::close() {
  boost::system::error_code ignored;
  timer_.cancel();
  in_.close(ignored);
  out_.close(ignored);
  own_.close(ignored);
}

awaitable<void> StdioSocket::copy_in(std::shared_ptr<StdioSocket> self) {
  const auto piece =
      std::make_unique_for_overwrite<char[]>(kPieceBytes);  // pages that are never written take no memory
  boost::system::error_code error;
  while (!error) {
    const std::size_t got = co_await self->in_.async_read_some(
        asio::buffer(piece.get(), kPieceBytes), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(self->own_, asio::buffer(piece.get(), got),
                               asio::redirect_error(asio::use_awaitable, error));
  }
  self->own_.shutdown(net::Socket::shutdown_send, error);
}

awaitable<void> StdioSocket::copy_out(std::shared_ptr<StdioSocket> self) {
  const auto piece = std::make_unique_for_overwrite<char[]>(kPieceBytes);
  boost::system::error_code error;
  while (!error) {
    const std::size_t got = co_await self->own_.async_receive(
        asio::buffer(piece.get(), kPieceBytes), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    co_await asio::async_write(self->out_, asio::buffer(piece.get(), got),
                               asio::redirect_error(asio::use_awaitable, error));
  }
  self->close();
}

}  // namespace muster::agent
