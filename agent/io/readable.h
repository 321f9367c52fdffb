// Waits until a descriptor can be read. If the descriptor is a pidfd, this waits until its process has ended.
//
// Asio reuses its record of a closed descriptor at once. So an old event of the closed descriptor can end a
// wait for another descriptor. Therefore readable() asks the kernel once more.
#pragma once

#include "common/net/asio.h"

namespace muster::agent {

// Returns true if the descriptor is readable. Returns false if the wait was canceled, or if the descriptor
// was closed. The descriptor must live until the wait has ended.
awaitable<bool> readable(asio::posix::stream_descriptor& descriptor);

}  // namespace muster::agent
