#include "launcher/core/fleet/hello.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

// Returns the parts of the version that are numbers: 0, 1, 0 and 12 for "0.1.0+12.g0123abcde". Stops at the
// first part that is not a number.
std::vector<std::uint32_t> numbers_of(std::string version) {
  std::vector<std::uint32_t> numbers;
  std::ranges::replace(version, '+', '.');
  for (const std::string_view part : split(version, '.')) {
    const auto number = parse_number<std::uint32_t>(part);
    if (!number) break;
    numbers.push_back(*number);
  }
  return numbers;
}

std::string_view relation(std::string_view theirs, std::string_view ours) {
  const auto order = numbers_of(std::string(theirs)) <=> numbers_of(std::string(ours));
  return order < 0 ? "older than" : order > 0 ? "newer than" : "not the same as";
}

}  // namespace

Status check_hello(const wire::Hello& hello, const ExpectedAgent& expected) {
  if (hello.node != expected.agent.node)
    return failure(ErrorCode::kCorrupt, "the agent of node{} says that it is node{}'s", expected.agent.node,
                   hello.node);
  if (hello.version != expected.version)
    return failure(ErrorCode::kInvalidArgument,
                   "the agent is {} this launcher (Muster {}, not {}): install the same Muster on all nodes",
                   relation(hello.version, expected.version), hello.version, expected.version);
  if (hello.incarnation != expected.agent.incarnation)
    return failure(ErrorCode::kFenced, "the agent of node{} is incarnation {}, and {} has taken its place",
                   hello.node, hello.incarnation, expected.agent.incarnation);
  return {};
}

}  // namespace muster::launcher
