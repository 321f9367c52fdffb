// The part of Job that takes nodes which are added while it runs.
#include <algorithm>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

// An added node is like one that came too late for the attempt: its agent starts now, or with the workers,
// and it takes part in the next.
void Job::handle(const NodesAdded& event, TimePoint now) {
  if (!check_addable(event.nodes.size())) return;
  for (const NodesAdded::Node& each : event.nodes) {
    const NodeId node = recruiter_.add(each.slots);
    names_.add(node, each.host);
    record("node_added", each.host, node);
    decide(Tell{fmt::format("{} is added, and takes part from the next attempt", names_.of(node))},
           "the user wants it");
  }
  grows_now_ = grows_now_ || event.now;
  if (phase_ == Phase::kRunning) carry(recruiter_.hire_absent(now));
  if (phase_ == Phase::kGathering) gather(now);
}

void Job::grow_if_wanted(std::int64_t committed_step, TimePoint now) {
  const bool there = std::ranges::any_of(fleet_.nodes(), [&](NodeId id) {
    return fleet_.presence(id) == Fleet::Presence::kThere && crew_.find(id) == nullptr &&
           !fleet_.excluded(id, now);
  });
  if (!grows_now_ || !there || phase_ != Phase::kRunning || deadline_) return;
  grows_now_ = false;
  facts_.grows = true;
  decide(Tell{fmt::format("step {} is committed: the attempt ends, so that added nodes take part",
                          committed_step)},
         "the user wants it now");
  stop_workers(now);
}

Status Job::check_addable(std::size_t count) const {
  if (phase_ >= Phase::kLeaving) return failure(ErrorCode::kUnavailable, "the job ends");
  if (!plan_.min_nodes)
    return failure(ErrorCode::kInvalidArgument,
                   "the job has a fixed number of nodes: start it with --nodes MIN:MAX");
  const auto room = static_cast<std::size_t>(plan_.most_nodes() - recruiter_.place_count());
  if (count <= room) return {};
  return failure(ErrorCode::kInvalidArgument, "the job has {} of at most {} (--nodes MIN:MAX): {}",
                 recruiter_.place_count(), count_of(static_cast<std::size_t>(plan_.most_nodes()), "node"),
                 room == 0 ? "it is full" : fmt::format("add {} at most", room));
}

}  // namespace muster::launcher
