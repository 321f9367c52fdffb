// These classes tell who owns the sockets of connections over loopback. SocketOwners asks the kernel
// (NETLINK_SOCK_DIAG) who owns the other end of a connection. JobSockets finds out which sockets belong to
// the job.
//
// A query takes two system calls and needs no privilege. Sockets of other network namespaces are not found.
// One thread.
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

  // Tries whether the kernel answers, and keeps the result for can_tell(). `listener` can be any listening
  // socket.
  explicit SocketOwners(int listener);
  bool can_tell() const { return can_tell_; }
  // Returns the user and the inode of the socket at the other end of this accepted connection. Returns
  // nothing if that end is already closed.
  std::optional<Owner> of_other_end(int connection) const;

 private:
  std::optional<Owner> ask(const sockaddr_storage& own, const sockaddr_storage& other) const;

  UniqueFd netlink_;
  bool can_tell_ = false;
};

// The sockets that the descendants of certain processes have open.
class JobSockets {
 public:
  // Finds the sockets of the descendants of `ancestors`. For that it looks at all processes of the machine,
  // which takes about 20 us for each.
  static JobSockets below(const std::set<pid_t>& ancestors);
  bool has(const SocketOwners::Owner& owner) const;

 private:
  std::set<std::uint32_t> inodes_;
  // Users of descendants whose descriptors this process is not allowed to see. All sockets of such a user
  // count as the job's. (In a container without CAP_SYS_PTRACE, not even root can see the descriptors of
  // other users' processes.)
  std::set<uid_t> hidden_users_;
};

}  // namespace muster::agent
