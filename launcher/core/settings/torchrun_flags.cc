#include "launcher/core/settings/flags.h"

namespace muster::launcher {

namespace {

using enum Treatment;

// torchrun's flags except those that Muster has as well, in the order of torchrun's documentation.
constexpr Flag kTorchrunFlags[] = {
    {"nnodes", 0, "N", kAlias, "nodes"},
    {"nproc-per-node", 0, "M", kAlias, "gpus-per-node"},
    {"shutdown-timeout", 0, "SECONDS", kAlias, "grace"},
    {"rdzv-id", 0, "NAME", kOption,
     "The workers' TORCHELASTIC_RUN_ID (default: the job's name), and the prefix of the job's name."},
    {"standalone", 0, "", kOption, "Ignore --rdzv-endpoint, --master-addr, --master-port and --node-rank."},
    {"node-rank", 0, "N", kOption, "Only 0: one launcher starts all nodes."},
    {"master-addr", 0, "HOST", kOption, "Only this machine, unless --hosts is given."},
    {"rdzv-endpoint", 0, "HOST:PORT", kOption,
     "Only this machine, unless --hosts is given. "
     "With the static backend its port is used as --master-port."},
    {"rdzv-backend", 0, "NAME", kNoEffect, "the launcher assigns the ranks without a rendezvous"},
    {"rdzv-conf", 0, "K=V", kNoEffect, "the launcher assigns the ranks without a rendezvous"},
    {"master-port", 0, "PORT", kOption,
     "Port of the workers' store, with the static backend (default: a free one for each attempt)."},
    {"local-addr", 0, "HOST", kNoEffect, "--interface says where nodes reach each other"},
    {"monitor-interval", 0, "SECONDS", kNoEffect, "launch sees at once when a worker ends"},
    {"start-method", 0, "NAME", kNoEffect, "workers are programs, not functions"},
    {"event-log-handler", 0, "NAME", kNoEffect,
     "events.jsonl and report.json in the job's log directory record what happened"},
    {"signals-to-handle", 0, "NAMES", kNoEffect,
     "INT, TERM, HUP and QUIT all stop the job: the workers get TERM"},
    {"log-line-prefix-template", 0, "TEMPLATE", kOption,
     "Prefix of each line that is shown: text with ${role_name}, ${local_rank}, ${rank}, ${hostname}."},
    {"run-path", 0, "", kOption,
     "The program is the path of a Python script, even if its name does not end in .py."},
    {"logs-specs", 0, "NAME", kNoEffect,
     "`default` is the only value; --log-dir and --redirects say where logs go"},
    {"numa-binding", 0, "KIND", kUnsupported, "use `launch ... -- numactl --localalloc PROGRAM`"},
    {"virtual-local-rank", 0, "", kOption,
     "Set LOCAL_RANK to 0 for every worker, and CUDA_VISIBLE_DEVICES to its one GPU."},
    {"print-completion", 0, "bash|zsh|fish", kOption,
     "Print launch's completion script, as `launch completion` does."},
};

}  // namespace

std::span<const Flag> torchrun_flags() {
  return kTorchrunFlags;
}

}  // namespace muster::launcher
