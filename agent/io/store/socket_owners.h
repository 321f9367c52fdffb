// Whose sockets are at the other end of connections over loopback: the kernel knows both ends
// (NETLINK_SOCK_DIAG).
//
// One question and its answer cost two system calls, and the kernel's look into one hash table; no privilege
// is needed, and each network namespace answers for itself. Where the kernel does not answer, can_tell() is
// false. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/file.h"

namespace muster::agent {

class SocketOwners {
 public:
  // `listener` is any socket that listens: whether the kernel answers is tried with it.
  explicit SocketOwners(int listener);
  bool can_tell() const { return can_tell_; }
  // Who made the other end of this accepted connection. Nothing if it has been closed already: of what nobody
  // holds any more, the kernel names no owner.
  std::optional<uid_t> of_other_end(int connection) const;

 private:
  struct Owner {
    uid_t user = 0;
    std::uint32_t inode = 0;
  };
  std::optional<Owner> ask(const sockaddr_storage& own, const sockaddr_storage& other) const;

  UniqueFd netlink_;
  bool can_tell_ = false;
};

}  // namespace muster::agent
