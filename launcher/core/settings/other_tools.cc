#include "launcher/core/settings/other_tools.h"

#include <algorithm>
#include <span>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

struct Purpose {
  std::string_view text;
  std::string_view names;  // separated by spaces
};

// Some programs that people do start on workers (env, sh, tail, timeout) are missing here on purpose.
constexpr Purpose kWords[] = {
    {"to stop a job: `launch cancel`", "kill stop delete terminate abort down"},
    {"to stop a job: `launch cancel`; to delete the logs of finished jobs: `launch clean`", "rm remove"},
    {"to list the jobs: `launch ps`", "ls list jobs queue history squeue"},
    {"to see a running job's nodes: `launch nodes`; to test hosts: `launch check --hosts HOSTS`", "sinfo"},
    {"to see how a job ended: `launch report`", "sacct"},
    {"to see a running job: `launch status`; to see how a job ended: `launch report`",
     "describe inspect get show info"},
    {"to watch a running job: `launch top`", "watch stats"},
    {"to see what a running job prints: `launch logs -f`", "attach"},
    {"to wait for a job's end: `launch logs -f`", "wait"},
    {"to see what each rank is doing: `launch dump`; "
     "to put a command before a rank's program: `launch --wrap RANKS:COMMAND PROGRAM`",
     "exec debug"},
    {"to start a job: `launch PROGRAM`", "start submit create"},
    {"to start a job again: the same command line, which resumes from --checkpoint-dir",
     "restart resume requeue"},
    {"to add hosts to a running job: `launch nodes add`", "scale"},
    {"to print the version: `launch --version`", "version"},
};

constexpr Purpose kFlagsOfRun[] = {
    {"for the number of workers give --gpus-per-node, and --nodes if there are several nodes",
     "n np ntasks num-procs num-processes nprocs num-workers world-size"},
    {"for the number of workers on each node give --gpus-per-node",
     "ntasks-per-node tasks-per-node ppn npernode procs-per-node processes-per-node ranks-per-node num-gpus num-gpus-per-node devices nproc-per-machine gres"},
    {"the ranks of a node follow each other; for the number of workers on each node give --gpus-per-node",
     "map-by"},
    {"to bind workers to cores give --wrap all:'numactl ...'", "bind-to cpu-bind"},
    {"for the number of a sweep's trials: `launch sweep run --trials N`", "num-samples"},
    {"for the number of nodes give --nodes", "N num-nodes num-machines node-count num-hosts"},
    {"for a number of nodes that may change give --nodes MIN:MAX",
     "min-nodes max-nodes min-np max-np elastic"},
    {"for a limit of each step give --hang-limit",
     "step-timeout hang-timeout watchdog-timeout stall-timeout"},
    {"for a limit of the whole job give --time-limit; for a limit of each step --hang-limit", "timeout"},
    {"for a limit of the whole job give --time-limit", "walltime job-timeout max-time max-duration"},
    {"for the number of restarts give --max-restarts",
     "retries max-retries restarts retry backoff-limit max-failures"},
    {"for the port of the workers' store give --master-port", "port main-process-port"},
    {"for other machines give --hosts; for workers on this machine only --gpus-per-node",
     "H nodelist nodefile host-list"},
    {"for a file with the hosts give --hostfile", "machinefile machine-file host-file"},
    {"one launch starts the workers of all machines, and gives each its rank: name the machines with --hosts",
     "rank machine-rank"},
    {"for spare nodes give --spare-nodes", "spares hot-spares standby"},
    {"to set a variable for the workers give --env", "e x export environment"},
    {"for a directory in the containers give --mount", "v volume"},
    {"for a job's name give --rdzv-id", "J name job-name job-id"},
    {"for the checkpoints' directory give --checkpoint-dir", "ckpt ckpt-dir resume resume-from"},
    {"for the logs' directory give --log-dir", "o output-dir"},
};
constexpr Purpose kFlagsOfLogs[] = {{"for the last lines give --tail", "n lines"}};
constexpr Purpose kFlagsOfCancel[] = {{"to kill the workers at once give --now", "9 f force kill"}};
constexpr Purpose kFlagsOfStatus[] = {{"to watch a job use `launch top`", "w watch f follow n interval"}};

std::optional<std::string_view> purpose_in(std::span<const Purpose> table, std::string_view name) {
  for (const Purpose& purpose : table) {
    if (has_word(purpose.names, name)) return purpose.text;
  }
  return std::nullopt;
}

constexpr std::string_view kLaunchers =
    "torchrun srun mpirun mpiexec deepspeed accelerate horovodrun sbatch salloc qsub bsub";

}  // namespace

bool is_launcher(std::string_view word) {
  return has_word(kLaunchers, word);
}

std::optional<std::string_view> purpose_of_word(std::string_view word) {
  return purpose_in(kWords, word);
}

std::optional<std::string_view> purpose_of_flag(std::string_view owner, std::string_view flag) {
  if (owner == "launch") return purpose_in(kFlagsOfRun, flag);
  if (owner == "launch logs") return purpose_in(kFlagsOfLogs, flag);
  if (owner == "launch cancel") return purpose_in(kFlagsOfCancel, flag);
  if (owner == "launch status") return purpose_in(kFlagsOfStatus, flag);
  return std::nullopt;
}

}  // namespace muster::launcher
