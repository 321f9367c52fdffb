// Receives signals through the io_context instead of a signal handler.
//
// Workers are not affected: they start with no signal blocked. One thread.
#pragma once

#include <functional>
#include <vector>

#include "common/net/asio.h"

namespace muster::agent {

// Blocks the signals. From now on they wait for hear_signals(). Call this while this process has only one
// thread.
void block_signals(const std::vector<int>& signals);
// Unblocks the signals. From now on they end this process again.
void unblock_signals(const std::vector<int>& signals);
// Calls `heard` for each signal, until the task is canceled. If several signals of one kind come at about the
// same time, there may be only one call for them.
awaitable<void> hear_signals(std::vector<int> signals, std::function<void(int signal)> heard);

}  // namespace muster::agent
