#include "agent/io/store/socket_owners.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string>

#include "common/base/process.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::uint32_t kEverySocketState = ~0U;

struct OwnerQuestion {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// Copies the address and the port, which stay in network byte order.
void put_address(const sockaddr_storage& address, __be32 (&bytes)[4], __be16& port) {
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    std::memcpy(bytes, &six.sin6_addr, sizeof six.sin6_addr);
    port = six.sin6_port;
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    bytes[0] = four.sin_addr.s_addr;
    port = four.sin_port;
  }
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);
sockaddr_storage address_by(NameOf name_of, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (name_of(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) address.ss_family = AF_UNSPEC;
  return address;
}

// Adds the inodes of the sockets that the process `pid` has open. Returns false if this process is not
// allowed to see all files of `pid`.
bool add_sockets_of(pid_t pid, std::set<std::uint32_t>& inodes) {
  bool sees = true;
  std::error_code error;
  for (std::filesystem::directory_iterator fd(fmt::format("/proc/{}/fd", pid), error), end;
       !error && fd != end; fd.increment(error)) {
    std::error_code hidden;
    const std::string file = std::filesystem::read_symlink(fd->path(), hidden).native();
    unsigned inode = 0;
    if (std::sscanf(file.c_str(), "socket:[%u]", &inode) == 1) inodes.insert(inode);
    sees = sees && hidden != std::errc::permission_denied;
  }
  return sees && error != std::errc::permission_denied;
}

}  // namespace

SocketOwners::SocketOwners(int listener)
    : netlink_(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {
  const sockaddr_storage own = address_by(getsockname, listener);
  sockaddr_storage nobody{};
  nobody.ss_family = own.ss_family;
  can_tell_ = netlink_ && ask(own, nobody).has_value();
}

std::optional<SocketOwners::Owner> SocketOwners::of_other_end(int connection) const {
  const auto owner = ask(address_by(getpeername, connection), address_by(getsockname, connection));
  return owner && owner->inode != 0 ? owner : std::nullopt;
}

std::optional<SocketOwners::Owner> SocketOwners::ask(const sockaddr_storage& own,
                                                     const sockaddr_storage& other) const {
  OwnerQuestion question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<std::uint8_t>(own.ss_family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = kEverySocketState;
  question.request.id.idiag_cookie[0] = question.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  put_address(own, question.request.id.idiag_src, question.request.id.idiag_sport);
  put_address(other, question.request.id.idiag_dst, question.request.id.idiag_dport);
  if (send(netlink_.get(), &question, sizeof question, 0) != sizeof question) return std::nullopt;
  // The kernel answers before send() returns. So the answer is already there.
  alignas(nlmsghdr) std::array<char, 1024> answer{};
  const ssize_t got = recv(netlink_.get(), answer.data(), answer.size(), 0);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof found)) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // an error: no such socket
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof found);
  return Owner{found.idiag_uid, found.idiag_inode};
}

JobSockets JobSockets::below(const std::set<pid_t>& ancestors) {
  JobSockets sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc", error), end; !error && each != end;
       each.increment(error)) {
    const auto pid = parse_number<pid_t>(each->path().filename().native());
    if (!pid || !is_below(*pid, ancestors) || add_sockets_of(*pid, sockets.inodes_)) continue;
    if (const auto user = user_of(*pid)) sockets.hidden_users_.insert(*user);
  }
  return sockets;
}

bool JobSockets::has(const SocketOwners::Owner& owner) const {
  return inodes_.contains(owner.inode) || hidden_users_.contains(owner.user);
}

}  // namespace muster::agent
