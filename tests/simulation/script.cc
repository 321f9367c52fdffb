#include "tests/simulation/script.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "launcher/core/text/words.h"

namespace muster::simulation {

using namespace std::chrono_literals;
using launcher::in_seconds;
using launcher::Phase;

namespace {

struct Named {
  FaultKind kind;
  std::string_view name;
  FaultTraits traits;
};

constexpr FaultTraits kOfWorker{.of_worker = true};
constexpr FaultTraits kStall{.of_worker = true, .stall = true};
constexpr FaultTraits kOfAgent{.of_agent = true};
constexpr FaultTraits kSilent{.of_agent = true, .silent = true};
constexpr FaultTraits kOfStart{.of_agent = true, .waits = true};
constexpr FaultTraits kSilentStart{.of_agent = true, .silent = true, .waits = true};
constexpr FaultTraits kRefusal{.refusal = true, .waits = true};
constexpr FaultTraits kHarmless{.harmless = true};
constexpr FaultTraits kHarmlessToAgent{.of_agent = true, .harmless = true};
constexpr FaultTraits kEndsLaunch{.ends_launch = true};

constexpr Named kNamed[] = {
    {FaultKind::kWorkerDies, "worker dies", kOfWorker},
    {FaultKind::kWorkerLeavesEarly, "worker leaves early", kOfWorker},
    {FaultKind::kOutOfMemory, "out of memory", kOfWorker},
    {FaultKind::kWorkerStalls, "worker stalls", kStall},
    {FaultKind::kWorkerStopped, "worker stopped", kStall},
    {FaultKind::kWorkerUnkillable, "worker unkillable", kStall},
    {FaultKind::kGpuFails, "GPU fails", kStall},
    {FaultKind::kAgentKilled, "agent killed", kOfAgent},
    {FaultKind::kAgentPauses, "agent pauses", kHarmlessToAgent},
    {FaultKind::kAgentFreezes, "agent freezes", kSilent},
    {FaultKind::kAgentNotStarted, "agent not started", kOfStart},
    {FaultKind::kAgentDoesNotCall, "agent does not call", kSilentStart},
    {FaultKind::kAgentOfOtherVersion, "agent of another version", kOfStart},
    {FaultKind::kLinkCloses, "link closes", kOfAgent},
    {FaultKind::kLinkFallsSilent, "link falls silent", kSilent},
    {FaultKind::kLinkIsCutOneWay, "link is cut one way", kSilent},
    {FaultKind::kLinkClogs, "link clogs", kHarmlessToAgent},
    {FaultKind::kLinkIsGarbled, "link is garbled", kOfAgent},
    {FaultKind::kStranger, "stranger", kHarmlessToAgent},
    {FaultKind::kAttemptRefused, "attempt refused", kRefusal},
    {FaultKind::kExecutionRefused, "execution refused", kRefusal},
    {FaultKind::kLogDiskBlocks, "log disk blocks", kHarmlessToAgent},
    {FaultKind::kDatagramsLost, "datagrams lost", kHarmlessToAgent},
    {FaultKind::kClockDrifts, "clock drifts", kHarmless},
    {FaultKind::kLineageLate, "lineage late", kHarmless},
    {FaultKind::kLineageFails, "lineage fails", kHarmless},
    {FaultKind::kSecondLauncher, "second launcher", kEndsLaunch},
    {FaultKind::kLauncherPauses, "launcher pauses", kHarmless},
    {FaultKind::kLauncherDies, "launcher dies", kEndsLaunch},
    {FaultKind::kLauncherFallsSilent, "launcher falls silent", kEndsLaunch},
    {FaultKind::kInterrupt, "interrupt", kEndsLaunch},
    {FaultKind::kCancel, "cancel", kEndsLaunch},
    {FaultKind::kNotice, "notice", kEndsLaunch},
    {FaultKind::kSignalPassedOn, "signal passed on", kHarmless},
};
static_assert(std::size(kNamed) == kFaultKindCount);

constexpr std::string_view kPhaseNames[] = {"gathering",  "beginning", "preparing", "running", "dumping",
                                            "preempting", "stopping",  "leaving",   "done"};
static_assert(std::size(kPhaseNames) == launcher::kPhaseCount);

Duration length_of(FaultKind kind, Chance& chance) {
  switch (kind) {
    case FaultKind::kAgentPauses: return chance.between(50ms, 800ms);
    case FaultKind::kAgentFreezes: return chance.between(3s, 9s);
    case FaultKind::kLinkIsCutOneWay: return chance.between(3s, 20s);
    case FaultKind::kLinkClogs: return chance.between(50ms, 800ms);
    case FaultKind::kWorkerUnkillable: return chance.between(1s, 40s);
    case FaultKind::kLogDiskBlocks: return chance.between(100ms, 40s);
    case FaultKind::kDatagramsLost: return chance.between(1s, 8s);
    case FaultKind::kLineageLate: return chance.between(100ms, 8s);
    case FaultKind::kLauncherPauses: return chance.between(100ms, 5s);
    default: return {};
  }
}

Fault fault_of(FaultKind kind, Chance& chance, int agent_count) {
  return {.kind = kind,
          .node = chance.below(agent_count),
          .length = length_of(kind, chance),
          .choice = chance.below(12)};
}

bool needs_directory(FaultKind kind) {
  return kind == FaultKind::kLineageLate || kind == FaultKind::kLineageFails ||
         kind == FaultKind::kSecondLauncher;
}

FaultKind any_kind(Chance& chance, const Script& script) {
  for (;;) {
    const auto kind = static_cast<FaultKind>(chance.below(static_cast<int>(kFaultKindCount)));
    if (script.checkpoints || !needs_directory(kind)) return kind;
  }
}

// While the job recovers from the previous fault.
Fault second_fault(Chance& chance, const Script& script) {
  Fault fault = fault_of(any_kind(chance, script), chance, script.node_count + script.spare_nodes);
  constexpr Phase kPhases[] = {Phase::kGathering, Phase::kBeginning, Phase::kPreparing, Phase::kRunning,
                               Phase::kStopping,  Phase::kStopping,  Phase::kLeaving};
  if (chance.one_in(2)) {
    fault.gap = chance.between(0ms, 600ms);
  } else {
    fault.phase = kPhases[chance.below(static_cast<int>(std::size(kPhases)))];
    fault.after = chance.between(0ms, 30ms);
  }
  return fault;
}

// By the seed's number, not by chance, so that the draws stay the same.
void choose_by_number(std::uint64_t seed, Script& script) {
  script.input = seed % 4 == 1;
  script.output = seed % 6 == 1;
  script.memory_tier = seed % 5 == 2;
  script.mpi = seed % 3 == 2;
  script.warm = seed % 7 == 3;
  script.gpus_keep_memory = seed % 7 == 5;
  script.blind = seed % 11 == 4;
  script.on_hosts = seed % 6 == 4;
}

}  // namespace

int Script::rank_count() const {
  int count = 0;
  for (int node = 0; node < node_count; ++node) count += room_of(node);
  return count;
}

std::string_view name_of(FaultKind kind) {
  return kNamed[static_cast<std::size_t>(kind)].name;
}

FaultTraits traits_of(FaultKind kind) {
  return kNamed[static_cast<std::size_t>(kind)].traits;
}

std::string describe(const Fault& fault) {
  std::string text = fmt::format("{} at node{}", name_of(fault.kind), fault.node);
  if (fault.length > 0s) text += fmt::format(" for {:.3f} s", in_seconds(fault.length));
  text += fmt::format(", variant {}; {:.3f} s after the one before", fault.choice, in_seconds(fault.gap));
  if (fault.phase) {
    text += fmt::format(", {:.3f} s into {}", in_seconds(fault.after),
                        kPhaseNames[static_cast<std::size_t>(*fault.phase)]);
  }
  return text;
}

Script long_script(std::uint64_t seed, int node_count, int workers_per_node) {
  Chance chance(seed, 1);
  Script script;
  script.node_count = node_count;
  script.workers_per_node = workers_per_node;
  script.min_nodes =
      chance.one_in(3) ? std::max(1, node_count - 1 - chance.below(std::max(1, node_count / 2))) : node_count;
  script.spare_nodes = chance.one_in(2) ? 1 + chance.below(2) : 0;
  script.max_restarts = 1000;
  script.length = 10min;
  script.until_faults_are_made = true;
  script.step = 5s;
  script.checkpoints = !chance.one_in(4);
  script.preemptible = chance.one_in(2);
  choose_by_number(seed, script);
  script.launch_again = true;
  script.some_survive_sigkill = chance.one_in(4);
  if (chance.one_in(3)) script.delays.most = chance.between(1ms, 20ms);
  script.drift = chance.one_in(2) ? 20e-6 : 100e-6;
  if (seed % 12 == 4 && node_count > 1) {
    script.min_nodes = std::min(script.min_nodes, node_count - 1);
    script.spare_nodes = 0;
    script.added_nodes = 2;
  }
  const int agent_count = node_count + script.spare_nodes;
  // At least ten must happen: an armed fault may find nothing to hit.
  for (int count = 11 + chance.below(4); count > 0; --count) {
    Fault fault = fault_of(any_kind(chance, script), chance, agent_count);
    fault.gap = chance.between(12s, 55s);
    if (!chance.one_in(6)) fault.phase = Phase::kRunning;
    script.faults.push_back(fault);
    while (chance.one_in(3)) script.faults.push_back(second_fault(chance, script));
  }
  return script;
}

Script short_script(std::uint64_t seed) {
  Chance chance(seed, 2);
  Script script;
  script.node_count = 1 + chance.below(4);
  script.workers_per_node = 1 + chance.below(4);
  script.min_nodes = chance.one_in(3) ? 1 + chance.below(script.node_count) : script.node_count;
  script.spare_nodes = chance.one_in(3) ? 1 + chance.below(2) : 0;
  script.checkpoints = chance.one_in(2);
  script.preemptible = chance.one_in(2);
  choose_by_number(seed, script);
  script.max_restarts = chance.below(4);
  script.drift = 20e-6;
  const int agent_count = script.node_count + script.spare_nodes;
  for (int count = chance.below(5); count > 0; --count) {
    Fault fault = fault_of(any_kind(chance, script), chance, agent_count);
    // Half of the faults are faults of workers, as in practice.
    if (chance.one_in(2)) fault = fault_of(static_cast<FaultKind>(chance.below(5)), chance, agent_count);
    // Launchers that end have tests of their own.
    if (traits_of(fault.kind).ends_launch) continue;
    constexpr Phase kPhases[] = {Phase::kGathering, Phase::kPreparing, Phase::kRunning,
                                 Phase::kRunning,   Phase::kRunning,   Phase::kLeaving};
    fault.phase = kPhases[chance.below(static_cast<int>(std::size(kPhases)))];
    fault.after = chance.between(0ms, *fault.phase == Phase::kRunning ? 1900ms : 10ms);
    fault.length = std::min(fault.length, Duration(4s));
    script.faults.push_back(fault);
    if (!chance.one_in(3)) continue;
    Fault second = second_fault(chance, script);
    if (!traits_of(second.kind).ends_launch) script.faults.push_back(second);
  }
  return script;
}

std::string describe(const Script& script) {
  std::string text = fmt::format(
      "{} nodes (at least {}) and {} spare, {} ranks each, {} restarts, {}, {}, delays to {:.1f} ms, drift "
      "{:.0f} ppm\n",
      script.node_count, script.min_nodes, script.spare_nodes, script.workers_per_node, script.max_restarts,
      script.checkpoints ? "checkpoints" : "no checkpoint directory",
      script.preemptible ? "preemptible" : "not preemptible", in_seconds(script.delays.most) * 1e3,
      script.drift * 1e6);
  constexpr std::pair<bool Script::*, std::string_view> kHabits[] = {
      {&Script::input, "input"},
      {&Script::output, "output"},
      {&Script::memory_tier, "memory tier"},
      {&Script::mpi, "MPI"},
      {&Script::warm, "templates"},
      {&Script::gpus_keep_memory, "GPU memory that is kept"},
      {&Script::blind, "leftovers that are not always seen"},
      {&Script::some_survive_sigkill, "leftovers that survive SIGKILL"},
      {&Script::on_hosts, "hosts with unequal slots"}};
  for (const auto& [habit, name] : kHabits) {
    if (script.*habit) text += fmt::format("  {}\n", name);
  }
  if (script.added_nodes > 0) text += fmt::format("  {} hosts are added\n", script.added_nodes);
  for (const Fault& fault : script.faults) text += "  " + describe(fault) + "\n";
  return text;
}

}  // namespace muster::simulation
