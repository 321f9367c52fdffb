// Many connections to one launcher over loopback.
#pragma once

#include <cstddef>

namespace muster::bench {

// Bytes in use on the heap, including mapped blocks.
std::size_t allocated_bytes();

struct Joining {
  double seconds = 0;        // from the first call until all have joined
  double bytes_each = 0;     // of the launcher's memory for a connection, without the kernel's
  double plain_seconds = 0;  // until one thread has accepted as many plain TCP connections
};

// A child process calls `count` times, some hundred calls at once. Each call has a key of its own. The
// connections prove their keys over TLS, through the launcher's listener, in this process.
Joining join_over_tls(int count);

}  // namespace muster::bench
