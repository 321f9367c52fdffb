// This part of Job checks fields that were read from a journal.
#include <algorithm>

#include "launcher/core/job/counts.h"
#include "launcher/core/job/job.h"

namespace muster::launcher {

bool Job::restored() const {
  const bool begins = phase_ >= Phase::kBeginning && phase_ < Phase::kStopping;
  const bool has_attempt = phase_ >= Phase::kPreparing && phase_ < Phase::kStopping;
  return has_its_nodes() && has_its_deadline() && !(begins && crew_.empty()) &&
         !(has_attempt && chronicle_.empty()) && !(facts_.hangs && facts_.hang.stalls().empty()) &&
         is_count(interrupt_count_) && is_count(facts_.world_size) &&
         fit_a_message(store_address_, store_peers_) && neighbours_.are_among(crew_.members());
}

// Returns whether the nodes of the fleet match the nodes of the plan. Each member of the attempt must be one
// of these nodes, and the addresses of its host must be known.
bool Job::has_its_nodes() const {
  const std::vector<NodeId> nodes = fleet_.nodes();
  const std::int32_t count = recruiter_.node_count();
  if (static_cast<std::int32_t>(nodes.size()) != count ||
      count - recruiter_.place_count() != plan_.spare_nodes || nodes.front() != NodeId(0) ||
      nodes.back() != NodeId(count - 1))
    return false;
  const auto is_on_a_host = [this](const auto& each) { return !names_.host_of(each.first).empty(); };
  if (facts_.refusal && !std::ranges::all_of(facts_.refusal->by_node, is_on_a_host)) return false;
  const auto is_known = [this](NodeId id) { return whereabouts_.contains(id); };
  return crew_.world_size() <= recruiter_.world_size() &&
         std::ranges::all_of(crew_.members(),
                             [&](const NodePlan& each) {
                               return each.node >= NodeId(0) && each.node < NodeId(count) &&
                                      is_known(each.node);
                             }) &&
         std::ranges::all_of(nodes, [&](NodeId id) {
           return fleet_.presence(id) != Fleet::Presence::kThere || is_known(id);
         });
}

// Returns whether deadline_ can occur in the current phase. Some phases need a deadline, and others cannot
// have one. The kind of the deadline has to fit the phase.
bool Job::has_its_deadline() const {
  using enum Deadline::What;
  const auto is = [this](Deadline::What what) { return deadline_ && deadline_->what == what; };
  switch (phase_) {
    case Phase::kGathering: return !deadline_ || is(kBackOff) || (is(kAnswers) && facts_.refusal);
    case Phase::kRunning: return !deadline_ || is(kCulprit);
    case Phase::kDumping: return is(kStacks);
    case Phase::kPreempting: return is(kNotice);
    case Phase::kStopping:
    case Phase::kLeaving: return is(kEnd) || is(kLastWait);
    case Phase::kPreparing: return !deadline_ || is(kAnswers);
    case Phase::kBeginning:
    case Phase::kDone: return !deadline_;
  }
  return false;
}

}  // namespace muster::launcher
