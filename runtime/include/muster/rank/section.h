// Named parts of a training, so that the agent knows what a rank is at, and how long that usually takes.
//
//   {
//     const auto in = muster::section("eval");
//     evaluate(model);
//   }
//
// Put one around what takes long between two steps. A section that does not end within the limit that was
// learned from the earlier ones of its name (at first --hang-limit) is a hang, and its name is in the report.
// Its time does not count as time of the step around it, and has a line of its own in the step profile.
// Sections nest; enter and leave them on the training thread. Costs a few microseconds; without an agent
// less.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

class Section {
 public:
  explicit Section(std::string_view name);
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section();

 private:
  std::uint64_t id_;
};

[[nodiscard]] inline Section section(std::string_view name) {
  return Section(name);
}

}  // namespace muster
