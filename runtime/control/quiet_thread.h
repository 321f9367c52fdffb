// Threads of the runtime's own that the program does not notice.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace muster {

// One with this name (15 bytes at most) that takes no signal: the program's handlers run in its own threads.
// std::system_error if it cannot be started.
std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body);

}  // namespace muster
