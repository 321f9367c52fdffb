#include "tests/simulation/ground_truth.h"

#include <algorithm>

#include "launcher/core/fleet/fleet.h"

namespace muster::simulation {

namespace {

// A lost node's peers may fail and report this long before the launcher misses the node.
constexpr Duration kAtOnce = std::chrono::milliseconds(150);

constexpr Duration kOnItsWay = std::chrono::milliseconds(500);
constexpr Duration kLongestBlindness = std::chrono::seconds(8);

// The fault's effects end, and are judged, with the attempt.
bool ends_with_attempt(const FaultTraits& traits) {
  return traits.of_worker || traits.refusal;
}

// The job's exit code if this is the culprit; docs/reference/formats.md has the table.
std::vector<int> exit_codes_of(const GroundTruth::Happened& what) {
  const FaultTraits traits = traits_of(what.kind);
  if (traits.of_agent) return {launcher::kExitNodesMissing};
  if (traits.stall) return {launcher::kExitTimeOut};
  // The launcher gives up a node that refuses a restart.
  if (traits.refusal) return {what.exit_code, launcher::kExitNodesMissing};
  if (what.kind == FaultKind::kWorkerLeavesEarly) return {1};
  if (what.kind == FaultKind::kOutOfMemory) return {launcher::kExitOutOfMemory};
  return {what.exit_code};
}

}  // namespace

void GroundTruth::happened(const Happened& what) {
  kinds_.insert(what.kind);
  const FaultTraits traits = traits_of(what.kind);
  // An agent waits for a worker that is stuck in the kernel, and the launcher may give up both.
  if (!traits.of_worker || what.kind == FaultKind::kWorkerUnkillable) touched_.insert(what.node);
  if (traits.harmless || traits.ends_launch) return;
  ++cause_count_;
  open_.push_back({.what = what, .culprit = {what.rank, what.node, exit_codes_of(what)}});
}

// The launcher will not notice a silence that healed long ago.
void GroundTruth::forget_healed(TimePoint now) {
  std::erase_if(open_, [now](const Open& each) {
    return traits_of(each.what.kind).silent && !each.noticed && each.what.length > Duration::zero() &&
           now > each.what.at + each.what.length + std::chrono::seconds(10);
  });
}

void GroundTruth::noticed(NodeId node, bool missed, TimePoint now) {
  forget_healed(now);
  for (Open& each : open_) {
    if (each.culprit.rank || each.culprit.node != node) continue;
    each.noticed = true;
    each.what.decisive = each.what.decisive && missed;
  }
}

// The time as the launcher can know it.
bool GroundTruth::may_precede(const Happened& what, const Happened& first) const {
  const FaultTraits traits = traits_of(what.kind);
  // The launcher may see a hang before a silence that began earlier.
  const bool hang_after_silence = traits.stall && traits_of(first.kind).silent;
  Duration uncertain = traits.silent || hang_after_silence ? silence_limit_ : kAtOnce;
  // Only its peers notice a rank that leaves with 0, and the same signs may mean a lost node.
  if (first.kind == FaultKind::kWorkerLeavesEarly && !traits.of_worker) uncertain += launcher::kPeerWindow;
  // After a connection closes, the launcher waits a moment for the agent's end.
  if (traits.stall && !traits_of(first.kind).of_worker) uncertain += launcher::Fleet::kHalfGoneLimit;
  // Messages that were in flight when an agent fell silent arrive later.
  if (traits_of(first.kind).silent) uncertain += kOnItsWay;
  // An agent that receives nothing may still send.
  if (first.kind == FaultKind::kLinkIsCutOneWay) uncertain += first.length + silence_limit_;
  const bool unseen = what.at < blind_until_ && blind_until_ < first.at + kLongestBlindness;
  return what.at < first.at + uncertain || unseen;
}

// For two faults at the same time, or a silence soon after another fault, the launcher cannot know which was
// first. A fault that forbids a restart wins.
std::vector<Culprit> GroundTruth::culprits_of_attempt(Attempt attempt, const std::set<NodeId>& members,
                                                      TimePoint now) {
  // A refusal of an attempt that has ended has no effect.
  std::erase_if(open_,
                [attempt](const Open& each) { return each.what.attempt && *each.what.attempt < attempt; });
  forget_healed(now);
  // A fault of a spare has no effect on the attempt.
  std::vector<Open> those;
  for (const Open& each : open_) {
    if (members.empty() || members.contains(*each.culprit.node)) those.push_back(each);
  }
  std::vector<Culprit> culprits;
  const Happened* told = nullptr;  // the first fault that the launcher must know
  const bool any_silent =
      std::ranges::any_of(those, [](const Open& each) { return traits_of(each.what.kind).silent; });
  const auto stall_count =
      std::ranges::count_if(those, [](const Open& each) { return traits_of(each.what.kind).stall; });
  for (const Open& each : those) {
    const FaultTraits traits = traits_of(each.what.kind);
    // A straggler on a silent node cannot report, and among the other ranks, or between two, none stands out.
    if (traits.stall && (any_silent || stall_count > 1)) culprits.emplace_back();
    if (told == nullptr || may_precede(each.what, *told) || traits.refusal) culprits.push_back(each.culprit);
    // The launcher sees a hang some time after it began; another fault may come first.
    const bool tells = each.what.decisive && (each.noticed || !traits.silent) && !traits.stall;
    if (told == nullptr && tells) told = &each.what;
  }
  std::erase_if(
      open_, [](const Open& each) { return each.noticed || ends_with_attempt(traits_of(each.what.kind)); });
  return culprits;
}

}  // namespace muster::simulation
