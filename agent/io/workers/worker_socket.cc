#include "agent/io/workers/worker_socket.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/process.h"

namespace muster::agent {

namespace {

constexpr std::string_view kSocketName = "agent.sock";
constexpr int kDatagramsAtOnce = 256;  // after that, other work has its turn
constexpr std::size_t kMostKnown = 4096;

// Renames the socket. It must get another name because /proc/net/unix shows everybody the name that a socket
// had at bind(). A rank can have changed its user, so all users who know the new path can use the socket.
// Returns the new path.
Expected<std::string> hide(const std::string& directory, const std::string& path) {
  std::uint64_t secret = 0;
  CHECK(getrandom(&secret, sizeof secret, 0) == sizeof secret, "getrandom: {}", std::strerror(errno));
  std::string hidden = fmt::format("{}/{:016x}-{}", directory, secret, kSocketName);
  if (rename(path.c_str(), hidden.c_str()) != 0 || chmod(hidden.c_str(), 0666) != 0)
    return system_failure("cannot open " + hidden, errno);
  return hidden;
}

struct Datagram {
  std::string_view text;  // empty if the datagram is too large
  std::string address;    // of the sender; an abstract name begins with a NUL
  ucred sender{};
};

// Receives the next datagram. Returns kUnavailable if none is waiting.
Expected<Datagram> receive_one(int socket, std::array<char, kMaxReportBytes>& buffer) {
  iovec part{buffer.data(), buffer.size()};
  sockaddr_un address{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return failure(ErrorCode::kUnavailable, "no datagram");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS || (message.msg_flags & MSG_TRUNC) != 0)
    return Datagram();
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  constexpr std::size_t kBeforePath = offsetof(sockaddr_un, sun_path);
  const std::size_t path_bytes = message.msg_namelen > kBeforePath ? message.msg_namelen - kBeforePath : 0;
  return Datagram{{buffer.data(), static_cast<std::size_t>(size)}, {address.sun_path, path_bytes}, sender};
}

}  // namespace

Expected<std::unique_ptr<WorkerSocket>> WorkerSocket::open(const asio::any_io_executor& executor,
                                                           const std::string& directory, OnReport on_report) {
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("{}/{}", directory, kSocketName);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool ready = fd && setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
                     bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!ready) return system_failure("cannot open " + path, errno);
  auto final_path = geteuid() == 0 ? hide(directory, path) : path;
  if (!final_path) return std::unexpected(final_path.error());
  return std::unique_ptr<WorkerSocket>(new WorkerSocket(
      *std::move(final_path), asio::posix::stream_descriptor(executor, fd.release()), std::move(on_report)));
}

WorkerSocket::~WorkerSocket() {
  unlink(path_.c_str());
}

awaitable<void> WorkerSocket::receive_all() {
  for (;;) {
    boost::system::error_code error;
    co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    receive_waiting();
  }
}

void WorkerSocket::receive_waiting() {
  std::array<char, kMaxReportBytes> buffer;
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    const auto datagram = receive_one(socket_.native_handle(), buffer);
    if (!datagram) break;
    if (datagram->text.empty() || !is_of_job(datagram->sender)) continue;
    if (const auto report = parse_report(datagram->text)) on_report_(*report, datagram->address);
  }
}

bool WorkerSocket::is_of_job(const ucred& sender) {
  if (sender.uid == geteuid()) return true;
  const std::pair process(sender.pid, sender.uid);
  if (is_below(sender.pid, {getpid()})) {
    if (known_.size() == kMostKnown) known_.clear();
    known_.insert(process);
    return true;
  }
  // The process may have been reaped after it sent the datagram, for example by `sudo`. Then nobody knows its
  // parent any more. In that case this function accepts the datagram only if an earlier one came from the
  // same process.
  return parent_of(sender.pid) == 0 && known_.contains(process);
}

bool WorkerSocket::send(const std::string& receiver, const std::string& datagram, std::span<const int> fds) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (receiver.empty() || receiver.size() > sizeof address.sun_path) return false;
  receiver.copy(address.sun_path, receiver.size());
  iovec part{const_cast<char*>(datagram.data()), datagram.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + receiver.size());
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<std::max_align_t> control(CMSG_SPACE(fds.size_bytes()) / sizeof(std::max_align_t) + 1);
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(datagram.size());
}

}  // namespace muster::agent
