// What is done to a simulated job: its size, its habits, and the faults, one after the other. A plain value
// that follows from a seed.
//
// A fault waits for the one before it: after `gap` it comes as soon as the job is in its phase and something
// can be hit. So a fault that is left out does not keep those behind it from coming.
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
  // Of a worker.
  kWorkerDies,
  kWorkerLeavesEarly,  // with 0, while the others still train
  kOutOfMemory,        // the kernel kills it
  kWorkerStalls,       // and all others wait for it
  kWorkerStopped,      // by SIGSTOP, or frozen with its cgroup
  kWorkerUnkillable,   // it dies, but for the kernel, which holds it
  kGpuFails,
  // Of an agent.
  kAgentKilled,
  kAgentPauses,   // stopped, and resumed before anybody can mind
  kAgentFreezes,  // stopped for longer than the silence limit
  kAgentNotStarted,
  kAgentDoesNotCall,  // it starts, and never connects
  kAgentOfOtherVersion,
  // Of its connection.
  kLinkCloses,
  kLinkFallsSilent,
  kLinkIsCutOneWay,
  kLinkClogs,  // for less than the silence limit
  kLinkIsGarbled,
  kStranger,  // with the identity of an earlier incarnation
  // Of a node's program and disks.
  kAttemptRefused,    // the next, by the node
  kExecutionRefused,  // of its last worker, the others run
  kLogDiskBlocks,
  kDatagramsLost,
  kClockDrifts,
  // Of the checkpoint directory.
  kLineageLate,
  kLineageFails,
  kSecondLauncher,  // takes the directory over
  // Of the launcher, and by its user.
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

// What a kind of fault means for whom a verdict may name.
struct FaultTraits {
  bool of_worker = false;  // needs one, and names its rank
  bool of_agent = false;   // needs one
  bool silent = false;     // noticed after the silence limit
  bool refusal = false;
  bool stall = false;
  bool waits = false;     // is armed, and comes true with the node's next start or attempt
  bool harmless = false;  // nobody may be blamed for it
  bool ends_launch = false;
};
FaultTraits traits_of(FaultKind kind);

struct Fault {
  FaultKind kind{};
  Duration gap{};                          // after the one before
  std::optional<launcher::Phase> phase{};  // any: as soon as the gap has passed
  Duration after{};                        // since that phase began, or since the gap's end if that is later
  int node = 0;
  Duration length{};  // of what does not last for ever
  int choice = 0;     // of its variants, from 0 to 11
};
std::string describe(const Fault& fault);

struct Script {
  int node_count = 2;
  int min_nodes = 2;  // fewer than node_count: elastic
  int spare_nodes = 0;
  int workers_per_node = 2;
  int max_restarts = 3;
  Duration length = std::chrono::seconds(2);  // of the training, faults and recoveries included
  bool until_faults_are_made = false;         // and the training goes on until all faults have come
  Duration step = std::chrono::milliseconds(200);
  int steps_per_commit = 3;
  bool checkpoints = true;            // the launcher knows the directory
  bool preemptible = false;           // the workers can save and leave on notice
  bool input = false;                 // the last rank gets the launcher's
  bool output = false;                // ranks print a line at each step, and logs are sent to the launcher
  bool memory_tier = false;           // agents hold what their workers save
  bool mpi = false;                   // agents serve an MPI program
  bool warm = false;                  // ranks are forked from templates, where these come to be
  bool gpus_keep_memory = false;      // of workers that were killed, for a while
  bool blind = false;                 // agents cannot always tell what workers left
  bool on_hosts = false;              // each node has a host of its own, and not all have as many slots
  int added_nodes = 0;                // hosts that the user adds while it runs, at most
  bool launch_again = false;          // a job that ended without success is launched again
  bool some_survive_sigkill = false;  // of what workers leave
  Delays delays;
  double drift = 0;  // of the clocks, at most, in seconds a second
  std::vector<Fault> faults;

  // Workers of the node, spares and added ones too.
  int room_of(int node) const {
    const bool smaller = on_hosts && node < node_count && node % 3 == 1 && workers_per_node > 1;
    return workers_per_node - (smaller ? 1 : 0);
  }
  int rank_count() const;  // of the nodes that the job begins with
  int most_agents() const { return node_count + spare_nodes + added_nodes; }
};

// Ten virtual minutes and ten faults at least.
Script long_script(std::uint64_t seed, int node_count, int workers_per_node);
// A job of seconds, with few faults close together and few restarts.
Script short_script(std::uint64_t seed);
std::string describe(const Script& script);

}  // namespace muster::simulation
