// Finds the user at the other end of a connection over loopback: the kernel knows both ends
// (NETLINK_SOCK_DIAG).
//
// A query costs two system calls and a look-up in one of the kernel's hash tables. It needs no privilege, and
// each network namespace answers for itself. can_tell() is false if the kernel does not answer. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/file.h"

namespace muster::agent {

class SocketOwners {
 public:
  // `listener` is any listening socket, used to try whether the kernel answers.
  explicit SocketOwners(int listener);
  bool can_tell() const { return can_tell_; }
  // The user who made the other end of this accepted connection. Nothing if that end is already closed,
  // because the kernel then names no owner.
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
