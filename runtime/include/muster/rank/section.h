// Named parts of a training, which tell the agent what a rank is doing.
//
//   {
//     const auto in = muster::section("eval");
//     evaluate(model);
//   }
//
// Put a section around long work between two steps. The agent learns a time limit from earlier sections of
// the same name; at first the limit is --hang-limit. A section that exceeds its limit is a hang, and the
// report names the section. The time of a section does not count in the step around it, and has its own line
// in the step profile. A section can be inside another one. Only the training thread may enter and leave
// sections. A section costs a few microseconds, and less without an agent.
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
