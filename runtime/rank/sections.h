// The named sections that this process is in, and the listener for their begins and ends.
//
// Process-wide: muster::section() works without a Job, but only a Job reports sections. The innermost section
// is the newest open one. Safe from any thread. The listener is called under the lock, in order.
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

// There is one listener; a new one replaces it. Null: no listener.
using SectionListener = std::function<bool(const SectionChange&)>;  // false: the report was not sent
void listen_to_sections(const void* owner, SectionListener listener);
void stop_listening_to_sections(const void* owner);

std::uint64_t enter_section(std::string_view name);
void leave_section(std::uint64_t id);

// Calls `use`, under the lock, with the innermost section ("" for none) and the time in it so far.
void with_innermost_section(
    const std::function<void(const std::string& name, std::chrono::milliseconds)>& use);

}  // namespace muster
