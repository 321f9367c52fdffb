#include "launcher/core/settings/flags.h"

#include <algorithm>

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kOwnFlags[] = {
    {"nodes", 0, "N", kOption,
     "Number of nodes; each gets one agent (default 1, or all hosts). Without --hosts all run on this "
     "machine. MIN:MAX: go on with fewer, "
     "at least MIN, when one is lost; the next restart grows again. A C++ training's steps stay the same if "
     "its DataLoader has a global_batch_size.",
     "workers"},
    {"hosts", 0, "HOSTS", kOption,
     "Machines for the nodes, by number: [USER@]HOST[:SLOTS] or HOST:PORT:SLOTS, separated by commas; n[0-3] "
     "are four names, [::1] is an IPv6 address. All are used, or the first --nodes, and the others are "
     "spares. SLOTS: workers there without --gpus-per-node.",
     "hosts"},
    {"hostfile", 0, "FILE", kOption,
     "The same from a file, as Open MPI, DeepSpeed, MPICH or Slurm have it: `HOST slots=2`, `HOST:2`, or "
     "names "
     "alone.",
     "hosts"},
    {"include", 0, "NAMES", kOption, "Use these of the hosts only: a,n[0-3].", "hosts"},
    {"exclude", 0, "NAMES", kOption, "Do not use these of the hosts.", "hosts"},
    {"bootstrap", 0, "local|ssh|exec|docker", kOption,
     "How agents are started (default: ssh with hosts, exec with --exec, docker with --image alone, else "
     "local).",
     "hosts"},
    {"exec", 0, "COMMAND", kOption,
     "Start agents by this command in place of ssh: 'lxc exec {host} --'. It is split into words, {host} "
     "stands for the host's name, and no shell reads it here.",
     "hosts"},
    {"ssh-parallel", 0, "K", kOption, "Start at most so many agents at a time (default 32).", "hosts"},
    {"remote-agent", 0, "PATH", kOption,
     "The agent on every host; without it, it is copied to ~/.cache/muster where it is not there.", "hosts"},
    {"sync", 0, "DIR", kOption,
     "Copy this directory to the same place on every host before the start, by rsync. Nothing is deleted "
     "there. May be repeated.",
     "hosts"},
    {"connect-timeout", 0, "DURATION", kOption,
     "A host that does not answer for so long is given up (default 10).", "hosts"},
    {"start-timeout", 0, "DURATION", kOption,
     "The job starts so long after the last node that came, if enough are there: spares, or MIN of MIN:MAX "
     "(default 30).",
     "hosts"},
    {"listen", 0, "ADDRESSES", kOption,
     "Addresses of this machine where agents connect to (default: all of interfaces in use).", "hosts"},
    {"interface", 0, "INTERFACE", kOption,
     "Where the nodes reach each other: eth0, or 10.0.0.0/8 (default: found out).", "hosts"},
    {"image", 0, "IMAGE", kOption,
     "Run nodes in containers of this image, which needs nothing of Muster's: without --hosts, each node is "
     "a "
     "container of this machine's Docker engine; with --hosts, each host's agent runs in one.",
     "containers"},
    {"pull", 0, "missing|always|never", kOption,
     "When the image is fetched from its registry, with the credentials of `docker login` (default missing).",
     "containers"},
    {"mount", 0, "SRC:DST[:ro]", kOption,
     "Show a directory, a file or a volume in the containers. The working directory, the logs and "
     "--checkpoint-dir are seen without it, where they are here. May be repeated.",
     "containers"},
    {"shm-size", 0, "BYTES", kOption,
     "Size of /dev/shm, which loaders and NCCL use (default: half of the memory).", "containers"},
    {"memory", 0, "BYTES", kOption,
     "Memory of a container, such as 16G; what takes more is killed, class out_of_memory (default: no "
     "limit).",
     "containers"},
    {"cpus", 0, "N", kOption, "Cores that a container may use, such as 4 or 1.5 (default: all).",
     "containers"},
    {"gpus", 0, "all|N|device=IDS", kOption,
     "GPUs that a container sees, as `docker run --gpus` takes them: all, each N of its own, or device=0,1 "
     "(default: none).",
     "containers"},
    {"network", 0, "NAME", kOption,
     "Network of the containers, one of the engine's or host (default: one of the job's own; bridge for one "
     "container).",
     "containers"},
    {"container-user", 0, "UID[:GID]", kOption,
     "User in the containers, or a name of the image's (default: your uid and gid).", "containers"},
    {"read-only", 0, "", kOption, "The image's files cannot be changed; /tmp and /run are in memory.",
     "containers"},
    {"container-arg", 0, "NAME=VALUE", kOption,
     "Give this option of `docker run` to the containers: add-host, cap-add, cpuset-cpus, device, dns, "
     "group-add, ipc, label, runtime, security-opt, sysctl, tmpfs or ulimit. May be repeated.",
     "containers"},
    {"spare-nodes", 0, "K", kOption,
     "Further nodes whose agents wait, ready to take the place of lost ones (default 0).", "workers"},
    {"gpus-per-node", 0, "M", kOption,
     "Workers on each node: a number, or auto, gpu, cpu: what the machine has, shared by its nodes (default "
     "1, or the host's slots).",
     "workers"},
    {"device", 0, "auto|cuda|cpu", kOption,
     "cuda: fail unless each worker can have a GPU; cpu: show workers none (default auto).", "workers"},
    {"backend", 0, "gloo|nccl|mpi|shm", kOption,
     "What the process groups of programs that use the runtime are made of (default: what the program says, "
     "else Gloo, and NCCL where there are GPUs). A program without the runtime, such as a Python script, "
     "chooses its own, and takes no notice.",
     "workers"},
    {"max-restarts", 0, "K", kOption,
     "Restart all workers after a failure, at most K times within --restart-window (default 3; torchrun's is "
     "0).",
     "recovery"},
    {"restart-window", 0, "DURATION", kOption, "Restarts longer ago do not count (default 3600).",
     "recovery"},
    {"restart-delay", 0, "DURATION", kOption,
     "Wait so long before the second restart in a row after the program's own failure without progress, then "
     "twice as long each time, 30 s at most (default 1). A restart after a kill is immediate; one that could "
     "not begin is waited for at once.",
     "recovery"},
    {"no-progress-limit", 0, "K", kOption,
     "Stop after K failures in a row that are the same, without a new checkpoint or a further step (default "
     "3; 0: never). One that comes before the first step is tried once more only.",
     "recovery"},
    {"node-exclusion", 0, "DURATION", kOption,
     "Leave out a node that was lost twice within --restart-window for so long, if the job can do without it "
     "(default 600; 0: never).",
     "recovery"},
    {"preemption-grace", 0, "DURATION", kOption,
     "Time that workers have to save and leave after SIGTERM, SIGUSR1, Ctrl-C or launch cancel, if they can "
     "(default 30).",
     "recovery"},
    {"time-limit", 0, "[[HH:]MM:]SS", kOption,
     "Stop the job after this time; workers that can are told --preemption-grace before it, so that they "
     "save.",
     "recovery"},
    {"checkpoint-dir", 0, "DIR", kOption,
     "Where the workers keep checkpoints; attempts resume from the newest complete one.", "recovery"},
    {"memory-tier", 0, "BYTES", kOption,
     "Hold checkpoints of .memory_every in so much memory of each node, such as 16G, for when a worker or a "
     "node is lost (default: none).",
     "recovery"},
    {"take-over", 0, "", kOption,
     "Use --checkpoint-dir although another launch on this machine does: that one stops.", "recovery"},
    {"log-dir", 0, "DIR", kOption,
     "Logs and report.json go to DIR/JOB (default ${XDG_STATE_HOME:-~/.local/state}/muster).", "output"},
    {"env", 0, "K=V", kOption,
     "Set a variable for the workers; K alone passes on its value here. May be repeated.", "workers"},
    {"env-file", 0, "FILE", kOption,
     "Set the variables of a file for the workers: lines K=V or K, # begins a comment. --env wins. May be "
     "repeated.",
     "workers"},
    {"config", 0, "FILE", kOption,
     "Read flags from a YAML file: `nodes: 2`, ..., and `program: [./train, --lr, 0.1]`. `~` and `$NAME` "
     "stand "
     "for what they are here; paths are relative to the current directory, not to the file.",
     "general"},
    {"grace", 0, "DURATION", kOption, "Time that workers have between TERM and KILL (default 10).",
     "recovery"},
    {"controller-grace", 0, "DURATION", kOption,
     "Time that workers live on when this launcher is gone (default 30).", "recovery"},
    {"silence-limit", 0, "DURATION", kOption, "An agent that says nothing for so long is lost (default 10).",
     "hangs"},
    {"heartbeat-limit", 0, "DURATION", kOption,
     "A worker that sent heartbeats, and then none for so long, hangs (default 30; 0: not watched).",
     "hangs"},
    {"hang-limit", 0, "DURATION", kOption,
     "A step or section may take so long until its usual time is known (default 600; 0: not watched).",
     "hangs"},
    {"uninterruptible-limit", 0, "DURATION", kOption,
     "A worker that is in uninterruptible sleep (state D) for so long hangs, whatever program it runs "
     "(default 0: not watched).",
     "hangs"},
    {"output-stall", 0, "DURATION", kOption,
     "Workers wait for a pipe or a log file that takes nothing of their output at most so long; then lines "
     "are left out and counted (default 30; 0: they do not wait).",
     "output"},
    {"log-limit", 0, "BYTES", kOption,
     "Keep so much of what a rank prints in an attempt, such as 512M or 2G; the oldest parts are removed "
     "(default: all).",
     "output"},
    {"warm", 0, "", kOption,
     "Fork workers from a loaded copy of the program (default: if it links Muster::warm_start).", "workers"},
    {"no-warm", 0, "", kOption, "Execute every worker, although the program could be forked.", "workers"},
    {"redirects", 'r', "STREAMS", kOption,
     "Keep output off the terminal: 1 stdout, 2 stderr, 3 both, or by local rank: 0:3,1:1. Files are always "
     "written.",
     "output"},
    {"tee", 't', "STREAMS", kOption, "Show these streams although --redirects names them; same values.",
     "output"},
    {"local-ranks-filter", 0, "RANKS", kOption, "Show the output of these local ranks only: 0,1.", "output"},
    {"duplicate-stdout-filters", 0, "TEXTS", kOption,
     "Copy the lines in which one of these texts occurs to attempt_A/filtered_stdout.log: apple,pear (,, is "
     "a "
     "comma).",
     "output"},
    {"duplicate-stderr-filters", 0, "TEXTS", kOption, "The same for stderr: attempt_A/filtered_stderr.log.",
     "output"},
    {"fold", 0, "", kOption,
     "Show a line once that several ranks print within 50 ms (default: where stdout is a terminal).",
     "output"},
    {"no-fold", 0, "", kOption, "Show every rank's lines, on a terminal too.", "output"},
    {"stdin", 0, "RANK", kOption,
     "This command's standard input goes to this rank (default: none; of an MPI program: 0); the others have "
     "/dev/null. A restart goes on with what has not been read.",
     "workers"},
    {"wrap", 0, "RANKS:COMMAND", kOption,
     "Put a command before the program of these ranks: 0:'gdb --args', 0,4-7:strace, all:'nice -n 5'. It is "
     "split into words, and no shell reads it. May be repeated. A rank that also has --stdin waits for a "
     "person: "
     "hangs are then watched for only under limits that are given.",
     "workers"},
    {"mpi", 0, "auto|pmix|pmi|none", kOption,
     "How an MPI program's ranks find each other: pmix as Open MPI's do, pmi as MPICH's; none: every rank is "
     "alone in MPI_COMM_WORLD (default auto: by the library that the program needs; none for scripts). One "
     "that the program's library does not speak leaves each rank alone, too: a line says so.",
     "workers"},
    {"trace", 0, "", kOption,
     "Each rank that uses the runtime writes down what it does and when: `launch trace` makes one file of "
     "it, "
     "which ui.perfetto.dev shows.",
     "output"},
    {"module", 'm', "", kOption, "The program is a Python module.", "workers"},
    {"no-python", 0, "", kOption, "Execute the program itself, although its name ends in .py.", "workers"},
    {"role", 0, "NAME", kOption, "Name of the workers' role (default \"default\").", "workers"},
    {"control", 0, "auto|socket|tcp|stdio", kOption,
     "How agents are spoken to: inherited sockets on this machine, TCP with TLS, or the host shell's stdin "
     "and "
     "stdout. auto: sockets, and with hosts TCP where they can connect, else stdio (default auto).",
     "hosts"},
    {"store", 0, "agent|worker", kOption,
     "Who serves the workers' c10d store: the first agent, or rank 0 (default agent).", "workers"},
    {"dry-run", 0, "", kOption, "Print what would be started, and touch nothing.", "general"},
    {"json", 0, "", kOption,
     "Print the report (or the plan) as JSON on stdout; the workers' output goes to stderr.", "output"},
    {"quiet", 0, "", kOption, "Print only the workers' output and errors.", "output"},
    {"version", 0, "", kOption, "Print the version.", "general"},
    {"help", 'h', "", kOption, "Print this help.", "general"},
};

}  // namespace

std::span<const Flag> own_flags() {
  return kOwnFlags;
}

const Flag* find_flag(std::string_view name) {
  for (const auto flags : {own_flags(), torchrun_flags()}) {
    const auto found = std::ranges::find(flags, name, &Flag::name);
    if (found != flags.end()) return &*found;
  }
  return nullptr;
}

std::string_view option_name(const Flag& flag) {
  return flag.treatment == kAlias ? flag.text : flag.name;
}

}  // namespace muster::launcher
