#include "agent/io/worker_socket.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr const char* kSocketName = "/agent.sock";
constexpr int kDatagramsAtOnce = 256;  // then others have their turn

Expected<std::string> make_run_directory() {
  const char* chosen = std::getenv("TMPDIR");
  std::string pattern =
      std::string(chosen != nullptr && *chosen != '\0' ? chosen : "/tmp") + "/muster-XXXXXX";
  // A socket's path has room for 107 bytes.
  if (pattern.size() + std::strlen(kSocketName) >= sizeof(sockaddr_un::sun_path))
    pattern = "/tmp/muster-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    return system_failure("cannot make the directory " + pattern, errno);
  return pattern;
}

// The next datagram of this user, empty if it was somebody else's or too large. kUnavailable: none is
// waiting.
Expected<std::string_view> receive_one(int socket, std::array<char, kMaxReportBytes>& buffer) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return failure(ErrorCode::kUnavailable, "no datagram");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS || (message.msg_flags & MSG_TRUNC) != 0)
    return std::string_view();
  ucred sender{};
  std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
  if (sender.uid != geteuid()) return std::string_view();
  return std::string_view(buffer.data(), static_cast<std::size_t>(size));
}

}  // namespace

Expected<std::unique_ptr<WorkerSocket>> WorkerSocket::open(const asio::any_io_executor& executor,
                                                           OnReport on_report) {
  auto directory = make_run_directory();
  if (!directory) return std::unexpected(directory.error());
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = *directory + kSocketName;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool ready = fd && setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
                     bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!ready) {
    const int error = errno;
    remove_run_directory(*directory);
    return system_failure("cannot open " + path, error);
  }
  return std::unique_ptr<WorkerSocket>(new WorkerSocket(
      std::move(*directory), asio::posix::stream_descriptor(executor, fd.release()), std::move(on_report)));
}

WorkerSocket::~WorkerSocket() {
  remove_run_directory(directory_);
}

std::string WorkerSocket::path() const {
  return directory_ + kSocketName;
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
    if (datagram->empty()) continue;
    if (const auto report = parse_report(*datagram)) on_report_(*report);
  }
}

void remove_run_directory(const std::string& directory) {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

}  // namespace muster::agent
