#include "agent/core/health/xid.h"

#include <algorithm>
#include <fmt/format.h>

namespace muster::agent {

namespace {

struct Known {
  std::uint64_t number;
  XidClass fault_class;
  const char* text;
};

constexpr Known kKnown[] = {
    {8, XidClass::kProgram, "GPU stopped processing"},
    {13, XidClass::kProgram, "graphics engine exception, for example an index out of range"},
    {31, XidClass::kProgram, "GPU memory page fault, for example an access outside the program's memory"},
    {32, XidClass::kHardware, "invalid or corrupted push buffer stream"},
    {38, XidClass::kHardware, "driver firmware error"},
    {43, XidClass::kProgram, "GPU stopped processing after an error of the program"},
    {45, XidClass::kProgram, "channels are cleaned up after an earlier error or the end of the program"},
    {48, XidClass::kHardware, "double bit ECC error"},
    {61, XidClass::kHardware, "internal microcontroller breakpoint"},
    {62, XidClass::kLost, "internal microcontroller halt"},
    {63, XidClass::kHardware, "ECC page retirement or row remapping"},
    {64, XidClass::kHardware, "ECC page retirement or row remapping failed"},
    {68, XidClass::kProgram, "video processor exception"},
    {69, XidClass::kProgram, "graphics engine class error"},
    {74, XidClass::kHardware, "NVLink error"},
    {79, XidClass::kLost, "GPU has fallen off the bus"},
    {92, XidClass::kHardware, "high rate of single bit ECC errors"},
    {94, XidClass::kHardware, "contained ECC error"},
    {95, XidClass::kHardware, "uncontained ECC error"},
    {109, XidClass::kProgram, "context switch timeout"},
    {110, XidClass::kHardware, "security fault"},
    {119, XidClass::kLost, "GPU system processor does not answer"},
    {120, XidClass::kLost, "GPU system processor error"},
    {121, XidClass::kHardware, "corrected error on the link between chips"},
    {137, XidClass::kHardware, "NVLink fault, for example at an access to a peer's memory"},
    {140, XidClass::kHardware, "unrecovered ECC error"},
    {143, XidClass::kHardware, "GPU initialization failure"},
    {145, XidClass::kHardware, "NVLink error"},
    {149, XidClass::kHardware, "NVLink error"},
    {154, XidClass::kHardware, "GPU needs a recovery action"},
};

}  // namespace

Xid describe_xid(std::uint64_t number) {
  const auto* found = std::ranges::find(kKnown, number, &Known::number);
  if (found == std::end(kKnown)) return {XidClass::kHardware, fmt::format("XID {}", number)};
  return {found->fault_class, fmt::format("XID {}: {}", number, found->text)};
}

}  // namespace muster::agent
