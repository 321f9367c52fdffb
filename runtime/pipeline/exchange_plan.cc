#include "runtime/pipeline/exchange_plan.h"

#include <algorithm>
#include <optional>

namespace muster {

namespace {

// Returns the message with the input that the computation needs from another stage. Returns nothing if it
// needs none.
std::optional<StageMessage> taken_by(const Instruction& compute, int stages) {
  if (!input_of(compute, stages)) return std::nullopt;
  return StageMessage{compute.op == Op::kForward ? Op::kForward : Op::kBackward, compute.stage,
                      compute.microbatch};
}

// Returns the message that sends the result of `compute` to another stage. Returns nothing if no other stage
// needs the result.
std::optional<StageMessage> given_by(const Instruction& compute, int stages) {
  if (!is_compute(compute.op) || compute.op == Op::kBackwardWeight) return std::nullopt;
  const bool forward = compute.op == Op::kForward;
  const int stage = forward ? compute.stage + 1 : compute.stage - 1;
  if (stage < 0 || stage == stages) return std::nullopt;
  return StageMessage{forward ? Op::kForward : Op::kBackward, stage, compute.microbatch};
}

std::vector<Instruction> computes_of(const std::vector<Instruction>& instructions, bool forward_only) {
  std::vector<Instruction> computes;
  for (const Instruction& each : instructions) {
    if (is_compute(each.op) && (!forward_only || each.op == Op::kForward)) computes.push_back(each);
  }
  return computes;
}

struct Ranks {
  std::vector<std::vector<Instruction>> computes;
  std::vector<int> of_stage;
  int stages;
};

std::vector<StageMessage> messages(const Ranks& ranks, int from, int to) {
  std::vector<StageMessage> all;
  for (const Instruction& each : ranks.computes[static_cast<std::size_t>(from)]) {
    const auto given = given_by(each, ranks.stages);
    if (given && ranks.of_stage[static_cast<std::size_t>(given->stage)] == to) all.push_back(*given);
  }
  return all;
}

// Returns a number for each message from `peer` to `rank`. If the number is n, the peer has used the first n
// messages of `out` before it sends this message.
std::vector<int> arrived_before(const Ranks& ranks, int rank, int peer,
                                const std::vector<StageMessage>& out) {
  std::vector<int> arrived;
  std::vector<bool> used(out.size());
  std::size_t first = 0;
  for (const Instruction& each : ranks.computes[static_cast<std::size_t>(peer)]) {
    if (const auto taken = taken_by(each, ranks.stages)) {
      const auto found = std::ranges::find(out, *taken);
      if (found != out.end()) used[static_cast<std::size_t>(found - out.begin())] = true;
      while (first < used.size() && used[first]) ++first;
    }
    const auto given = given_by(each, ranks.stages);
    if (given && ranks.of_stage[static_cast<std::size_t>(given->stage)] == rank)
      arrived.push_back(static_cast<int>(first));
  }
  return arrived;
}

}  // namespace

ExchangePlan make_exchange_plan(const Schedule& schedule, int rank, bool forward_only) {
  Ranks ranks{.computes = {}, .of_stage = ranks_of_stages(schedule), .stages = schedule.stages};
  for (const auto& instructions : schedule.ranks)
    ranks.computes.push_back(computes_of(instructions, forward_only));
  ExchangePlan plan;
  for (int peer = 0; peer < static_cast<int>(schedule.ranks.size()); ++peer) {
    if (peer == rank) continue;
    Channel channel{
        .peer = peer, .in = messages(ranks, peer, rank), .out = messages(ranks, rank, peer), .arrived = {}};
    if (channel.in.empty() && channel.out.empty()) continue;
    channel.arrived = arrived_before(ranks, rank, peer, channel.out);
    plan.channels.push_back(std::move(channel));
  }
  plan.computes = std::move(ranks.computes[static_cast<std::size_t>(rank)]);
  return plan;
}

}  // namespace muster
