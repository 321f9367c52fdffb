// Starts threads for Muster, for example those of the log writer and of the runtime. These threads do not
// disturb the program in which they run.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace muster {

// Starts a thread with this name (at most 15 bytes). All signals are blocked in it, so that signal handlers
// run on the program's own threads. Throws std::system_error if the thread cannot be started. A thread that
// may hang must be detached, and must own what it uses.
std::jthread start_quiet_thread(const std::string& name, std::function<void(const std::stop_token&)> body);

}  // namespace muster
