// Named parts of a training: they tell the agent what a rank is doing, and how long that usually takes.
//
//   {
//     const auto in = muster::section("eval");
//     evaluate(model);
//   }
//
// Put a section around long work between two steps. The agent learns a time limit from earlier sections of
// the same name (at first --hang-limit); a section that exceeds it is a hang, and the report has its name.
// The time of a section does not count in the step around it, and has its own line in the step profile.
// Sections nest; enter and leave them on the training thread. A section costs a few microseconds; without an
// agent less.
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
