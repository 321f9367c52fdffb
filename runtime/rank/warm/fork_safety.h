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
// Returns whether the process can be forked. Before this function looks, it ends the threads of the OpenMP
// pool. Such threads outlive the parallel region in which they worked, and a later region starts new threads.
// `own_fd` is the template's socket.
ForkSafety check_fork_safety(int own_fd);

// Processes that inherit a descriptor from the same fork share its offset. This function gives a descriptor
// that was open before the fork an offset of its own, which starts at the same place. So reads of other
// processes do not move it any more. If the file cannot be opened again, returns false and sets errno.
bool reopen(int fd);

}  // namespace muster::warm
