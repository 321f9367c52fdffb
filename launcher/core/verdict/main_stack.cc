#include "launcher/core/verdict/main_stack.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <optional>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kCollective = "newest collective in group '";

// Reads the rest of a line that describes a collective, such as `world': #41 all_reduce of Float [4],
// finished up to #40`. The name of the group can contain any characters.
void read_collective(std::string_view line, std::map<std::string, MainStack::Collective>& into) {
  constexpr std::string_view kNumber = "': #";
  const std::string_view described = line.substr(0, line.rfind(", finished up to #"));
  const std::size_t name_end = described.rfind(kNumber);
  if (described.size() == line.size() || name_end == std::string_view::npos) return;
  const std::string_view numbered = described.substr(name_end + kNumber.size());
  const std::size_t space = numbered.find(' ');
  const auto number = parse_number<std::int64_t>(numbered.substr(0, space));
  if (!number || space == std::string_view::npos) return;
  into[std::string(line.substr(0, name_end))] = {*number, std::string(numbered.substr(space + 1))};
}

std::string_view trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? ""
                                         : line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

constexpr std::string_view kActivity =
    "at ";  // the first line of the runtime's dump, if the activity is known

// Whether the line begins the stack of a thread. Such lines are "thread 7 (train), state S, in futex_do_wait"
// and "thread 7 (sleep): sleeps, ...".
bool is_heading(std::string_view line) {
  return line.starts_with("thread ");
}

// Whether the line begins the stack of a thread in a dump of Python, as "Thread 0x7f12 (most recent call
// first):" and "Current thread ..." do. The main thread comes last.
bool is_python_heading(std::string_view line) {
  return line.ends_with(':') && (line.starts_with("Thread 0x") || line.starts_with("Current thread 0x"));
}

// `Thread 17 (idle): "MainThread"`
bool is_spys_heading(std::string_view line) {
  return line.starts_with("Thread ") && line.ends_with('"');
}

// Whether the line is a heading such as "TID 17:". eu-stack prints one before the stack of each thread, and
// the main thread comes first.
bool is_eu_stacks_heading(std::string_view line) {
  return line.starts_with("TID ") && line.ends_with(':');
}

// Turns "#2  0x00007f9eef6a PMPI_Barrier - /usr/lib/libmpi.so.40" into "PMPI_Barrier  (libmpi.so.40)". Names
// may be missing. Other lines stay as they are.
std::string frame_of(std::string_view line) {
  const std::size_t address = line.find("0x");
  if (!line.starts_with('#') || address == std::string_view::npos) return std::string(line);
  line.remove_prefix(std::min(line.find(' ', address), line.size()));
  const std::size_t dash = std::min(line.rfind(" - "), line.size());
  const std::string_view name = trimmed(line.substr(0, dash));
  std::string_view file = trimmed(line.substr(std::min(dash + 3, line.size())));
  file.remove_prefix(file.rfind('/') + 1);
  return fmt::format("{}{}", name.empty() ? "?" : name, file.empty() ? "" : fmt::format("  ({})", file));
}

std::string state_in(std::string_view heading) {
  const std::size_t end = heading.find(')');
  if (end == std::string_view::npos) return std::string(heading);
  return std::string(heading.substr(std::min(heading.find_first_not_of("):, ", end), heading.size())));
}

bool is_of_kernel(std::string_view frame) {
  return frame.starts_with("[<");
}

// Whether the frame is one of the system's libraries. The frame is a text such as "poll  (libc.so.6+0x1b2)",
// or "libc.so.6+0x1b2" if it has no name.
bool is_of_system(std::string_view frame) {
  const std::size_t bracket = frame.rfind("  (");
  const std::string_view place = bracket == std::string_view::npos ? frame : frame.substr(bracket + 3);
  return std::ranges::any_of(
      std::vector<std::string_view>{"libc.so", "libc-", "libpthread", "libstdc++.so", "ld-linux"},
      [&](std::string_view library) { return place.starts_with(library); });
}

// Whether the frame is the program's own call of MPI. Deeper frames only show how the library waits.
bool is_call_of_mpi(std::string_view frame) {
  return frame.starts_with("MPI_") || frame.starts_with("PMPI_");
}

// Returns the frame that more than half of the ranks have. Returns nullopt if there is none. If a rank's
// stack is too short to have a frame at the depth in question, the rank has the frame "".
std::optional<std::string> majority(const std::map<Rank, MainStack>& stacks, const std::vector<Rank>& ranks,
                                    const auto& frame_of) {
  std::map<std::string, std::size_t> counts;
  for (const Rank rank : ranks) {
    std::string frame = frame_of(stacks.at(rank));
    if (++counts[frame] * 2 > ranks.size()) return frame;
  }
  return std::nullopt;
}

}  // namespace

