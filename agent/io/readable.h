// Waits until a descriptor can be read or, for a pidfd, until its process has ended.
//
// Asio may complete a wait with an event of another descriptor that was closed while the event was on its
// way, because it reuses the closed descriptor's record at once. So readable() asks the kernel once more.
#pragma once

#include "common/net/asio.h"

namespace muster::agent {

// Returns false if the wait was cancelled or the descriptor was closed. The descriptor must live until the
// wait has ended.
awaitable<bool> readable(asio::posix::stream_descriptor& descriptor);

}  // namespace muster::agent
