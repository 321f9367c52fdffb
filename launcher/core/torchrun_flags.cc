#include "launcher/core/flags.h"

namespace muster::launcher {

namespace {

using enum Treatment;

// Those of torchrun's flags that are not ours as well, in the order of its documentation.
constexpr Flag kTorchrunFlags[] = {
    {"nnodes", 0, "N", kAlias, "nodes"},
    {"nproc-per-node", 0, "M", kAlias, "gpus-per-node"},
    {"shutdown-timeout", 0, "SECONDS", kAlias, "grace"},
    {"rdzv-id", 0, "NAME", kOption, "Begins the job's name."},
    {"standalone", 0, "", kOption, "Always so: all nodes are on this machine."},
    {"node-rank", 0, "N", kOption, "Only 0: one launcher starts all nodes."},
    {"master-addr", 0, "HOST", kOption, "Only this machine."},
    {"rdzv-endpoint", 0, "HOST:PORT", kOption, "Only this machine."},
    {"rdzv-backend", 0, "NAME", kNoEffect, "the launcher assigns the ranks, there is no rendezvous"},
    {"rdzv-conf", 0, "K=V", kNoEffect, "the launcher assigns the ranks, there is no rendezvous"},
    {"master-port", 0, "PORT", kNoEffect, "each attempt takes a free port"},
    {"local-addr", 0, "HOST", kNoEffect, "all nodes are on this machine"},
    {"monitor-interval", 0, "SECONDS", kNoEffect, "the end of a worker is seen at once"},
    {"start-method", 0, "NAME", kNoEffect, "workers are programs, not functions"},
    {"event-log-handler", 0, "NAME", kNoEffect,
     "events.jsonl and report.json in the job's log directory tell what happened"},
    {"signals-to-handle", 0, "NAMES", kNoEffect,
     "INT, TERM, HUP and QUIT all stop the job: the workers get TERM"},
    {"log-line-prefix-template", 0, "TEMPLATE", kNoEffect, "lines begin with node and rank: `node0:2: `"},
    {"run-path", 0, "", kUnsupported, "use `launch -- python3 -u FILE`"},
    {"logs-specs", 0, "NAME", kUnsupported, "use --log-dir and --redirects"},
    {"numa-binding", 0, "KIND", kUnsupported, "use `launch ... -- numactl --localalloc PROGRAM`"},
    {"virtual-local-rank", 0, "", kUnsupported, "use LOCAL_RANK, which counts the GPUs that a worker sees"},
    {"print-completion", 0, "SHELL", kUnsupported, "use `launch completion SHELL`"},
};

}  // namespace

std::span<const Flag> torchrun_flags() {
  return kTorchrunFlags;
}

}  // namespace muster::launcher
