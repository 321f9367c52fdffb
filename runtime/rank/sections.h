// The named sections that this process is in, and who is told when one begins or ends.
//
// Process-wide: muster::section() needs no Job, and sections before the first or after the last are nothing.
// The innermost is the newest one that is open. Safe from any thread; a listener is called under the lock, so
// that it hears things in their order.
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

// One at a time; the newest counts. Null: nobody any more.
using SectionListener = std::function<bool(const SectionChange&)>;  // false: could not be told
void listen_to_sections(const void* owner, SectionListener listener);
void stop_listening_to_sections(const void* owner);

std::uint64_t enter_section(std::string_view name);
void leave_section(std::uint64_t id);

// The innermost, "" for none, and the time in it so far; `use` is called under the lock.
void with_innermost_section(
    const std::function<void(const std::string& name, std::chrono::milliseconds)>& use);

}  // namespace muster
