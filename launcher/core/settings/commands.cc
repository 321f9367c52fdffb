#include "launcher/core/settings/commands.h"

#include <algorithm>
#include <fmt/core.h>

#include "launcher/core/settings/other_tools.h"

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kLogDirectory = {"log-dir", 0, "DIR", kOption,
                                "Where jobs keep their logs: the --log-dir they were started with."};
constexpr Flag kHelp = {"help", 'h', "", kOption, "Print this help."};

constexpr Flag kPsFlags[] = {
    {"newest", 'n', "N", kOption, "List only the N newest jobs."},
    {"state", 0, kJobStates, kOption, "List only the jobs in this state."},
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
    {"once", 0, "", kOption, "Print the table once, as when stdout is a pipe."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print the table once, as one JSON object."},
    kHelp,
};
constexpr Flag kNodesFlags[] = {
    {"grow", 0, "now", kOption,
     "With add: do not wait for a restart. The attempt ends after the next checkpoint is committed, "
     "and the next attempt starts with the added nodes. This does not count towards --max-restarts."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print the nodes, or the result of add, as one JSON object."},
    kHelp,
};
constexpr Flag kLogsFlags[] = {
    {"follow", 'f', "", kOption, "Keep printing new lines, across restarts, until the job ends."},
    {"tail", 0, "N", kOption, "Only the last N lines of each rank; with -f, then new lines."},
    {"attempt", 0, "N", kOption, "Only this attempt (default: all)."},
    {"previous", 0, "", kOption, "Only the attempt before the last one."},
    {"rank", 0, "RANKS", kOption, "Only these ranks: 0,4-7."},
    {"node", 0, "NODES", kOption, "Only the ranks on these nodes: 0,2-3."},
    {"grep", 0, "PATTERN", kOption, "Only lines that match this extended regular expression."},
    {"since", 0, "TIME", kOption,
     "Only lines written since then: a duration (90s, 10m, 2h, 1d) or a time (2026-05-01T12:30). "
     "A line's time is the date and time that it begins with, or else that of the line before it. "
     "A file without any date is shown as a whole if it was last written since then."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print each line as one JSON object: attempt, node, rank, stream, text."},
    kHelp,
};
constexpr Flag kCancelFlags[] = {
    {"now", 0, "", kOption, "Kill the workers at once, without TERM and grace."},
    {"all", 0, "", kOption, "Stop all jobs that run on this machine."},
    {"yes", 0, "", kOption, "With --all: do not ask."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print a JSON array with one object for each job: how it ended."},
    kHelp,
};
constexpr Flag kDumpFlags[] = {
    {"rank", 0, "RANKS", kOption, "Only these ranks: 0,4-7."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print each rank's stacks as one JSON object: rank, text."},
    kHelp,
};
constexpr Flag kCleanFlags[] = {
    {"older-than", 0, "DURATION", kOption, "Only jobs that ended at least this long ago: 7d, 12h."},
    {"keep", 0, "N", kOption, "Keep the N newest of the jobs that have ended."},
    kLogDirectory,
    {"dry-run", 0, "", kOption, "Print what would be deleted, and delete nothing."},
    {"yes", 0, "", kOption, "Do not ask. Without a terminal to ask on, nothing is deleted without it."},
    {"json", 0, "", kOption,
     "Print a JSON array with one object for each job that was, or would be, deleted."},
    kHelp,
};
constexpr Flag kCkptFlags[] = {
    {"step", 0, "S|latest|best", kOption,
     "The checkpoint to use: a step, the newest valid one (the default), or the best by a metric. "
     "With import: the step of the new checkpoint (default 0)."},
    {"other-step", 0, "S|latest|best", kOption, "With diff: the checkpoint of the other directory."},
    {"metric", 0, "NAME", kOption,
     "Metric that decides which checkpoint is best (default: the one that the training has named)."},
    {"mode", 0, "min|max", kOption, "Whether the smallest or the largest value of --metric is best."},
    {"keep", 0, "N", kOption, "With prune: keep the N newest (1 with --every or --best alone)."},
    {"every", 0, "N", kOption, "With prune: keep the checkpoints of every N-th step."},
    {"best", 0, "N", kOption, "With prune: keep the N best."},
    {"dry-run", 0, "", kOption, "With prune: print what would be deleted, and delete nothing."},
    {"yes", 0, "", kOption,
     "With prune: do not ask. Without a terminal to ask on, nothing is deleted without it."},
    {"force", 0, "", kOption,
     "With prune: delete even if the last training ran on another machine, where it may still be running."},
    {"output", 'o', "FILE", kOption, "With export: file to write the model to."},
    {"all", 0, "", kOption,
     "With export: write the whole state, not only the model; import restores the same checkpoint from it."},
    {"json", 0, "", kOption, "Print the answer as JSON."},
    kHelp,
};
constexpr Flag kReportFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print report.json unchanged."},
    kHelp,
};
constexpr Flag kReplayFlags[] = {
    kLogDirectory,
    {"json", 0, "", kOption, "Print the result as one JSON object."},
    kHelp,
};
constexpr Flag kTraceFlags[] = {
    {"output", 'o', "FILE", kOption, "File to write the trace to; - is stdout."},
    {"attempt", 0, "N", kOption, "Only this attempt (default: all)."},
    kLogDirectory,
    {"json", 0, "", kOption, "Print a summary of what was written, as one JSON object."},
    kHelp,
};
constexpr Flag kScheduleFlags[] = {
    {"stages", 0, "P", kOption, "Number of ranks in the pipeline: p in the formulas."},
    {"microbatches", 0, "M", kOption, "Number of microbatches in a batch."},
    {"chunks", 0, "V", kOption, "Stages of each rank (default: as many as the schedule needs)."},
    {"times", 0, "F,B,W", kOption,
     "Time that a rank needs for a microbatch: forward, backward of the input, "
     "backward of the weights (default 1,1,1). The chunks of a rank share these times."},
    {"csv", 0, "", kOption,
     "Print the instructions, one line per rank, as torch.distributed.pipelining reads them."},
    {"json", 0, "", kOption, "Print the schedule and its cost as one JSON object."},
    kHelp,
};
constexpr Flag kSweepFlags[] = {
    {"once", 0, "", kOption, "With status: print the table once, as when stdout is a pipe."},
    {"output", 'o', "PATH", kOption,
     "With plot: directory to write the pictures to (default: the sweep's). "
     "With export: file to write Optuna's journal to."},
    {"tensorboard", 0, "LOGDIR", kOption,
     "With export: directory for TensorBoard, whose tab HPARAMS compares the trials; replaces an earlier export."},
    {"study", 0, "NAME", kOption, "With import: the study to read, if the file has several."},
    {"step", 0, "S", kOption,
     "With tell: the step of the values (default: one more than the last; the first is 1)."},
    {"state", 0, "finished|failed|infeasible", kOption, "With tell: how the trial has ended."},
    {"json", 0, "", kOption, "Print the answer as JSON."},
    kHelp,
};
constexpr Flag kTextFlags[] = {kHelp};

constexpr Example kRunExamples[] = {
    {"launch ./train", "one worker"},
    {"launch --nodes 2 --gpus-per-node 2 ./train", "four workers on two nodes, with two GPUs each"},
    {"launch --gpus-per-node 4 --checkpoint-dir ckpt ./train --lr 0.1",
     "all words after the program's name are its own arguments"},
    {"launch --gpus-per-node 2 train.py", "a Python script, as torchrun runs it"},
    {"launch --config job.yaml", "flags and program from a file"},
};
constexpr Example kPlanExamples[] = {
    {"launch plan --nodes 2 --gpus-per-node 4 ./train", "which ranks would run where"},
    {"launch plan --config job.yaml --json", "the same as JSON, for a job described in a file"},
};
constexpr Example kCheckExamples[] = {
    {"launch check", "can this machine run jobs at all?"},
    {"launch check --gpus-per-node 8 --checkpoint-dir /shared/ckpt train.py",
     "would this job start, and can every node write to that directory?"},
    {"launch check --json ./train | jq '.checks[] | select(.result != \"ok\")'", "only the problems"},
};
constexpr Example kPsExamples[] = {
    {"launch ps", "running and finished jobs"},
    {"launch ps -n 5", "the five newest jobs"},
    {"launch ps --state failed", "only the jobs that failed"},
    {"launch ps --json | jq -r '.[] | select(.exit_code == 137) | .job_id'",
     "names of the jobs that ended with 137"},
};
constexpr Example kStatusExamples[] = {
    {"launch status", "the running job, if there is only one"},
    {"launch status 20260501", "a prefix of the job's name is enough"},
    {"watch launch status", "repeat every two seconds"},
};
constexpr Example kTopExamples[] = {
    {"launch top", "watch the running job, until you press q"},
    {"launch top --json | jq '.ranks[].usage.memory_bytes'", "once, as JSON for scripts"},
};
constexpr Example kNodesExamples[] = {
    {"launch nodes", "the running job's nodes and hosts, and which of them take part"},
    {"launch nodes add n7:8,n8:8", "add two hosts to an elastic job, from its next attempt on"},
    {"launch nodes add n7 --grow now", "add a host as soon as the next checkpoint is committed"},
};
constexpr Example kLogsExamples[] = {
    {"launch logs -f", "follow the running job"},
    {"launch logs --tail 20", "the last 20 lines of each rank"},
    {"launch logs --previous", "what the ranks printed before the restart"},
    {"launch logs --rank 0 --grep loss", "the losses that rank 0 printed"},
    {"launch logs 20260501 --node 1 --since 10m", "the output of node 1 in the last ten minutes"},
};
constexpr Example kCancelExamples[] = {
    {"launch cancel", "stop the running job; it saves first, if all its ranks can"},
    {"launch cancel 20260501 --now", "kill the job's workers at once, without saving"},
    {"launch cancel --all", "list all running jobs, ask, and stop them"},
};
constexpr Example kDumpExamples[] = {
    {"launch dump", "what is each rank of the running job doing right now?"},
    {"launch dump --rank 0,4-7", "only some of them"},
    {"launch dump 20260501 > stacks.txt", "write the stacks of one job to a file"},
};
constexpr Example kCleanExamples[] = {
    {"launch clean --older-than 7d", "delete the logs of jobs that ended at least a week ago"},
    {"launch clean --keep 20 --yes",
     "without asking, delete the logs of all finished jobs but the 20 newest"},
    {"launch clean --dry-run", "list the jobs whose logs would be deleted"},
};
constexpr Example kCkptExamples[] = {
    {"launch ckpt ls ckpt", "list checkpoints: steps, sizes, metrics, pins"},
    {"launch ckpt verify ckpt --step latest", "read every byte of the newest checkpoint"},
    {"launch ckpt diff ckpt --step 300 --other-step 400", "which tensors changed between the two steps"},
    {"launch ckpt prune ckpt --keep 3 --every 1000 --best 2 --metric accuracy --mode max",
     "list what would be deleted, ask, and delete it"},
    {"launch ckpt export ckpt -o model.safetensors --step best",
     "write the model to one file, for Python or other programs"},
    {"launch ckpt import ckpt model.safetensors", "make a checkpoint that a training can start from"},
};
constexpr Example kReportExamples[] = {
    {"launch report", "how the newest job ended, and what caused it"},
    {"launch report 20260501 --json | jq .culprit", "the culprit, as JSON for scripts"},
};
constexpr Example kReplayExamples[] = {
    {"launch replay", "replay the newest job"},
    {"launch replay ~/logs/20260501-120000-ab12 --json | jq .first_difference",
     "replay a job directory that someone sent you"},
};
constexpr Example kTraceExamples[] = {
    {"launch trace -o trace.json", "the running job, or else the newest: open the file in ui.perfetto.dev"},
    {"launch trace 20260501 --attempt 2 -o - | gzip > trace.json.gz",
     "one attempt, compressed to send to a colleague"},
};
constexpr Example kScheduleExamples[] = {
    {"launch schedule show 1F1B --stages 4 --microbatches 8",
     "a picture: what each rank does when, and where it waits"},
    {"launch schedule show ZBV --stages 4 --microbatches 8 --times 1,1,0.5 --json | jq .bubble_fraction",
     "the cost with your own times"},
    {"launch schedule show Interleaved1F1B --stages 4 --microbatches 8 --chunks 2 --csv > mine.csv",
     "a schedule to edit by hand"},
    {"launch schedule check mine.csv", "would every rank finish?"},
};
constexpr Example kSweepExamples[] = {
    {"launch sweep run --space lr=loguniform:1e-5:1e-1,layers=int:1:4 --metric val_loss --trials 20 "
     "./train --lr {lr} --layers {layers}",
     "20 random points; the program prints MUSTER_METRIC val_loss=0.12 step=3"},
    {"launch sweep run sweep.yaml --scheduler asha --max-steps 81 --search tpe", "a sweep from a file"},
    {"launch sweep preview sweep.yaml --step-time 0.2", "what it would cost"},
    {"launch sweep status", "watch the newest sweep in ./sweeps"},
    {"launch sweep best", "the best trial, and the command line that trains it"},
    {"launch sweep export --tensorboard runs", "for TensorBoard's tab HPARAMS"},
    {"launch sweep resume sweeps/20260501-120000-ab12", "go on after an end or a crash"},
};
constexpr Example kCompletionExamples[] = {
    {"source <(launch completion bash)", "for bash, in ~/.bashrc"},
    {"launch completion zsh > \"${fpath[1]}/_launch\"", "once, for zsh"},
    {"launch completion fish > ~/.config/fish/completions/launch.fish", "once, for fish"},
};
constexpr Example kHelpExamples[] = {
    {"launch help recovery", "how launch handles failures, and the flags for that"},
    {"launch help all | less", "everything"},
};
constexpr Example kManExamples[] = {
    {"launch man | man -l -", "read the man page"},
    {"launch man > launch.1", "save it to a file"},
};

constexpr Command kCommands[] = {
    {"run",
     Operand::kProgram,
     "Start a program on every worker, watch it, restart it; the default command.",
     "Starts a distributed training program on several workers, watches it, "
     "and restarts it from its last checkpoint when something fails. "
     "The word `run` may be left out, unless the program has the name of a command.",
     {},
     kRunExamples},
    {"plan",
     Operand::kProgram,
     "Print what `run` would start, and change nothing.",
     "Takes the flags and the program of `launch run`.",
     {},
     kPlanExamples},
    {"check",
     Operand::kProgram,
     "Check whether a job could run here, and say how to fix what is wrong.",
     "Takes the flags and the program of `launch run`, or no program. Each line is OK, WARN or FAIL; "
     "the exit code is 1 if a line is FAIL. With --hosts it checks all hosts at once and prints one table.",
     {},
     kCheckExamples},
    {"ps", Operand::kNone, "List the jobs and their states, newest first.",
     "States: running, succeeded, failed, cancelled (by `launch cancel`), stopped (by a signal, "
     "a preemption notice or its time limit), lost (its launcher is gone and left no report: "
     "it was killed, or the machine went down), elsewhere (its launcher runs on another machine).",
     kPsFlags, kPsExamples},
    {"status", Operand::kRunning, "Show a running job: phase, nodes, ranks, steps, last events.",
     "JOB is a running job's name or any unambiguous prefix of it; "
     "it may be left out if only one job is running.",
     kStatusFlags, kStatusExamples},
    {"top", Operand::kRunning,
     "Watch what the ranks of a running job do and use: steps, loss, CPU, memory, GPU.",
     "Redraws a table each second, until you press q or Ctrl-C. "
     "CPU time is that of the rank's own process; GPU numbers include all processes that use the GPU. "
     "SAMPLES/S and LOSS are reported by the program with its steps.",
     kTopFlags, kTopExamples},
    {"nodes", Operand::kNodes, "Show the nodes of a running job, or add hosts to it.",
     "`launch nodes add HOST[:SLOTS][,...]` adds hosts to an elastic job (--nodes MIN:MAX) "
     "that was started with --hosts, up to MAX nodes. Hosts are written as for --hosts; "
     "without SLOTS a host gets as many workers as node 0. "
     "The new agents start at once, and take part from the next attempt. "
     "JOB may be left out if only one job is running.",
     kNodesFlags, kNodesExamples},
    {"logs", Operand::kJob, "Print the workers' output, with node and rank before each line.",
     "Reads the log file of each rank, which is complete even if the terminal dropped lines: "
     "attempt by attempt, rank by rank, stdout and stderr (marked) "
     "in the order in which they were written; with -f, new lines as they are written. "
     "JOB is a job's name or a prefix of it; without JOB: the only running job, or else the newest job.",
     kLogsFlags, kLogsExamples},
    {"cancel", Operand::kRunning, "Stop a running job as Ctrl-C does, and wait until it has ended.",
     "If all ranks can save and leave, they do that first. --all lists the jobs and asks. "
     "JOB is a running job's name or any unambiguous prefix of it; "
     "it may be left out if only one job is running.",
     kCancelFlags, kCancelExamples},
    {"dump", Operand::kRunning, "Print the stacks of every rank of a running job, now.",
     "JOB is a running job's name or any unambiguous prefix of it; "
     "it may be left out if only one job is running. Ranks that do not answer within 3 s are listed. "
     "Python frames need py-spy (pip install py-spy), "
     "in the environment of the program's Python or in its PATH; "
     "or a script can write them itself with faulthandler: docs/protocol.md, \"Worker datagrams\", "
     "has the lines for that. "
     "Stacks of other programs without the runtime need eu-stack (Debian package elfutils).",
     kDumpFlags, kDumpExamples},
    {"report", Operand::kJob, "Print how a job ended: cause, culprit, evidence.",
     "JOB is a job's name or a prefix of it; without JOB: the newest job, which may still be running.",
     kReportFlags, kReportExamples},
    {"replay", Operand::kJob, "Replay a job's journal, and check that the same decisions follow.",
     "Reads the events that the launcher recorded, one by one, and lets this program decide again. "
     "JOB is a job's name or its directory; without JOB: the newest job. "
     "The exit code is 0 if every decision is the same. "
     "At the first decision that differs it is 1, and launch prints the event, "
     "the old decision and the new one.",
     kReplayFlags, kReplayExamples},
    {"trace", Operand::kJob, "Write one file of what all ranks did and when, for ui.perfetto.dev.",
     "For a job that was started with --trace: steps, data, "
     "communication and checkpoints of every rank that uses the runtime, and the events of the job, "
     "on one clock. The file is in the Trace Event Format, which chrome://tracing opens too. "
     "JOB is a job's name or a prefix of it; without JOB: the only running job, up to now, "
     "or else the newest job.",
     kTraceFlags, kTraceExamples},
    {"schedule", Operand::kSchedule, "Draw a pipeline schedule, or check that every rank would finish it.",
     "show draws the schedule, with its makespan, its bubble and the activations that each rank holds. "
     "check says whether every rank would finish; if not, it prints the cause and the exit code is 1. "
     "NAME is GPipe, 1F1B, Interleaved1F1B, LoopedBFS, ZBH1, InterleavedZeroBubble, ZBVZeroBubble (ZBV) "
     "or DualPipeV, with --stages and --microbatches. "
     "FILE.csv has one line per rank with instructions such as 0F3, "
     "as torch.distributed.pipelining writes them; docs/pipeline.md explains the instructions.",
     kScheduleFlags, kScheduleExamples},
    {"ckpt", Operand::kCheckpoints, "List, verify, compare, delete, export and import checkpoints.",
     "WHAT is ls, show, verify, diff, prune, pin, unpin, export or import. "
     "DIR is a checkpoint directory, or one step in it. ls lists the checkpoints; "
     "show lists the tensors and values of one. verify reads every byte, of all checkpoints or of one: "
     "the exit code is 1 if one is damaged. diff compares two checkpoints of DIR, "
     "or one of DIR with one of OTHER: the exit code is 1 if they differ. "
     "prune keeps what --keep, --every and --best name, and deletes the rest after it has asked; "
     "it never deletes a pinned checkpoint, the newest one, or the one that the last attempt started from. "
     "pin protects a checkpoint from prune, unpin ends that. "
     "export -o FILE writes the model to a safetensors file, with PyTorch's names; "
     "FILE may also follow DIR. "
     "import makes a checkpoint from such a file in a directory that has none.",
     kCkptFlags, kCkptExamples},
    {"clean", Operand::kNone, "Delete the logs and reports of jobs that have ended.",
     "Deletes the log directories of finished jobs, without flags of all finished jobs, "
     "after it has listed them and asked; never deletes checkpoints. "
     "Keeps jobs that are running, run on another machine, or have left processes behind.",
     kCleanFlags, kCleanExamples},
    {"sweep", Operand::kSweep, "Search hyperparameters: many trials of a program, each one a job.",
     "WHAT is run, preview, status, best, show, resume, cancel, ask, tell, importance, plot, import or export. "
     "run and preview take the flags below, the flags of a job, "
     "and a program in whose arguments {NAME} stands for a parameter; "
     "or a YAML file with the same names, `space` and `program`. "
     "A trial reports with muster.report(), muster::report(), "
     "or a line `MUSTER_METRIC val_loss=0.12 step=3`. "
     "DIR is the directory of a sweep; without it: the newest in ./sweeps. "
     "The exit code of run is 0 if at least one trial has finished with a value. "
     "ask ends with 0 if it has started a trial, 1 if none can start now, 3 if the sweep is over.",
     kSweepFlags, kSweepExamples},
    {"completion", Operand::kShell, "Print the completion script for bash, zsh or fish.", "", kTextFlags,
     kCompletionExamples},
    {"help", Operand::kTopic, "Explain a topic, a command, or everything.",
     "Without an argument: the list of topics.", kTextFlags, kHelpExamples},
    {"man", Operand::kNone, "Print the man page, in roff.", "", kTextFlags, kManExamples},
};

constexpr std::string_view kFutureCommands[] = {"attach", "key", "agent", "k8s", "slurm", "simulate", "ui"};

constexpr ExitCode kExitCodes[] = {
    {"0", "every rank of the last attempt exited 0"},
    {"1 to 255", "the first failing worker's own code, or 128 + the signal that killed it"},
    {"2", "wrong usage: one line says how to correct it"},
    {"69", "not enough nodes; the job may be started again"},
    {"75", "preempted, with a checkpoint of the last step; start the job again"},
    {"124", "a worker hung, or the time limit was reached"},
    {"125", "launch itself failed"},
    {"126, 127", "the program cannot be executed (126), or was not found (127)"},
    {"130, 143", "stopped by Ctrl-C or launch cancel (130), by TERM (143)"},
    {"253", "out of memory, according to the kernel"},
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

std::optional<std::string> refusal_of_word(std::string_view word) {
  const bool is_future = std::ranges::find(kFutureCommands, word) != std::end(kFutureCommands);
  const auto purpose = purpose_of_word(word);
  if (!is_future && !purpose) return std::nullopt;
  return fmt::format("there is no `{0}` command; {1}to run a program named {0}: `launch -- {0}`, or its path",
                     word, purpose ? fmt::format("{}; ", *purpose) : "");
}

FlagTables flags_of(const Command& command) {
  if (command.operand == Operand::kProgram) return {own_flags(), torchrun_flags()};
  if (command.operand == Operand::kSweep) return {sweep_run_flags(), command.own_flags};
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
    case Operand::kSweep: return "WHAT [FLAGS] [PROGRAM... | FILE.yaml | [TRIAL] DIR]";
    case Operand::kCheckpoints: return "[FLAGS] WHAT DIR [OTHER|FILE]";
  }
  return "";
}

std::span<const ExitCode> exit_codes() {
  return kExitCodes;
}

}  // namespace muster::launcher
