// This part of Job adds nodes while the job runs.
#include <algorithm>
#include <map>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

// A node that was added is like a node that joined too late for the attempt. Its agent starts now, or when
// the workers do. The node takes part in the next attempt.
void Job::handle(const NodesAdded& event, TimePoint now) {
  if (!check_addable(event.nodes)) return;
  for (const NodesAdded::Node& each : event.nodes) {
    const NodeId node = recruiter_.add(each.slots);
    names_.add(node, each.host);
    record("node_added", each.host, node);
    decide(Tell{fmt::format("{} was added, and takes part from the next attempt", names_.of(node))},
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
  decide(Tell{fmt::format("step {} is committed: ending the attempt so that added nodes take part",
                          committed_step)},
         "the user wants it now");
  stop_workers(now);
}

Expected<std::vector<NodesAdded::Node>> Job::addable(const std::vector<Host>& hosts) const {
  if (plan_.hosts.empty())
    return failure(ErrorCode::kInvalidArgument,
                   "{} has no hosts: all its nodes are on the launcher's machine; start the job with --hosts",
                   plan_.job.job_id);
  if (plan_.remote.bootstrap == BootstrapKind::kDocker)
    return failure(ErrorCode::kInvalidArgument,
                   "{} runs in containers on the launcher's machine: "
                   "hosts can be added only to a job that was started with --hosts",
                   plan_.job.job_id);
  std::vector<NodesAdded::Node> nodes;
  for (const Host& host : hosts)
    nodes.push_back({host.name, host.slots.value_or(plan_.nodes.front().worker_count)});
  if (const Status addable = check_addable(nodes); !addable) return std::unexpected(addable.error());
  return nodes;
}

Status Job::check_addable(const std::vector<NodesAdded::Node>& nodes) const {
  if (phase_ >= Phase::kLeaving) return failure(ErrorCode::kUnavailable, "the job is ending");
  if (!plan_.min_nodes)
    return failure(ErrorCode::kInvalidArgument,
                   "the job has a fixed number of nodes: start it with --nodes MIN:MAX");
  const auto room = static_cast<std::size_t>(plan_.most_nodes() - recruiter_.place_count());
  if (nodes.size() > room)
    return failure(ErrorCode::kInvalidArgument, "the job has {} of at most {} (--nodes MIN:MAX): {}",
                   recruiter_.place_count(), count_of(plan_.most_nodes(), "node"),
                   room == 0 ? "it is full" : fmt::format("add at most {}", room));
  std::int64_t worker_count = recruiter_.world_size();
  std::map<std::string, NodeId> present;
  for (const NodeId id : fleet_.nodes()) present.emplace(names_.host_of(id), id);
  for (const NodesAdded::Node& each : nodes) {
    if (const auto same = present.find(each.host); same != present.end())
      return failure(ErrorCode::kInvalidArgument, "{} is already in the job, as node{}", each.host,
                     same->second);
    if (each.slots > kMostSlots)
      return failure(ErrorCode::kInvalidArgument, "{}:{}: a host has at most {} slots", each.host, each.slots,
                     kMostSlots);
    worker_count += each.slots;
  }
  if (worker_count <= kMostWorkers) return {};
  return failure(ErrorCode::kInvalidArgument, "the job would have {} workers; the maximum is {}",
                 worker_count, kMostWorkers);
}

}  // namespace muster::launcher
