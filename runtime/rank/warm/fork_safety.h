// Checks whether this process can safely be forked by a raw clone, and if not, why.
//
// A fork copies only one thread and shares everything but private memory. So the process must not have other
// threads, sockets, pipes, devices or shared mappings. Regular files are allowed: each worker reopens them.
// Call these functions on the main thread. They do not use torch.
#pragma once

#include <string>
#include <vector>

namespace muster::warm {

struct ForkSafety {
  std::string unsafe;      // why not, as one clause; empty: it is safe
  std::vector<int> files;  // descriptors of regular files, which each fork must reopen()
};
// Ends the OpenMP pool first: its threads outlive their parallel region, and a later region starts new ones.
// `own_fd` is the template's socket.
ForkSafety check_fork_safety(int own_fd);

// Gives a descriptor that was open before the fork an open file description of its own, at the same offset,
// so reads of other processes do not move this one's offset. Returns false, with errno, if the file cannot be
// opened again.
bool reopen(int fd);

}  // namespace muster::warm
