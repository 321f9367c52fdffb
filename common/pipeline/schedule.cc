#include "common/pipeline/schedule.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"

namespace muster {

namespace {

constexpr int kMostStages = 1 << 16;
constexpr int kMostMicrobatches = 1 << 20;

struct OpName {
  Op op;
  std::string_view name;
};
// parse_instruction() takes the first name that fits. So if one name begins with another one, the longer name
// comes first.
constexpr std::array kOpNames{
    OpName{Op::kReduceGrad, "REDUCE_GRAD"},
    OpName{Op::kReceiveForward, "RECV_F"},
    OpName{Op::kReceiveBackward, "RECV_B"},
    OpName{Op::kSendForward, "SEND_F"},
    OpName{Op::kSendBackward, "SEND_B"},
    OpName{Op::kStep, "STEP"},
    OpName{Op::kForward, "F"},
    OpName{Op::kBackward, "B"},
    OpName{Op::kBackwardInput, "I"},
    OpName{Op::kBackwardWeight, "W"},
};
constexpr std::string_view kTogether = "OVERLAP_F_B";

bool has_microbatch(Op op) {
  return op != Op::kReduceGrad && op != Op::kStep;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"')) text.remove_suffix(1);
  return text;
}

// Removes a number from the beginning of the text, and returns it. Returns nothing if the text does not begin
// with a number, or if the number is not below `below`.
std::optional<int> take_number(std::string_view& text, int below) {
  const std::size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<int>(text.substr(0, size));
  if (!number || *number >= below) return std::nullopt;
  text.remove_prefix(size);
  return number;
}

std::optional<Instruction> parse_instruction(std::string_view text) {
  const auto stage = take_number(text, kMostStages);
  if (!stage) return std::nullopt;
  const auto named =
      std::ranges::find_if(kOpNames, [text](const OpName& each) { return text.starts_with(each.name); });
  if (named == kOpNames.end()) return std::nullopt;
  text.remove_prefix(named->name.size());
  Instruction instruction{.op = named->op, .stage = *stage, .microbatch = Instruction::kNone};
  if (has_microbatch(named->op)) {
    const auto microbatch = take_number(text, kMostMicrobatches);
    if (!microbatch) return std::nullopt;
    instruction.microbatch = *microbatch;
  }
  return text.empty() ? std::optional(instruction) : std::nullopt;
}

// Returns the instruction of this cell, or two instructions if they run together. The result is empty for an
// idle cell. Returns nothing if the text is wrong.
std::optional<std::vector<Instruction>> parse_cell(std::string_view text) {
  if (text.empty()) return std::vector<Instruction>();
  if (text.front() != '(') {
    const auto one = parse_instruction(text);
    return one ? std::optional(std::vector{*one}) : std::nullopt;
  }
  const std::size_t end = text.find(')');
  if (end == std::string_view::npos || text.substr(end + 1) != kTogether) return std::nullopt;
  const auto both = split(text.substr(1, end - 1), ';');
  if (both.size() != 2) return std::nullopt;
  auto first = parse_instruction(trimmed(both[0]));
  const auto second = parse_instruction(trimmed(both[1]));
  if (!first || !second || first->op != Op::kForward || !is_backward(second->op)) return std::nullopt;
  first->with_next = true;
  return std::vector{*first, *second};
}

}  // namespace

bool is_compute(Op op) {
  return op == Op::kForward || is_backward(op);
}

bool is_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardInput || op == Op::kBackwardWeight;
}

bool is_last_backward(Op op) {
  return op == Op::kBackward || op == Op::kBackwardWeight;
}

std::optional<Instruction> input_of(const Instruction& compute, int stages) {
  const bool forward = compute.op == Op::kForward;
  const int stage = forward ? compute.stage - 1 : compute.stage + 1;
  if (!is_compute(compute.op) || compute.op == Op::kBackwardWeight || stage < 0 || stage == stages)
    return std::nullopt;
  return Instruction{
      .op = forward ? Op::kForward : Op::kBackward, .stage = stage, .microbatch = compute.microbatch};
}

std::string text_of(const Instruction& instruction) {
  const auto* const named = std::ranges::find(kOpNames, instruction.op, &OpName::op);
  std::string text = fmt::format("{}{}", instruction.stage, named->name);
  if (has_microbatch(instruction.op)) text += fmt::format("{}", instruction.microbatch);
  return text;
}

std::vector<std::string> texts_of(const std::vector<Instruction>& instructions) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const bool together = instructions[i].with_next && i + 1 < instructions.size();
    if (!together) {
      texts.push_back(text_of(instructions[i]));
    } else {
      texts.push_back(
          fmt::format("({};{}){}", text_of(instructions[i]), text_of(instructions[i + 1]), kTogether));
      ++i;
    }
  }
  return texts;
}

std::string schedule_as_csv(const Schedule& schedule) {
  std::string csv;
  for (const auto& instructions : schedule.ranks)
    csv += fmt::format("{}\n", fmt::join(texts_of(instructions), ","));
  return csv;
}

Expected<Schedule> parse_schedule(std::string_view csv) {
  Schedule schedule;
  while (csv.ends_with('\n') || csv.ends_with('\r')) csv.remove_suffix(1);
  for (std::string_view line : split(csv, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::vector<Instruction>& instructions = schedule.ranks.emplace_back();
    const auto cells = split(line, ',');
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string_view cell = trimmed(cells[i]);
      const auto some = parse_cell(cell);
      if (!some)
        return failure(ErrorCode::kInvalidArgument,
                       "line {}, cell {}: '{}' is not an instruction: give stage, operation and microbatch, "
                       "as in 0F3, 2B0 or 1SEND_F2",
                       schedule.ranks.size(), i + 1, one_line(std::string(beginning_of(cell, 40))));
      for (const Instruction& each : *some) {
        schedule.stages = std::max(schedule.stages, each.stage + 1);
        schedule.microbatches = std::max(schedule.microbatches, each.microbatch + 1);
        instructions.push_back(each);
      }
    }
  }
  if (schedule.stages == 0) return failure(ErrorCode::kInvalidArgument, "it has no instructions");
  return schedule;
}

std::vector<int> ranks_of_stages(const Schedule& schedule) {
  std::vector<int> ranks(static_cast<std::size_t>(schedule.stages), Instruction::kNone);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const Instruction& each : schedule.ranks[rank]) {
      int& known = ranks[static_cast<std::size_t>(each.stage)];
      if (each.op == Op::kForward && known == Instruction::kNone) known = static_cast<int>(rank);
    }
  }
  return ranks;
}

}  // namespace muster
