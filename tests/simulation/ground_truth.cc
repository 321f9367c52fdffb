#include "tests/simulation/ground_truth.h"

#include <algorithm>

#include "launcher/core/fleet/fleet.h"

namespace muster::simulation {

namespace {

// A lost node's peers may fail, and be heard, so long before it is missed.
constexpr Duration kAtOnce = std::chrono::milliseconds(150);

constexpr Duration kOnItsWay = std::chrono::milliseconds(500);
constexpr Duration kLongestBlindness = std::chrono::seconds(8);

// Its effects are over, and have been judged, when the attempt is.
bool ends_with_attempt(const FaultTraits& traits) {
  return traits.of_worker || traits.refusal;
}

// Of the job, where this is blamed; docs/reference/formats.md has the table.
std::vector<int> exit_codes_of(const GroundTruth::Happened& what) {
  const FaultTraits traits = traits_of(what.kind);
  if (traits.of_agent) return {launcher::kExitNodesMissing};
  if (traits.stall) return {launcher::kExitTimeOut};
  // A node that refuses a restart is given up.
  if (traits.refusal) return {what.exit_code, launcher::kExitNodesMissing};
  if (what.kind == FaultKind::kWorkerLeavesEarly) return {1};
  if (what.kind == FaultKind::kOutOfMemory) return {launcher::kExitOutOfMemory};
  return {what.exit_code};
}

}  // namespace

void GroundTruth::happened(const Happened& what) {
  kinds_.insert(what.kind);
  const FaultTraits traits = traits_of(what.kind);
  // An agent waits for a worker that the kernel holds, and may be given up with it.
  if (!traits.of_worker || what.kind == FaultKind::kWorkerUnkillable) touched_.insert(what.node);
  if (traits.harmless || traits.ends_launch) return;
  ++cause_count_;
  open_.push_back({.what = what, .culprit = {what.rank, what.node, exit_codes_of(what)}});
}

// A silence that has healed, and that nobody has noticed for long after it, will not be.
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

// As far as the launcher can know.
bool GroundTruth::may_precede(const Happened& what, const Happened& first) const {
  const FaultTraits traits = traits_of(what.kind);
  // A hang may be seen before a silence that began earlier.
  const bool hang_after_silence = traits.stall && traits_of(first.kind).silent;
  Duration uncertain = traits.silent || hang_after_silence ? silence_limit_ : kAtOnce;
  // Who leaves with 0 is known only by those who miss it, and they might miss a node as well.
  if (first.kind == FaultKind::kWorkerLeavesEarly && !traits.of_worker) uncertain += launcher::kPeerWindow;
  // A connection that is closed is waited with for a moment, for the end of its agent.
  if (traits.stall && !traits_of(first.kind).of_worker) uncertain += launcher::Fleet::kHalfGoneLimit;
  // What was on its way when an agent fell silent is heard after that.
  if (traits_of(first.kind).silent) uncertain += kOnItsWay;
  // An agent that cannot hear may be heard.
  if (first.kind == FaultKind::kLinkIsCutOneWay) uncertain += first.length + silence_limit_;
  const bool unseen = what.at < blind_until_ && blind_until_ < first.at + kLongestBlindness;
  return what.at < first.at + uncertain || unseen;
}

// Of two faults at once, and where a peer falls silent soon after another fault, the launcher cannot know
// which came first. What forbids a restart outweighs what calls for one.
std::vector<Culprit> GroundTruth::culprits_of_attempt(Attempt attempt, const std::set<NodeId>& members,
                                                      TimePoint now) {
  // Nobody minds who refuses an attempt that has ended.
  std::erase_if(open_,
                [attempt](const Open& each) { return each.what.attempt && *each.what.attempt < attempt; });
  forget_healed(now);
  // Nobody minds what happens to a spare.
  std::vector<Open> those;
  for (const Open& each : open_) {
    if (members.empty() || members.contains(*each.culprit.node)) those.push_back(each);
  }
  std::vector<Culprit> culprits;
  const Happened* told = nullptr;  // the first that the launcher must have heard of
  const bool any_silent =
      std::ranges::any_of(those, [](const Open& each) { return traits_of(each.what.kind).silent; });
  const auto stall_count =
      std::ranges::count_if(those, [](const Open& each) { return traits_of(each.what.kind).stall; });
  for (const Open& each : those) {
    const FaultTraits traits = traits_of(each.what.kind);
    // One whose own node is silent is not heard, and among the others, or of two, nobody stands out.
    if (traits.stall && (any_silent || stall_count > 1)) culprits.emplace_back();
    if (told == nullptr || may_precede(each.what, *told) || traits.refusal) culprits.push_back(each.culprit);
    // A hang is seen some time after it began, and another fault may come before that.
    const bool tells = each.what.decisive && (each.noticed || !traits.silent) && !traits.stall;
    if (told == nullptr && tells) told = &each.what;
  }
  std::erase_if(
      open_, [](const Open& each) { return each.noticed || ends_with_attempt(traits_of(each.what.kind)); });
  return culprits;
}

}  // namespace muster::simulation
