// The script of a simulated job: its size, its options, and its faults in order. A plain value that a seed
// determines.
//
// A fault waits for the one before it. After `gap` it happens as soon as the job is in its phase and there is
// something to hit. So leaving one fault out does not stop the next ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job/reactions.h"
#include "tests/simulation/network.h"

namespace muster::simulation {

enum class FaultKind {
  // Faults of a worker.
  kWorkerDies,
  kWorkerLeavesEarly,  // exits with 0 while the others still train
  kOutOfMemory,        // the kernel kills it
  kWorkerStalls,       // the other ranks wait for it
  kWorkerStopped,      // stopped by SIGSTOP, or frozen with its cgroup
  kWorkerUnkillable,   // SIGKILL does not end it: it is stuck in the kernel
  kGpuFails,
  // Faults of an agent.
  kAgentKilled,
  kAgentPauses,   // stopped, and resumed before the silence limit
  kAgentFreezes,  // stopped for longer than the silence limit
  kAgentNotStarted,
  kAgentDoesNotCall,  // it starts, and never connects
  kAgentOfOtherVersion,
  // Faults of an agent's connection.
  kLinkCloses,
  kLinkFallsSilent,
  kLinkIsCutOneWay,
  kLinkClogs,  // for less than the silence limit
  kLinkIsGarbled,
  kStranger,  // a caller with the identity of an earlier incarnation
  // Faults of a node's program and disks.
  kAttemptRefused,    // the node refuses the next attempt
  kExecutionRefused,  // the node cannot execute its last worker; the others run
  kLogDiskBlocks,
  kDatagramsLost,
  kClockDrifts,
  // Faults of the checkpoint directory.
  kLineageLate,
  kLineageFails,
  kSecondLauncher,  // takes the directory over
  // Faults of the launcher, and actions of its user.
  kLauncherPauses,
  kLauncherDies,
  kLauncherFallsSilent,
  kInterrupt,
  kCancel,
  kNotice,
  kSignalPassedOn,
};
constexpr std::size_t kFaultKindCount = static_cast<std::size_t>(FaultKind::kSignalPassedOn) + 1;
std::string_view name_of(FaultKind kind);

// The properties of a kind of fault, for the verdict.
struct FaultTraits {
  bool of_worker = false;  // needs a worker; a verdict names its rank
  bool of_agent = false;   // needs an agent
  bool silent = false;     // noticed after the silence limit
  bool refusal = false;
  bool stall = false;
  bool waits = false;     // the fault is armed, and happens at the node's next start or attempt
  bool harmless = false;  // a verdict may not blame anything for it
  bool ends_launch = false;
};
FaultTraits traits_of(FaultKind kind);

struct Fault {
  FaultKind kind{};
  Duration gap{};                          // after the previous fault
  std::optional<launcher::Phase> phase{};  // nothing: as soon as the gap has passed
  Duration after{};  // since the phase began, or since the end of the gap, whichever is later
  int node = 0;
  Duration length{};  // of a temporary fault
  int choice = 0;     // the variant, from 0 to 11
};
std::string describe(const Fault& fault);

struct Script {
  int node_count = 2;
  int min_nodes = 2;  // fewer than node_count: elastic
  int spare_nodes = 0;
  int workers_per_node = 2;
  int max_restarts = 3;
  Duration length = std::chrono::seconds(2);  // of the training, faults and recoveries included
  bool until_faults_are_made = false;         // the training goes on until all faults have happened
  Duration step = std::chrono::milliseconds(200);
  int steps_per_commit = 3;
  bool checkpoints = true;            // the launcher knows the directory
  bool preemptible = false;           // the workers can save and leave on notice
  bool input = false;                 // the last rank gets the launcher's input
  bool output = false;                // ranks print a line at each step, and agents send logs to the launcher
  bool memory_tier = false;           // agents hold checkpoints in memory
  bool mpi = false;                   // agents serve an MPI program
  bool warm = false;                  // ranks are forked from templates, on nodes with a template
  bool gpus_keep_memory = false;      // GPUs keep the memory of killed workers for a while
  bool blind = false;                 // agents do not always see the workers' leftovers
  bool on_hosts = false;              // each node has its own host; the hosts have different numbers of slots
  int added_nodes = 0;                // the most hosts that the user adds while the job runs
  bool launch_again = false;          // a job that ended without success is launched again
  bool some_survive_sigkill = false;  // some leftovers do
  Delays delays;
  double drift = 0;  // the largest drift of clocks, in seconds per second
  std::vector<Fault> faults;

  // The node's workers; also for spares and added nodes.
  int room_of(int node) const {
    const bool smaller = on_hosts && node < node_count && node % 3 == 1 && workers_per_node > 1;
    return workers_per_node - (smaller ? 1 : 0);
  }
  int rank_count() const;  // on the nodes at the job's start
  int most_agents() const { return node_count + spare_nodes + added_nodes; }
};

// Ten virtual minutes and ten faults at least.
Script long_script(std::uint64_t seed, int node_count, int workers_per_node);
// A job of seconds, with few faults close together and few restarts.
Script short_script(std::uint64_t seed);
std::string describe(const Script& script);

}  // namespace muster::simulation
