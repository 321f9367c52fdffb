// The plan of a job. It says which workers start on which nodes. It is made from the options, and from what
// the machine has.
//
// --dry-run prints the plan and stops; otherwise the launcher carries it out. Pure.
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

// A GPU whose memory is filled by other users: their processes hold more than half.
struct GpuInUse {
  std::int32_t gpu = 0;  // NVML's number
  std::int32_t pid = 0;  // the largest of the processes
  std::string user;
  std::uint64_t mebibyte_count = 0;  // of that process
};

// The resources of this machine. gpu_count is set only if needs_gpu_count() is true.
struct Machine {
  std::int32_t core_count = 1;
  std::int32_t gpu_count = 0;
  std::string gpu_note;  // why there are none, for messages
  std::vector<GpuInUse> gpus_in_use{};
};
bool needs_gpu_count(const Options& options);

struct NodePlan {
  NodeId node;
  Rank first_rank;
  std::int32_t worker_count = 0;
  bool has(Rank rank) const { return RankRange(first_rank, worker_count).has(rank); }
};

constexpr std::int64_t kMostWorkers = 100'000;  // limit for all nodes at full size, and for all spares

struct Plan {
  wire::JobSpec job;
  // The nodes that take part at full size, with their ranks. Spare nodes are numbered after these.
  std::vector<NodePlan> nodes;
  std::optional<std::int32_t> min_nodes;  // the job continues down to this size; empty: fixed size
  std::int32_t max_nodes = 0;             // `nodes` plus hosts that users may add at run time
  std::int32_t spare_nodes = 0;
  RecoveryOptions recovery;
  bool take_over = false;           // take the checkpoint directory from a launch that uses it
  bool shares_checkpoints = false;  // a host must see the launcher's checkpoint directory even if it is alone
  Control control = Control::kSocket;  // never kAuto where all nodes are on this machine
  // The hosts in the order of the nodes' numbers, including spares. Each host has its number of slots. If
  // this list is empty, all nodes are on this machine.
  std::vector<Host> hosts;
  RemoteOptions remote;
  // Nobody has set these NCCL variables on this machine, so the agents add them.
  std::map<std::string, std::string> chosen;
  bool chose_python = false;        // launch has put its Python before the script or module
  bool program_is_here = true;      // the program is also on this machine, so --sync could copy it
  std::int32_t world_size() const;  // at full size
  // Returns how many workers the node has room for. A spare may have room for more than the node that it
  // replaces.
  std::int32_t room_of(NodeId node) const;
  std::int32_t agent_count() const;
  bool needs_all_nodes() const { return spare_nodes == 0 && !min_nodes; }
  // Returns the largest number of nodes that can take part in one attempt.
  std::int32_t most_nodes() const { return std::max(max_nodes, static_cast<std::int32_t>(nodes.size())); }
  NodeNames names() const;
  // Returns the path of the file that gets the stderr of the node's agent and of its host shell.
  std::string agent_log(NodeId node) const;
};

// Makes the plan of a job. `job_id` must be unique. The directory of the job is LOG_DIRECTORY/job_id. It is
// an error if there are too many workers, if there are fewer GPUs than the options need, or if the command is
// too long to be sent.
Expected<Plan> make_plan(const Options& options, const Machine& machine, const Surroundings& here,
                         std::string job_id);

// Checks a plan that was read from a file. If make_plan() cannot have made the plan, returns
// kInvalidArgument, and names the field and its value.
Status check_plan(const Plan& plan);

// Returns a notice if there are far too many workers for the cores of this machine, or if launch has set
// OMP_NUM_THREADS.
std::optional<std::string> core_notice(const Plan& plan, const Machine& machine,
                                       const Environment& inherited);

std::string plan_as_text(const Plan& plan);
std::string plan_as_json(const Plan& plan);

}  // namespace muster::launcher
