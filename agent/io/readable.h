// Waits until a descriptor can be read or, for a pidfd, until its process has ended.
//
// Asio reuses the record of a closed descriptor at once. So a wait can be completed by an old event of
// another descriptor that has been closed. Therefore readable() asks the kernel again.
#pragma once

#include "common/net/asio.h"

namespace muster::agent {

// Returns false if the wait was canceled or the descriptor was closed. The descriptor must live until the
// wait has ended.
awaitable<bool> readable(asio::posix::stream_descriptor& descriptor);

}  // namespace muster::agent