MainStack main_stack_of(std::string_view dump) {
  MainStack stack;
  std::string activity;
  std::map<std::string, MainStack::Collective> collectives;
  int headings = 0;
  bool is_main = false;  // according to py-spy
  for (const std::string_view each : split(dump, '\n')) {
    const std::string_view line = trimmed(each);
    if (headings == 0 && line.starts_with(kActivity)) {
      activity = line.substr(kActivity.size());
    } else if (headings == 0 && line.starts_with(kCollective)) {
      read_collective(line.substr(kCollective.size()), collectives);
    } else if (is_heading(line)) {
      if (++headings > 1) break;
      stack = {.activity = {}, .state = state_in(line), .frames = {}};
    } else if (is_eu_stacks_heading(line)) {
      if (++headings > 1) break;
      stack = {};
    } else if (is_python_heading(line)) {
      stack = {};
    } else if (is_spys_heading(line)) {
      if (is_main) break;
      is_main = line.ends_with("\"MainThread\"");
      stack = {};
    } else if (!line.empty() && !line.ends_with(':')) {
      stack.frames.push_back(frame_of(line));
    }
  }
  stack.activity = std::move(activity);
  stack.collectives = std::move(collectives);
  return stack;
}

std::vector<std::string> shown_lines(const MainStack& stack, std::size_t count) {
  std::vector<std::string> lines;
  if (!stack.activity.empty()) lines.push_back(stack.activity);
  count += lines.size();
  if (stack.frames.empty() || is_of_kernel(stack.frames.front())) {
    if (!stack.state.empty()) lines.push_back(stack.state);
    return lines;
  }
  const auto call = std::find_if(stack.frames.rbegin(), stack.frames.rend(), is_call_of_mpi);
  auto frame = call == stack.frames.rend() ? stack.frames.end() : std::prev(call.base());
  if (frame == stack.frames.end()) frame = std::ranges::find_if_not(stack.frames, is_of_system);
  if (frame == stack.frames.end()) frame = stack.frames.begin();
  for (; frame != stack.frames.end() && lines.size() < count; ++frame) {
    lines.push_back(frame->substr(0, frame->rfind("  (")));
    if (lines.back() == "main") break;  // the frames above main are useless
  }
  return lines;
}

std::vector<std::string> missing_in_collectives(const std::map<Rank, MainStack>& stacks) {
  std::map<std::string, std::map<Rank, const MainStack::Collective*>> groups;
  for (const auto& [rank, stack] : stacks) {
    for (const auto& [group, collective] : stack.collectives) groups[group][rank] = &collective;
  }
  std::vector<std::string> lines;
  for (const auto& [group, ranks] : groups) {
    const MainStack::Collective& newest =
        *std::ranges::max_element(ranks, {}, [](const auto& each) { return each.second->number; })->second;
    std::vector<Rank> missing;
    for (const auto& [rank, collective] : ranks) {
      if (collective->number < newest.number) missing.push_back(rank);
    }
    if (missing.empty()) continue;
    const std::string who = missing.size() == 1
                                ? fmt::format("rank {} has", missing.front())
                                : fmt::format("{} ranks, such as {}, have", missing.size(), missing.front());
    lines.push_back(fmt::format("{} not entered collective {} of group '{}': {}", who, newest.number, group,
                                newest.text));
  }
  return lines;
}

bool waits_for_others(const MainStack& stack) {
  constexpr std::string_view kMarks[] = {"c10d::", "gloo::", "nccl", "MPI_", "torch/distributed/"};
  return std::ranges::any_of(stack.frames, [&](const std::string& frame) {
    return std::ranges::any_of(kMarks,
                               [&](std::string_view mark) { return frame.find(mark) != std::string::npos; });
  });
}

std::vector<Rank> unlike_most(const std::map<Rank, MainStack>& stacks) {
  std::vector<Rank> ranks;
  for (const auto& [rank, stack] : stacks) {
    if (!stack.activity.empty()) return {};
    ranks.push_back(rank);
  }
  for (std::size_t depth = 0; !ranks.empty(); ++depth) {
    const auto frame_of = [depth](const MainStack& stack) {
      return depth < stack.frames.size() ? stack.frames[stack.frames.size() - 1 - depth] : std::string();
    };
    const auto most = majority(stacks, ranks, frame_of);
    if (!most) break;
    std::erase_if(ranks, [&](Rank rank) { return frame_of(stacks.at(rank)) == *most; });
    if (!ranks.empty()) return ranks;
    if (most->empty()) break;
    for (const auto& [rank, stack] : stacks) ranks.push_back(rank);
  }
  return {};
}

}  // namespace muster::launcher
