// The named sections that this process is in. A listener is called when a section begins or ends.
//
// There is one list of sections per process, because muster::section() also works without a Job; but only a
// Job reports sections. The innermost section is the newest open one. Any thread may call the functions. The
// listener is called while the lock is held, so it learns of all changes in their order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace muster {

struct SectionChange {
  std::string name;
  bool entered = false;
};

// There is at most one listener; a new one replaces it. A null function removes it.
using SectionListener = std::function<bool(const SectionChange&)>;  // false: the report was not sent
void listen_to_sections(const void* owner, SectionListener listener);
void stop_listening_to_sections(const void* owner);

std::uint64_t enter_section(std::string_view name);
void leave_section(std::uint64_t id);

// Calls `use` with the innermost section, and with the time for which the process has been in it. Without a
// section, the name is "". The lock is held during the call.
void with_innermost_section(
    const std::function<void(const std::string& name, std::chrono::milliseconds)>& use);

}  // namespace muster
