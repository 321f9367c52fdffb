// Threads of Muster that the user's program does not notice: the log writer's, the agent's watches, the
// runtime's.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace muster {

// Starts a thread with this name (at most 15 bytes) and all signals blocked, so that the program's handlers
// run in its own threads. Throws std::system_error if the thread cannot be started. Detach a thread that may
// hang; it must own what it uses.
std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body);

}  // namespace muster
