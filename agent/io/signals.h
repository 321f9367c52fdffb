// Receives signals through the io_context instead of a signal handler.
//
// Workers are not affected: they start with no signal blocked. One thread.
#pragma once

#include <functional>
#include <vector>

#include "common/net/asio.h"

namespace muster::agent {

// Blocks the signals: from now on they wait for hear_signals(). Call while this process has one thread.
void block_signals(const std::vector<int>& signals);
// Unblocks the signals: from now on they end this process again.
void unblock_signals(const std::vector<int>& signals);
// Calls `heard` for each signal, until the task is canceled. Several signals of one kind can cause only one
// call.
awaitable<void> hear_signals(std::vector<int> signals, std::function<void(int signal)> heard);

}  // namespace muster::agent
