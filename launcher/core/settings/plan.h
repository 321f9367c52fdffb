// What will be started where: a value, made from the options and what the machine has.
//
// --dry-run prints it and stops; the launcher carries it out. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/rank_range.h"
#include "common/wire/messages.h"
#include "launcher/core/settings/options.h"
#include "launcher/core/text/node_names.h"

namespace muster::launcher {

// What was found on this machine. GPUs are looked for only where they can matter.
struct Machine {
  std::int32_t core_count = 1;
  std::int32_t gpu_count = 0;
  std::string gpu_note;  // why there are none, for messages
};
bool needs_gpu_count(const Options& options);

struct NodePlan {
  NodeId node;
  Rank first_rank;
  std::int32_t worker_count = 0;
  bool has(Rank rank) const { return RankRange(first_rank, worker_count).has(rank); }
};

constexpr std::int64_t kMostWorkers = 100'000;  // of all nodes at full size, and of all spares

struct Plan {
  wire::JobSpec job;
  // The nodes that take part at full size, with the ranks that they have then. Spare nodes have the numbers
  // after these.
  std::vector<NodePlan> nodes;
  std::optional<std::int32_t> min_nodes;  // as few will do when others are lost; empty: the size is fixed
  std::int32_t max_nodes = 0;             // `nodes`, and hosts that are added while the job runs
  std::int32_t spare_nodes = 0;
  RecoveryOptions recovery;
  bool take_over = false;              // the checkpoint directory, from a launch that uses it
  Control control = Control::kSocket;  // never kAuto where all nodes are on this machine
  // By node number, spares too, each with its slots; empty: all nodes are on this machine.
  std::vector<Host> hosts;
  RemoteOptions remote;
  // Variables of NCCL that workers get on top, because nobody has set them here.
  std::map<std::string, std::string> chosen;
  bool program_is_here = true;      // on this machine too, from where --sync copies
  std::int32_t world_size() const;  // at full size
  // How many workers the node may have: a spare's may be more than those of the node whose place it takes.
  std::int32_t room_of(NodeId node) const;
  std::int32_t agent_count() const;
  bool needs_all_nodes() const { return spare_nodes == 0 && !min_nodes; }
  // Nodes that may ever take part in one attempt.
  std::int32_t most_nodes() const { return std::max(max_nodes, static_cast<std::int32_t>(nodes.size())); }
  NodeNames names() const;
  // The file for what the node's agent writes to stderr, and the host shell that it runs in.
  std::string agent_log(NodeId node) const;
};

// `job_id` is unique; its directory is LOG_DIRECTORY/job_id. Errors: more workers than GPUs, no GPUs where
// some are asked for.
Expected<Plan> make_plan(const Options& options, const Machine& machine, const Surroundings& here,
                         std::string job_id);

// kInvalidArgument, with the field and its value, if make_plan() would have made no such plan: it was read
// from somewhere.
Status check_plan(const Plan& plan);

// Said once when workers share the cores without having been told how.
std::optional<std::string> thread_notice(const Plan& plan, const Machine& machine,
                                         const Environment& inherited);

std::string plan_as_text(const Plan& plan);
std::string plan_as_json(const Plan& plan);

}  // namespace muster::launcher
