// Waits until a descriptor can be read or, for a pidfd, until its process has ended.
//
// Asio reuses the record of a closed descriptor at once. Thus it can complete a wait with an event of a
// descriptor that was closed while the event was on its way. So readable() asks the kernel again.
#pragma once

#include "common/net/asio.h"

namespace muster::agent {

// Returns false if the wait was cancelled or the descriptor was closed. The descriptor must live until the
// wait has ended.
awaitable<bool> readable(asio::posix::stream_descriptor& descriptor);

}  // namespace muster::agent
