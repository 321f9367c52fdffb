// Finds the user and the socket at the other end of a connection over loopback: the kernel knows both ends
// (NETLINK_SOCK_DIAG). JobSockets knows which sockets are the job's.
//
// A query costs two system calls and a look-up in one of the kernel's hash tables. It needs no privilege, and
// each network namespace answers for itself. can_tell() is false if the kernel does not answer. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/file.h"

namespace muster::agent {

class SocketOwners {
 public:
  struct Owner {
    uid_t user = 0;
    std::uint32_t inode = 0;  // of the socket
  };

  // `listener` is any listening socket, used to try whether the kernel answers.
  explicit SocketOwners(int listener);
  bool can_tell() const { return can_tell_; }
  // The owner of the other end of this accepted connection. Nothing if that end is already closed, because
  // the kernel then names no owner.
  std::optional<Owner> of_other_end(int connection) const;

 private:
  std::optional<Owner> ask(const sockaddr_storage& own, const sockaddr_storage& other) const;

  UniqueFd netlink_;
  bool can_tell_ = false;
};

// The sockets that descendants of some processes have open.
class JobSockets {
 public:
  // Looks through all processes of the machine, which takes some 20 us for each.
  static JobSockets below(const std::set<pid_t>& ancestors);
  bool has(const SocketOwners::Owner& owner) const;

 private:
  std::set<std::uint32_t> inodes_;
  // Users of descendants whose descriptors this process may not see: in a container without CAP_SYS_PTRACE,
  // root may not see those of other users.
  std::set<uid_t> hidden_users_;
};

}  // namespace muster::agent
