#include "tests/unit/cluster/ground_truth.h"

#include <algorithm>

namespace muster::simulation {

namespace {

// A lost node's peers may fail, and be heard, so long before it is missed.
constexpr Duration kAtOnce = std::chrono::milliseconds(150);

bool is_silent(Fault::Kind kind) {
  return kind == Fault::Kind::kAgentFreezes || kind == Fault::Kind::kLinkFallsSilent;
}

bool is_refusal(Fault::Kind kind) {
  return kind == Fault::Kind::kAttemptRefused || kind == Fault::Kind::kExecutionRefused;
}

bool is_stall(Fault::Kind kind) {
  return kind == Fault::Kind::kWorkerStalls || kind == Fault::Kind::kWorkerStopped;
}

bool is_of_a_worker(Fault::Kind kind) {
  return kind == Fault::Kind::kWorkerDies || kind == Fault::Kind::kOutOfMemory || is_stall(kind);
}

// Its effects are over, and have been judged, when the attempt is.
bool ends_with_attempt(Fault::Kind kind) {
  return is_of_a_worker(kind) || is_refusal(kind);
}

}  // namespace

void GroundTruth::happened(Fault::Kind kind, NodeId node, std::optional<Rank> rank, bool decisive,
                           TimePoint now) {
  history_.push_back(kind);
  if (!ends_with_attempt(kind) || is_refusal(kind)) touched_.insert(node);
  if (kind == Fault::Kind::kAgentPauses) return;  // nobody's fault
  Open fault{
      .kind = kind, .at = now, .culprit = {.rank = std::nullopt, .node = node.value()}, .decisive = decisive};
  if (rank) fault.culprit.rank = rank->value();
  open_.push_back(fault);
}

void GroundTruth::noticed(NodeId node) {
  for (Open& each : open_) {
    if (!each.culprit.rank && each.culprit.node == node.value()) each.noticed = true;
  }
}

// Of two faults at once, and where a peer falls silent soon after another fault, the launcher cannot know
// which came first. What forbids a restart outweighs what calls for one.
std::vector<invariants::Culprit> GroundTruth::culprits_of_attempt(const std::set<NodeId>& members) {
  std::vector<invariants::Culprit> culprits;
  bool told = false;  // of one that the launcher must have heard of
  for (const Open& each : open_) {
    // Nobody minds what happens to a spare.
    if (!members.empty() && !members.contains(NodeId(*each.culprit.node))) continue;
    // A hang may be seen before a silence that began earlier.
    const bool hang_after_silence = is_stall(each.kind) && is_silent(open_.front().kind);
    const Duration uncertain = is_silent(each.kind) || hang_after_silence ? silence_limit_ : kAtOnce;
    // One whose own node is silent is not heard, and among the others nobody stands out.
    const bool any_silent =
        std::ranges::any_of(open_, [](const Open& other) { return is_silent(other.kind); });
    if (is_stall(each.kind) && any_silent) culprits.emplace_back();
    const bool maybe_first = each.at < open_.front().at + uncertain;
    if (!told || maybe_first || is_refusal(each.kind)) culprits.push_back(each.culprit);
    // A hang is seen some time after it began, and another fault may come before that.
    told = told || (each.decisive && (each.noticed || !is_silent(each.kind)) && !is_stall(each.kind));
  }
  std::erase_if(open_, [](const Open& each) { return each.noticed || ends_with_attempt(each.kind); });
  return culprits;
}

}  // namespace muster::simulation
