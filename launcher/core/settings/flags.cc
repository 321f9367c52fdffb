#include "launcher/core/settings/flags.h"

#include <algorithm>

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kOwnFlags[] = {
    {"nodes", 0, "N", kOption,
     "Number of nodes; each gets one agent (default 1, or all hosts). "
     "Without --hosts all nodes run on this machine. "
     "MIN:MAX makes the job elastic: when nodes are lost it continues with fewer, at least MIN, "
     "and grows again at the next restart. "
     "The steps of a C++ training stay the same if its DataLoader has a global_batch_size.",
     "workers"},
    {"hosts", 0, "HOSTS", kOption,
     "Machines for the nodes, in order: [USER@]HOST[:SLOTS] or HOST:PORT:SLOTS, separated by commas; "
     "n[0-3] is four names, [::1] is an IPv6 address. All hosts are used; "
     "with --nodes, the first N, and the others are spares. "
     "SLOTS is the number of workers there, unless --gpus-per-node is given.",
     "hosts"},
    {"hostfile", 0, "FILE", kOption,
     "Read the hosts from a file as Open MPI, DeepSpeed, MPICH or Slurm write it: `HOST slots=2`, "
     "`HOST:2`, or names alone.",
     "hosts"},
    {"include", 0, "NAMES", kOption, "Use only these of the hosts: a,n[0-3].", "hosts"},
    {"exclude", 0, "NAMES", kOption, "Do not use these of the hosts.", "hosts"},
    {"bootstrap", 0, "local|ssh|exec|docker", kOption,
     "How agents are started (default: ssh with hosts, exec with --exec, docker with --image alone, "
     "else local).",
     "hosts"},
    {"exec", 0, "COMMAND", kOption,
     "Start agents with this command instead of ssh: 'lxc exec {host} --'. "
     "{host} is replaced by the host's name. The command is split into words; no shell reads it here.",
     "hosts"},
    {"ssh-parallel", 0, "K", kOption, "Start at most K agents at a time (default 32).", "hosts"},
    {"remote-agent", 0, "PATH", kOption,
     "Path of the agent on every host. Without it, "
     "launch copies the agent to ~/.cache/muster on hosts that lack it.",
     "hosts"},
    {"sync", 0, "DIR", kOption,
     "Copy this directory to the same path on every host before the start, with rsync. "
     "Nothing is deleted there. May be repeated.",
     "hosts"},
    {"connect-timeout", 0, "DURATION", kOption,
     "Give up on a host that does not answer within this time (default 10).", "hosts"},
    {"start-timeout", 0, "DURATION", kOption,
     "With spare nodes or MIN:MAX: wait this long after the latest node joined, "
     "then start if enough nodes are there (default 30).",
     "hosts"},
    {"listen", 0, "ADDRESSES", kOption,
     "Addresses of this machine that agents connect to (default: "
     "the addresses of all interfaces in use).",
     "hosts"},
    {"interface", 0, "INTERFACE", kOption,
     "Interface or network on which the nodes reach each other: eth0, or 10.0.0.0/8 (default: detected).",
     "hosts"},
    {"image", 0, "IMAGE", kOption,
     "Run nodes in containers of this image; nothing of Muster has to be installed in it. "
     "Without --hosts, each node is a container of this machine's Docker engine; "
     "with --hosts, each host's agent runs in one.",
     "containers"},
    {"pull", 0, "missing|always|never", kOption,
     "When to fetch the image from its registry, "
     "with the credentials of `docker login` (default missing).",
     "containers"},
    {"mount", 0, "SRC:DST[:ro]", kOption,
     "Mount a directory, a file or a volume into the containers. "
     "The working directory, the logs and --checkpoint-dir are always mounted, "
     "at the same paths as here. May be repeated.",
     "containers"},
    {"shm-size", 0, "BYTES", kOption,
     "Size of /dev/shm, which data loaders and NCCL use (default: half of the memory).", "containers"},
    {"memory", 0, "BYTES", kOption,
     "Memory limit of a container, such as 16G. Workers that exceed it are killed, "
     "class out_of_memory (default: no limit).",
     "containers"},
    {"cpus", 0, "N", kOption, "Cores that a container may use, such as 4 or 1.5 (default: all).",
     "containers"},
    {"gpus", 0, "all|N|device=IDS", kOption,
     "GPUs of a container, as for `docker run --gpus`: all, N different ones for each, "
     "or device=0,1 (default: none).",
     "containers"},
    {"network", 0, "NAME", kOption,
     "Network of the containers: the name of a Docker network, or host (default: "
     "a new network for the job; bridge for a single container).",
     "containers"},
    {"container-user", 0, "UID[:GID]", kOption,
     "User in the containers; may be a name that the image knows (default: your uid and gid).", "containers"},
    {"read-only", 0, "", kOption, "Make the image's files read-only; /tmp and /run are in memory.",
     "containers"},
    {"container-arg", 0, "NAME=VALUE", kOption,
     "Pass this option of `docker run` to the containers: add-host, cap-add, cpuset-cpus, device, dns, "
     "group-add, ipc, label, runtime, security-opt, sysctl, tmpfs or ulimit. May be repeated.",
     "containers"},
    {"spare-nodes", 0, "K", kOption,
     "Extra nodes whose agents wait, ready to replace lost nodes (default 0).", "workers"},
    {"gpus-per-node", 0, "M", kOption,
     "Workers on each node: a number, or auto, gpu or cpu: the machine's GPUs or cores, "
     "divided among its nodes (default 1, or the host's slots).",
     "workers"},
    {"workers-per-node", 0, "M", kAlias, "gpus-per-node", "workers"},
    {"device", 0, "auto|cuda|cpu", kOption,
     "cuda: fail unless each worker can have a GPU; cpu: hide GPUs from workers (default auto).", "workers"},
    {"share-gpus", 0, "", kOption,
     "Spread workers evenly over the GPUs of a node that has fewer GPUs than workers. "
     "LOCAL_RANK is then 0 for every worker, and NCCL takes each for a host of its own.",
     "workers"},
    {"wait-for-gpus", 0, "DURATION", kOption,
     "Before the first start, wait at most this long until no process of another user fills a GPU of the job.",
     "workers"},
    {"backend", 0, "gloo|nccl|mpi|shm", kOption,
     "Backend of the process groups in programs that use the runtime (default: "
     "what the program chooses, else Gloo, and NCCL where there are GPUs). "
     "Other programs, such as Python scripts, choose their own backend and ignore this flag.",
     "workers"},
    {"max-restarts", 0, "K", kOption,
     "Restart all workers after a failure, at most K times within --restart-window (default 3; "
     "torchrun's is 0).",
     "recovery"},
    {"restart-window", 0, "DURATION", kOption,
     "Only restarts within this time count towards --max-restarts (default 3600).", "recovery"},
    {"restart-delay", 0, "DURATION", kOption,
     "Delay before the second restart in a row when the program itself failed without making progress; "
     "it doubles each time, up to 30 s (default 1). A restart after a kill is immediate; "
     "a restart that could not begin is delayed from the first time on.",
     "recovery"},
    {"no-progress-limit", 0, "K", kOption,
     "Stop after K identical failures in a row without a new checkpoint or a further step (default 3; "
     "0: never). A failure before the first step is retried only once.",
     "recovery"},
    {"node-exclusion", 0, "DURATION", kOption,
     "Exclude a node for this long after it was lost twice within --restart-window, "
     "if the job can do without it (default 600; 0: never).",
     "recovery"},
    {"preemption-grace", 0, "DURATION", kOption,
     "Time for workers to save and leave after SIGTERM, SIGUSR1, Ctrl-C or launch cancel, "
     "if they can (default 30).",
     "recovery"},
    {"time-limit", 0, "[[HH:]MM:]SS", kOption,
     "Stop the job after this time. Workers that can save get a notice --preemption-grace before it.",
     "recovery"},
    {"checkpoint-dir", 0, "DIR", kOption,
     "Where the workers keep checkpoints; attempts resume from the newest complete one.", "recovery"},
    {"memory-tier", 0, "BYTES", kOption,
     "Memory of each node for checkpoints of .memory_every, such as 16G, "
     "from which the job resumes when it loses a worker or a node (default: none).",
     "recovery"},
    {"take-over", 0, "", kOption,
     "Use --checkpoint-dir even if another launch on this machine is using it; that launch stops.",
     "recovery"},
    {"log-dir", 0, "DIR", kOption,
     "Write logs and report.json to DIR/JOB (default ${XDG_STATE_HOME:-~/.local/state}/muster).", "output"},
    {"env", 0, "K=V", kOption,
     "Set a variable for the workers; K alone passes on its value here. May be repeated.", "workers"},
    {"env-file", 0, "FILE", kOption,
     "Set the variables of a file for the workers: lines K=V or K, # begins a comment. --env wins. "
     "May be repeated.",
     "workers"},
    {"config", 0, "FILE", kOption,
     "Read flags from a YAML file: `nodes: 2`, ..., and `program: [./train, --lr, 0.1]`. "
     "`~` and `$NAME` are replaced as in a shell here; "
     "paths are relative to the current directory, not to the file. "
     "`-- --epochs 3` adds arguments to the file's program.",
     "general"},
    {"grace", 0, "DURATION", kOption,
     "Time that workers have between the first signal and KILL (default 10).", "recovery"},
    {"controller-grace", 0, "DURATION", kOption,
     "Time that workers live on after this launcher is gone (default 30).", "recovery"},
    {"silence-limit", 0, "DURATION", kOption,
     "An agent that sends nothing for this long is lost (default 10).", "hangs"},
    {"heartbeat-limit", 0, "DURATION", kOption,
     "A worker hangs if it has sent heartbeats, and then sends none for this long (default 30; "
     "0: not watched).",
     "hangs"},
    {"hang-limit", 0, "DURATION", kOption,
     "A worker hangs if a step or section takes longer than this; "
     "applies until the usual time is known (default 600; 0: not watched). "
     "If given, Python ranks without steps hang if they all stand still for this long (needs py-spy).",
     "hangs"},
    {"uninterruptible-limit", 0, "DURATION", kOption,
     "A worker hangs if it is in uninterruptible sleep (state D) for this long; "
     "works for every program (default 0: not watched).",
     "hangs"},
    {"output-stall", 0, "DURATION", kOption,
     "How long workers wait for a pipe or log file that accepts no output; "
     "after that, launch drops lines and counts them (default 30; 0: workers do not wait).",
     "output"},
    {"log-limit", 0, "BYTES", kOption,
     "Keep at most this much of a rank's output in an attempt, such as 512M or 2G; "
     "the oldest parts are deleted (default: keep all).",
     "output"},
    {"warm", 0, "", kOption,
     "Fork workers from a loaded copy of the program (default: if it links Muster::warm_start).", "workers"},
    {"no-warm", 0, "", kOption, "Execute the program for every worker, even if it could be forked.",
     "workers"},
    {"redirects", 'r', "STREAMS", kOption,
     "Keep output off the terminal: 1 stdout, 2 stderr, 3 both, or by local rank: 0:3,1:1. "
     "Log files are always written.",
     "output"},
    {"tee", 't', "STREAMS", kOption, "Show these streams even if --redirects names them; same values.",
     "output"},
    {"local-ranks-filter", 0, "RANKS", kOption, "Show the output of only these local ranks: 0,1.", "output"},
    {"duplicate-stdout-filters", 0, "TEXTS", kOption,
     "Copy the lines that contain one of these texts to attempt_A/filtered_stdout.log: apple,pear (,, "
     "is a comma).",
     "output"},
    {"duplicate-stderr-filters", 0, "TEXTS", kOption, "The same for stderr: attempt_A/filtered_stderr.log.",
     "output"},
    {"fold", 0, "", kOption,
     "Show a line only once if several ranks print it within 50 ms (default: "
     "where stdout is a terminal).",
     "output"},
    {"no-fold", 0, "", kOption, "Show every rank's lines, on a terminal too.", "output"},
    {"no-prefix", 0, "", kOption,
     "Show workers' lines without `node0:2: `, and do not fold them: for programs that read the output.",
     "output"},
    {"stdin", 0, "RANK", kOption,
     "Send this command's standard input to this rank, or to none; the other ranks read /dev/null "
     "(default: 0 where it is a pipe or a file, and for an MPI program). "
     "After a restart the rank gets the input that was not read before.",
     "workers"},
    {"wrap", 0, "RANKS:COMMAND", kOption,
     "Put a command before the program of these ranks: 0:'gdb --args', 0,4-7:strace, all:'nice -n 5'. "
     "The command is split into words; no shell reads it. May be repeated. "
     "If a wrapped rank also has --stdin, a person may be debugging it: "
     "hangs are then detected only by limits that you give.",
     "workers"},
    {"mpi", 0, "auto|pmix|pmi|none", kOption,
     "How the ranks of an MPI program find each other: pmix for Open MPI, pmi for MPICH; none: every rank is alone in MPI_COMM_WORLD (default auto: depends on the library that the program needs, or on `# muster: --mpi pmix` in a script's first comment; else none). With a protocol that the program's library does not speak, each rank is alone, too; launch warns about that.",
     "workers"},
    {"trace", 0, "", kOption,
     "Let each rank that uses the runtime record what it does and when; "
     "`launch trace` makes one file of it for ui.perfetto.dev.",
     "output"},
    {"module", 'm', "", kOption, "The program is a Python module.", "workers"},
    {"no-python", 0, "", kOption, "Execute the program itself, even if its name ends in .py.", "workers"},
    {"role", 0, "NAME", kOption, "Name of the workers' role (default \"default\").", "workers"},
    {"control", 0, "auto|socket|tcp|stdio", kOption,
     "How the launcher talks to agents: inherited sockets on this machine, TCP with TLS, "
     "or the host shell's stdin and stdout. auto: sockets; "
     "with hosts, TCP where agents can connect, else stdio (default auto).",
     "hosts"},
    {"store", 0, "agent|worker", kOption,
     "Where the workers' c10d store runs: in the first agent, or in rank 0 (default agent).", "workers"},
    {"dry-run", 0, "", kOption, "Print what would be started, and change nothing.", "general"},
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

bool may_be_repeated(const Flag& flag) {
  constexpr std::string_view kLists[] = {"env",     "env-file",      "hosts", "include",
                                         "exclude", "listen",        "wrap",  "sync",
                                         "mount",   "container-arg", "space", "constraint"};
  return std::ranges::find(kLists, flag.name) != std::end(kLists);
}

std::string_view option_name(const Flag& flag) {
  return flag.treatment == kAlias ? flag.text : flag.name;
}

}  // namespace muster::launcher
