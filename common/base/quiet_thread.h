// Threads of Muster's own that the program does not notice: the log writer's, the agent's watches, the
// runtime's.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace muster {

// One with this name (15 bytes at most) that takes no signal: the program's handlers run in its own threads.
// std::system_error if it cannot be started. One that may hang is detached and owns what it uses.
std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body);

}  // namespace muster
