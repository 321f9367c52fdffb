// Whether this process may be forked by a raw clone, and if not, why.
//
// A fork copies one thread and shares what is not memory of its own: so there may be no other thread, no
// socket, pipe or device, no shared mapping. Regular files are all right: each worker opens them anew. Call
// on the main thread. Without torch.
#pragma once

#include <string>
#include <vector>

namespace muster::warm {

struct ForkSafety {
  std::string unsafe;      // one clause: why not; empty: it may be forked
  std::vector<int> files;  // descriptors of regular files, that each fork must reopen()
};
// Ends the OpenMP pool first: its threads outlive their parallel region, and a later region starts new ones.
// `own_fd` is the template's socket.
ForkSafety check_fork_safety(int own_fd);

// An open file description of its own for a descriptor that was open before the fork, at the same offset:
// what the others read does not move it. False, with errno, if it cannot be opened again.
bool reopen(int fd);

}  // namespace muster::warm
