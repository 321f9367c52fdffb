// Signals that this process hears of in its io_context, and not in a handler.
//
// Workers get none of this: they begin with no signal blocked. One thread.
#pragma once

#include <functional>
#include <vector>

#include "common/net/asio.h"

namespace muster::agent {

// From now on the signals wait for hear_signals(). While this process has one thread.
void block_signals(const std::vector<int>& signals);
// Tells of each one, until the task is cancelled. Several of one kind may be told as one.
awaitable<void> hear_signals(std::vector<int> signals, std::function<void(int signal)> heard);

}  // namespace muster::agent
