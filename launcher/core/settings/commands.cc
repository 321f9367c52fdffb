#include "launcher/core/settings/commands.h"

#include <algorithm>

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kLogDirectory = {"log-dir", 0, "DIR", kOption,
                                "Where jobs keep their logs: the --log-dir that they were started with."};
constexpr Flag kHelp = {"help", 'h', "", kOption, "Print this help."};

constexpr Flag kPsFlags[] = {
    {"newest", 'n', "N", kOption, "Only the N newest."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print a JSON array with one object for each job."},
    kHelp,
};
constexpr Flag kStatusFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print the state as one JSON object."},
    kHelp,
};
constexpr Flag kTopFlags[] = {
    {"once", 0, "", kOption, "Print the table once, as into a pipe."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print it once, as one JSON object."},
    kHelp,
};
constexpr Flag kNodesFlags[] = {
    {"grow", 0, "now", kOption,
     "With add: do not wait for a restart; the attempt ends after the next commit of a checkpoint, and the "
     "next "
     "one begins with the added nodes. It costs none of --max-restarts."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print the nodes, or the answer, as one JSON object."},
    kHelp,
};
constexpr Flag kLogsFlags[] = {
    {"follow", 'f', "", kOption, "Go on printing what is written, over restarts, until the job ends."},
    {"tail", 0, "N", kOption, "Only the last N lines of each rank; with -f, those and what follows."},
    {"rank", 0, "RANKS", kOption, "Only these ranks: 0,4-7."},
    {"node", 0, "NODES", kOption, "Only the ranks of these nodes: 0,2-3."},
    {"grep", 0, "PATTERN", kOption, "Only lines that match this extended regular expression."},
    {"since", 0, "TIME", kOption,
     "Only what was written since: a duration (90s, 10m, 2h, 1d) or a time (2026-05-01T12:30). A line that "
     "begins with a date and time has that time, one without it that of the line before; a file without any "
     "is shown whole or not at all, by when it was last written."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print each line as one JSON object: attempt, node, rank, stream, text."},
    kHelp,
};
constexpr Flag kCancelFlags[] = {
    {"now", 0, "", kOption, "Kill the workers at once: no TERM, no grace."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print how the job ended as one JSON object."},
    kHelp,
};
constexpr Flag kDumpFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print each rank's stacks as one JSON object: rank, text."},
    kHelp,
};
constexpr Flag kCleanFlags[] = {
    {"older-than", 0, "DURATION", kOption, "Only jobs that ended so long ago: 7d, 12h."},
    {"keep", 0, "N", kOption, "Not the N newest of those that have ended."},
    kLogDirectory,
    {"dry-run", 0, "", kOption, "Print what would be removed, and remove nothing."},
    {"json", 0, "", kOption,
     "Print a JSON array with one object for each job that was, or would be, removed."},
    kHelp,
};
constexpr Flag kCkptFlags[] = {
    {"step", 0, "S|latest|best", kOption,
     "Which checkpoint: by its step, the newest that counts (the default), or the best by a metric. Import: "
     "the step that it becomes, 0 if not given."},
    {"other-step", 0, "S|latest|best", kOption, "With diff: which checkpoint of the other directory."},
    {"metric", 0, "NAME", kOption,
     "By which metric a checkpoint is the best; if not given, by the one that the training has named."},
    {"mode", 0, "min|max", kOption, "Whether the least or the greatest value of --metric is the best."},
    {"keep", 0, "N", kOption, "With prune: the N newest stay; 1 if not given."},
    {"every", 0, "N", kOption, "With prune: checkpoints of every N-th step stay."},
    {"best", 0, "N", kOption, "With prune: the N best stay."},
    {"yes", 0, "", kOption, "With prune: remove what else is only listed."},
    {"force", 0, "", kOption,
     "With prune: also where the last training ran on another machine, and may run still."},
    {"all", 0, "", kOption,
     "With export: all of the state, not the model alone; import makes the same checkpoint of it again."},
    {"json", 0, "", kOption, "Print the answer as JSON."},
    kHelp,
};
constexpr Flag kReportFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print report.json as it is."},
    kHelp,
};
constexpr Flag kReplayFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print the result as one JSON object."},
    kHelp,
};
constexpr Flag kTraceFlags[] = {
    {"output", 'o', "FILE", kOption, "Where the trace is written; - is stdout."},
    {"attempt", 0, "N", kOption, "Only this attempt; all if not given."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print what was written as one JSON object."},
    kHelp,
};
constexpr Flag kScheduleFlags[] = {
    {"stages", 0, "P", kOption, "Ranks of the pipeline: p in the formulas."},
    {"microbatches", 0, "M", kOption, "Parts of a batch."},
    {"chunks", 0, "V", kOption, "Stages of each rank; if not given, as many as the schedule is for."},
    {"times", 0, "F,B,W", kOption,
     "How long a rank takes for a microbatch: forward, backward of the input, backward of the weights; 1,1,1 "
     "if "
     "not given. Its chunks share them."},
    {"csv", 0, "", kOption,
     "Print the instructions, a line a rank, as torch.distributed.pipelining reads them."},
    {"json", 0, "", kOption, "Print the schedule and what it costs as one JSON object."},
    kHelp,
};
constexpr Flag kTextFlags[] = {kHelp};

constexpr Example kRunExamples[] = {
    {"launch ./train", "one worker"},
    {"launch --nodes 2 --gpus-per-node 2 ./train", "four workers, as on two nodes with two GPUs each"},
    {"launch --gpus-per-node 4 --checkpoint-dir ckpt ./train --lr 0.1",
     "what follows the program's name is the program's own"},
    {"launch --gpus-per-node 2 train.py", "a Python script, as torchrun runs it"},
    {"launch --config job.yaml", "flags and program from a file"},
};
constexpr Example kPlanExamples[] = {
    {"launch plan --nodes 2 --gpus-per-node 4 ./train", "which ranks would run where"},
    {"launch plan --config job.yaml --json", "the same for programs, of a job in a file"},
};
constexpr Example kCheckExamples[] = {
    {"launch check", "is this machine fit to run anything?"},
    {"launch check --gpus-per-node 8 --checkpoint-dir /shared/ckpt train.py",
     "would this job start, and can every node write there?"},
    {"launch check --json ./train | jq '.checks[] | select(.result != \"ok\")'", "only what is wrong"},
};
constexpr Example kPsExamples[] = {
    {"launch ps", "what runs, and what ran"},
    {"launch ps -n 5", "the five newest"},
    {"launch ps --json | jq -r '.[] | select(.state == \"failed\") | .job_id'", "names of the failed ones"},
};
constexpr Example kStatusExamples[] = {
    {"launch status", "of the job that runs, if it is the only one"},
    {"launch status 20260501", "the beginning of a job's name is enough"},
    {"watch launch status", "again every two seconds"},
};
constexpr Example kTopExamples[] = {
    {"launch top", "of the job that runs, until you press q"},
    {"launch top --json | jq '.ranks[].usage.memory_bytes'", "once, for programs"},
};
constexpr Example kNodesExamples[] = {
    {"launch nodes", "of the job that runs: its nodes, their hosts, who takes part"},
    {"launch nodes add n7:8,n8:8", "two more hosts for an elastic job, from its next attempt on"},
    {"launch nodes add n7 --grow now", "another one, as soon as the next checkpoint is committed"},
};
constexpr Example kLogsExamples[] = {
    {"launch logs -f", "follow the job that runs"},
    {"launch logs --tail 20", "the last 20 lines of each rank"},
    {"launch logs --rank 0 --grep loss", "the losses that rank 0 printed"},
    {"launch logs 20260501 --node 1 --since 10m", "what node 1 wrote in the last ten minutes"},
};
constexpr Example kCancelExamples[] = {
    {"launch cancel", "end the job that runs: it saves first, if all its ranks can"},
    {"launch cancel 20260501 --now", "kill its workers at once, and save nothing"},
};
constexpr Example kDumpExamples[] = {
    {"launch dump", "where is every rank of the job that runs, right now?"},
    {"launch dump 20260501 > stacks.txt", "of one job, to a file"},
};
constexpr Example kCleanExamples[] = {
    {"launch clean --older-than 7d", "remove the logs of jobs that ended a week ago"},
    {"launch clean --keep 20", "of all but the 20 newest"},
    {"launch clean --dry-run", "list the jobs whose logs would go"},
};
constexpr Example kCkptExamples[] = {
    {"launch ckpt ls ckpt", "what is there: steps, sizes, metrics, pins"},
    {"launch ckpt verify ckpt --step latest", "read every byte of the newest one"},
    {"launch ckpt diff ckpt --step 300 --other-step 400", "which tensors have changed in between"},
    {"launch ckpt prune ckpt --keep 3 --every 1000 --best 2 --metric accuracy --mode max",
     "list what would go; --yes removes it"},
    {"launch ckpt export ckpt model.safetensors --step best", "the model in one file, for Python or others"},
    {"launch ckpt import ckpt model.safetensors", "a checkpoint from which a training can start"},
};
constexpr Example kReportExamples[] = {
    {"launch report", "how the newest job ended, and whose fault it was"},
    {"launch report 20260501 --json | jq .culprit", "the same for programs"},
};
constexpr Example kReplayExamples[] = {
    {"launch replay", "of the newest job"},
    {"launch replay ~/logs/20260501-120000-ab12 --json | jq .first_difference",
     "of a directory that was sent to you"},
};
constexpr Example kTraceExamples[] = {
    {"launch trace -o trace.json", "of the job that runs, or ran last: open it with ui.perfetto.dev"},
    {"launch trace 20260501 --attempt 2 -o - | gzip > trace.json.gz", "of one attempt, for a colleague"},
};
constexpr Example kScheduleExamples[] = {
    {"launch schedule show 1F1B --stages 4 --microbatches 8", "a picture: who does what when, and who waits"},
    {"launch schedule show ZBV --stages 4 --microbatches 8 --times 1,1,0.5 --json | jq .bubble_fraction",
     "what it would cost with times of your own"},
    {"launch schedule show Interleaved1F1B --stages 4 --microbatches 8 --chunks 2 --csv > mine.csv",
     "one to be changed by hand"},
    {"launch schedule check mine.csv", "would it come to its end?"},
};
constexpr Example kCompletionExamples[] = {
    {"source <(launch completion bash)", "in ~/.bashrc"},
    {"launch completion zsh > \"${fpath[1]}/_launch\"", "once, for zsh"},
    {"launch completion fish > ~/.config/fish/completions/launch.fish", "once, for fish"},
};
constexpr Example kHelpExamples[] = {
    {"launch help recovery", "what is done about failures, and the flags that say so"},
    {"launch help all | less", "everything"},
};
constexpr Example kManExamples[] = {
    {"launch man | man -l -", "read it"},
    {"launch man > launch.1", "keep it"},
};

constexpr Command kCommands[] = {
    {"run",
     Operand::kProgram,
     "Start a program on every worker, watch it, restart it; the default command.",
     "Starts a distributed training program on several workers, watches it, and starts it again from its "
     "last checkpoint when something fails. The word `run` may be left out, unless the program is named like "
     "a command.",
     {},
     kRunExamples},
    {"plan",
     Operand::kProgram,
     "Print what `run` would start, and touch nothing.",
     "Takes the flags and the program of `launch run`.",
     {},
     kPlanExamples},
    {"check",
     Operand::kProgram,
     "Look whether a job could run here; say what to do where it could not.",
     "Takes the flags and the program of `launch run`, or no program. Each line is OK, WARN or FAIL; the "
     "exit "
     "code is 1 if one is FAIL. With --hosts it looks at them all at once: one table.",
     {},
     kCheckExamples},
    {"ps", Operand::kNone, "List the jobs, the newest first, with what became of each.",
     "A job is running, or it has succeeded, failed, been cancelled (by `launch cancel`) or stopped (by a "
     "signal, on a preemption notice, at its time limit). It is lost when its launcher is gone and left no "
     "report: it was killed, or the "
     "machine went down; elsewhere: its launcher is another machine's.",
     kPsFlags, kPsExamples},
    {"status", Operand::kRunning, "Show a running job: phase, nodes, ranks, steps, last events.",
     "JOB may be left out when one job runs; its name may be shortened to what no other job that runs begins "
     "with.",
     kStatusFlags, kStatusExamples},
    {"top", Operand::kRunning,
     "Watch what the ranks of a running job do and use: steps, loss, CPU, memory, GPU.",
     "A table that is drawn anew each second, until you press q or Ctrl-C. The processor time is that of the "
     "rank's own process; a GPU's numbers are those of all who use it. SAMPLES/S and LOSS are what the "
     "program says of its steps.",
     kTopFlags, kTopExamples},
    {"nodes", Operand::kNodes, "Show the nodes of a running job, or add hosts to it.",
     "`launch nodes add HOST[:SLOTS][,...]` gives an elastic job (--nodes MIN:MAX) that was started with "
     "--hosts "
     "more hosts, up to MAX; they are written as for --hosts, and without SLOTS have as many workers as node "
     "0. "
     "Their agents start at once, and take part from the next attempt. JOB may be left out when one job "
     "runs.",
     kNodesFlags, kNodesExamples},
    {"logs", Operand::kJob, "Print what the workers wrote, with node and rank before each line.",
     "Reads the files of each rank, which are complete whatever the terminal dropped: attempt by attempt, "
     "rank by rank, stdout and stderr (marked) in the order in which they came; with -f, new lines as they "
     "come. Without JOB: of the only job that runs, else of the "
     "newest. Its name may be shortened.",
     kLogsFlags, kLogsExamples},
    {"cancel", Operand::kRunning, "Stop a running job as Ctrl-C does, and wait for its end.",
     "Where all ranks can save and leave they do that first. JOB may be left out when one job runs; its name "
     "may be shortened to what no other job that runs begins "
     "with.",
     kCancelFlags, kCancelExamples},
    {"dump", Operand::kRunning, "Print the stacks of every rank of a running job, now.",
     "JOB may be left out when one job runs; its name may be shortened to what no other job that runs begins "
     "with. Ranks that have not answered after 3 "
     "s are named. Python frames are shown where py-spy is installed (pip install py-spy), in the "
     "environment "
     "of the program's Python or in its PATH, or by a script that writes them itself with faulthandler: the "
     "lines for that are in docs/protocol.md, \"Worker datagrams\". Those of other programs without the "
     "runtime are shown where eu-stack is installed (Debian's elfutils).",
     kDumpFlags, kDumpExamples},
    {"report", Operand::kJob, "Print how a job ended: cause, culprit, evidence.",
     "Without JOB: of the newest job, which may still run. Its name may be shortened.", kReportFlags,
     kReportExamples},
    {"replay", Operand::kJob, "Run a job's journal through the same decisions again.",
     "Reads what the launcher saw of a job, event by event, and lets this program decide. JOB is a job's "
     "name "
     "or its directory; without JOB, the newest job is meant. The exit code is 0 if every decision is the "
     "same, 1 at the first that "
     "is another: that event, with what was decided and what is decided now.",
     kReplayFlags, kReplayExamples},
    {"trace", Operand::kJob, "Make one file of what all ranks did and when, for ui.perfetto.dev.",
     "Of a job that was started with --trace: steps, data, communication and checkpoints of every rank that "
     "uses the runtime, and what happened to the job, on one clock. The file is in the Trace Event Format, "
     "which "
     "chrome://tracing opens too. Without JOB: of the only job that runs, as far as it has come, else of the "
     "newest. Its name may be shortened.",
     kTraceFlags, kTraceExamples},
    {"schedule", Operand::kSchedule,
     "Show a pipeline schedule on paper, or look whether one can be carried out.",
     "show draws it, with its makespan, its bubble and the activations that each rank holds; check says "
     "whether "
     "every rank comes to its end: the exit code is 1 if not, with the cause. NAME is GPipe, 1F1B, "
     "Interleaved1F1B, LoopedBFS, ZBH1, InterleavedZeroBubble, ZBVZeroBubble (ZBV) or DualPipeV, with "
     "--stages "
     "and --microbatches. FILE.csv has a line a rank with instructions such as 0F3, as "
     "torch.distributed.pipelining keeps them. docs/pipeline.md explains them.",
     kScheduleFlags, kScheduleExamples},
    {"ckpt", Operand::kCheckpoints, "List, verify, compare, remove, export and import checkpoints.",
     "WHAT is ls, show, verify, diff, prune, pin, unpin, export or import. DIR is a checkpoint directory, or "
     "one "
     "step in it. ls lists what is there, show one checkpoint's "
     "tensors "
     "and values. verify reads every byte, of all checkpoints or of one: the exit code is 1 if one is "
     "damaged. "
     "diff compares two of DIR, or of DIR and OTHER: 1 if they differ. prune says what --keep, --every and "
     "--best leave, and removes the rest with --yes; never what is pinned, the newest, or what the last "
     "attempt began with. export writes the model into the safetensors file FILE, with PyTorch's names; "
     "import makes a checkpoint of such a file in a directory that has none.",
     kCkptFlags, kCkptExamples},
    {"clean", Operand::kNone, "Remove the logs and reports of jobs that have ended.",
     "Removes their directories, and no checkpoints. Without a flag: of all that have ended. A job that "
     "runs, runs on another machine, or has left processes stays.",
     kCleanFlags, kCleanExamples},
    {"completion", Operand::kShell, "Print the completion script for bash, zsh or fish.", "", kTextFlags,
     kCompletionExamples},
    {"help", Operand::kTopic, "Explain a topic or a command, or all.", "Without TOPIC: the list of topics.",
     kTextFlags, kHelpExamples},
    {"man", Operand::kNone, "Print the man page, in roff.", "", kTextFlags, kManExamples},
};

constexpr std::string_view kFutureCommands[] = {"attach", "key",      "agent", "k8s",
                                                "slurm",  "simulate", "sweep", "ui"};

constexpr ExitCode kExitCodes[] = {
    {"0", "every rank of the last attempt exited 0"},
    {"1 to 255", "the first failing worker's own code, or 128 + the signal that killed it"},
    {"2", "wrong use: one line says what would be right"},
    {"69", "not enough nodes: it may be started again"},
    {"75", "preempted, with a checkpoint of the last step: start it again"},
    {"124", "a worker hung, or the time limit has passed"},
    {"125", "launch's own failure"},
    {"126, 127", "the program cannot be executed, is not found"},
    {"130, 143", "stopped by Ctrl-C or launch cancel, by TERM"},
    {"253", "out of memory, as the kernel counted"},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == std::end(kCommands) ? nullptr : found;
}

std::span<const std::string_view> future_commands() {
  return kFutureCommands;
}

bool is_future_command(std::string_view name) {
  return std::ranges::find(kFutureCommands, name) != std::end(kFutureCommands);
}

FlagTables flags_of(const Command& command) {
  if (command.operand == Operand::kProgram) return {own_flags(), torchrun_flags()};
  return {command.own_flags};
}

std::string_view usage_of(Operand operand) {
  switch (operand) {
    case Operand::kProgram: return "[FLAGS] [--] PROGRAM [ARGUMENTS...]";
    case Operand::kJob:
    case Operand::kRunning: return "[FLAGS] [JOB]";
    case Operand::kShell: return "bash|zsh|fish";
    case Operand::kTopic: return "[TOPIC|COMMAND|all]";
    case Operand::kNone: return "[FLAGS]";
    case Operand::kNodes: return "[FLAGS] [add HOSTS] [JOB]";
    case Operand::kSchedule: return "[FLAGS] show|check NAME|FILE.csv";
    case Operand::kCheckpoints: return "[FLAGS] WHAT DIR [OTHER|FILE]";
  }
  return "";
}

std::span<const ExitCode> exit_codes() {
  return kExitCodes;
}

}  // namespace muster::launcher
