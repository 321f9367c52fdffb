// Waiting until a descriptor can be read, or for a pidfd, until its process has ended.
//
// Asio may complete a wait with an event that was meant for another descriptor, which was closed while the
// event was on its way: it uses the closed one's record again at once. So the kernel is asked once more.
#pragma once

#include "common/net/asio.h"

namespace muster::agent {

// False if the wait was cancelled, or the descriptor closed. It must live until then.
awaitable<bool> readable(asio::posix::stream_descriptor& descriptor);

}  // namespace muster::agent
