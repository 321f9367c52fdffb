// The messages between launcher and agent, as plain structs. docs/protocol.md describes when they are sent.
// A message is sent as the CBOR body of a frame. The frame's type says which message it is. Times are
// nanoseconds of the sender's monotonic clock. Unknown fields are ignored, and missing ones get their
// defaults (codec.cc lists the required ones). Launcher and agents of a job have the same version of Muster,
// which Hello carries. kVersion is the version of the frame's layout, and does not count changes of messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "common/wire/bytes.h"
#include "common/wire/host_checked.h"
#include "common/wire/job_limits.h"
#include "common/wire/mpi_messages.h"
#include "common/wire/neighbour_messages.h"
#include "common/wire/usage.h"
#include "common/wire/words.h"

namespace muster::wire {

// How much of the job's input can be sent to a worker before an InputTaken answers it.
constexpr std::size_t kInputWindowBytes = std::size_t{64} << 10;

// Words that are put before the command, for the ranks from `first` to `last`.
struct Wrapper {
  Rank first;
  Rank last;
  std::vector<std::string> words;
};
// The file in the log directory that contains JobSpec::log_nonce, for a job with agents on other hosts.
constexpr std::string_view kLogNonceFile = ".nonce";

// The parts of a job that are the same for all attempts.
struct JobSpec {
  std::string job_id;
  std::vector<std::string> command;                // argv; the agent looks up command[0] in PATH
  std::map<std::string, std::string> environment;  // added to the agent's environment
  // The launcher's environment, for agents that have not inherited it. `environment` has precedence.
  std::map<std::string, std::string> inherited;
  std::string interface;  // the network between the nodes, as NAME or CIDR; empty: the agent finds one
  std::string working_directory;
  std::string log_directory;  // of this job; docs/reference/files.md lists its files
  // An agent that finds this text in kLogNonceFile sees the launcher's log directory. Empty: no check.
  std::string log_nonce;
  std::string checkpoint_directory;  // empty: none
  std::string role = "default";
  std::string run_id;  // TORCHELASTIC_RUN_ID; empty: job_id
  std::int32_t max_restarts = 0;
  bool use_gpus = false;                // give each worker its own CUDA_VISIBLE_DEVICES
  bool store_on_agent = true;           // false: rank 0 serves the store (torch's own server)
  std::int32_t master_port = 0;         // of the store; 0: any free one for each attempt
  bool virtual_local_rank = false;      // each worker sees only one GPU, and its LOCAL_RANK is 0
  bool share_gpus = false;              // on a machine with more workers than GPUs, workers share them
  std::vector<std::int32_t> redirects;  // streams hidden from the terminal, by local rank: 1, 2 or 3 (both)
  // Lines that contain one of these texts are also written to filtered_stdout.log or filtered_stderr.log.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  JobLimits limits;
  bool hang_limit_given = false;  // the user has set limits.hang_limit
  Warm warm = Warm::kAuto;
  // How many bytes of each stream's output can be sent before an OutputTaken answers them. 0: unlimited.
  std::int64_t output_window_bytes = 0;
  std::int32_t terminal_streams = 0;  // streams that go to a terminal: 1 stdout, 2 stderr, 3 both
  std::optional<Rank> input_rank{};   // the rank whose stdin is the job's input; other ranks have /dev/null
  std::vector<Wrapper> wrappers{};    // if a rank has several, their words are put one after the other
  bool trace = false;                 // ranks record what they do and when, in LogFile::kTrace
  Mpi mpi = Mpi::kNone;               // kAuto: each agent examines the program
};

// Launcher to agent.
struct Welcome {
  NodeId node;
  JobSpec job;
};
struct PrepareAttempt {  // asks the agent to check that the program can start, and to open logs and the store
  std::int32_t restart_count = 0;  // attempts before this one, including those that ended to add nodes
  std::int32_t node_count = 0;
  std::int32_t world_size = 0;
  Rank first_rank;
  std::int32_t local_world_size = 0;
  bool host_store = false;  // this agent serves the attempt's store, or reserves its port for rank 0
  std::string store_address;
  // How many agents share this machine's cores and GPUs in this attempt, and this agent's index among them.
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
  // All addresses of the attempt's nodes. The store accepts connections only from these. Empty: from any.
  std::vector<std::string> peers{};
  // If true, the agent checks that its checkpoint directory is the one where the launcher began this attempt.
  bool same_checkpoints = false;
  // The agent listens on this address for its neighbours (ToNeighbour). Empty if it has no neighbours.
  std::string neighbour_address{};
  // For an MPI job: the number of ranks of each node, in the order of the nodes. Otherwise empty.
  std::vector<std::int32_t> rank_counts{};

  Rank rank_of(LocalRank local_rank) const { return Rank(first_rank.value() + local_rank.value()); }
};
struct StartWorkers {
  std::string master_address;
  std::int32_t master_port = 0;
  std::optional<std::uint64_t> resume_step;
  std::vector<Neighbour> neighbours{};
};
struct StopWorkers {
  std::int32_t signal = 15;   // the signal that is sent first
  std::int64_t grace_ns = 0;  // KILL follows after this time; 0: KILL at once
};
struct DumpStacks {};  // asks for the stacks of all workers; the agent answers with a WorkerStacks for each
struct Preempt {       // asks the agent to tell workers that can save and exit to do so
  std::int64_t grace_ns = 0;
};
struct SignalWorkers {  // a signal from the user, for every running worker; nothing else changes
  std::int32_t signal = 0;
};
struct StandBy {  // the agent may be in the next attempt, though not in this one: asks it to load the program
  std::int32_t local_world_size = 0;  // this and the next two: as PrepareAttempt will probably have them
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
};
struct Leave {};  // the job is over: asks the agent to stop what still runs, and to exit
struct Ping {
  std::int64_t sent_ns = 0;
  bool output_waits = false;  // some rank waits until its output is taken; such a wait is not a hang
  bool usage = false;         // the Pong should report what the ranks use
};
// How much of the output on this connection the launcher has taken or discarded. The launcher sends this
// after each quarter of the window, and once a second as long as it takes anything.
struct OutputTaken {
  std::int32_t stream = 1;  // 1 stdout, 2 stderr
  std::int64_t bytes = 0;   // bytes of text, since the connection began
};
// The next part of the job's input. It goes to the stdin of one worker (JobSpec::input_rank).
struct Input {
  Bytes text;
  bool end = false;  // the input ends after this text: close the worker's stdin
};
// Answers a LogPiece: how much of a log file the launcher's copy has.
struct LogTaken {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t bytes = 0;  // from the file's beginning on; these need not be sent again
  bool stopped = false;     // the copy cannot be written any more: send no more of this file
};

// A question of `launch check`, sent instead of Welcome. HostChecked answers it. Without addresses, it asks
// what a job would find on the host. With addresses, it asks whether the host can connect to them.
struct CheckHost {
  JobSpec job;
  std::string mark;                      // a file that the launcher wrote into the checkpoint directory
  std::vector<std::string> addresses{};  // each with a port, such as "10.77.0.11 40123"
};

// Agent to launcher.
struct Hello {
  NodeId node;
  std::int32_t pid = 0;
  std::string hostname;
  std::string version;  // of the program
  std::int32_t core_count = 0;
  Incarnation incarnation{1};
  // The host's addresses, such as "eth0 10.77.0.10/24". Empty if the agent is on the launcher's host.
  std::vector<std::string> addresses{};
  // Equal for all agents that share cores and GPUs, even if their host names differ. Empty: unknown.
  std::string machine{};
};
struct AttemptPrepared {
  std::int32_t store_port = 0;  // the port of the store, if it is on this node; otherwise 0
  // Why the agent does not see the checkpoint directory of the launcher, for example "is not there". Empty if
  // it sees the same directory, or if nothing was checked.
  std::string other_checkpoints{};
  std::int32_t neighbour_port = 0;  // where the agent listens for neighbours; 0: nowhere
  std::vector<Rank> held_ranks{};   // the ranks whose checkpoints the agent has in memory
};
struct AttemptRefused {  // the attempt cannot start on this node, and another attempt could not either
  // The launcher's exit code: 126 cannot execute, 127 not found, 2 an error that the user can fix, 125 other.
  std::int32_t exit_code = 125;
  std::string message;
  bool unreachable = false;  // the store cannot be reached at the address in StartWorkers
  bool no_answer = false;    // the store did not answer in time, so the network of its host may be the cause
  std::string missing{};     // the working directory, script or program that does not exist; or empty
};
struct WorkersStarted {
  std::vector<std::int32_t> pids;  // by local rank
  std::int32_t warm_count = 0;     // how many workers were forked from the template
  std::string executed_because{};  // why workers were executed that might have been forked
};
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // valid if `signal` is 0
  std::int32_t signal = 0;
  std::int64_t at_ns = 0;               // when the agent noticed the end
  bool after_stop = false;              // the worker ended after the agent was told to stop it
  std::string error_file;               // the content of TORCHELASTIC_ERROR_FILE, at most 64 KiB
  std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  std::int64_t oom_kill_count = 0;      // kills for lack of memory that may explain the end
  std::int64_t memory_limit_bytes = 0;  // the limit of the worker's cgroup; 0: none known
  std::int64_t peak_memory_bytes = 0;   // of the worker
  bool core_dumped = false;
  std::string gpu_fault;  // NVML's report: "XID 79: GPU has fallen off the bus (GPU 3)"; or empty
  // Why the rank failed, according to the MPI server, such as "called MPI_Abort with 3". Empty: unknown.
  std::string mpi_fault{};
  bool ran_last_line = false;  // its Python interpreter ended after the last line of the script
};
// A worker makes no progress. `hard`: it has exceeded its limit, and the attempt should be stopped.
struct WorkerStalled {
  Rank rank;
  bool stopped = false;  // its process is stopped (state T), or frozen by its cgroup
  bool hard = false;
  std::string what;           // one clause, such as "is stopped (SIGSTOP) for 3 s"
  std::string section;        // the innermost section, or empty
  std::int64_t step = -1;     // the newest step that the worker has reported
  std::int64_t since_ns = 0;  // when the worker last made progress, by the agent's clock
  std::string frame{};        // set if it reports no steps, and its main thread stays in this frame
  bool over = false;          // not a stall: a rank that stayed in a frame has moved on
};
struct WorkerStacks {
  Rank rank;
  std::string text;  // at most 64 KiB
};
struct AgentRemark {  // one line for the user
  std::string text;
  std::optional<std::uint64_t> saved_step{};  // a step in memory that was written to disk
};
// A worker is still alive after SIGKILL. WorkersGone follows when it has ended.
struct WorkerUnkillable {
  Rank rank;
  std::int32_t pid = 0;
  std::string what;  // one clause, such as "has not ended 3 s after SIGKILL"
};
// Processes that workers left behind are still alive after SIGKILL. The agent does not wait for them before
// it sends WorkersGone. `left` is empty if the agent could not find out which they are.
struct LeftoversUnkillable {
  std::vector<Leftover> left;
};
// Every process of the attempt on this node has ended, except those in LeftoversUnkillable.
struct WorkersGone {};
struct Output {  // whole lines for the terminal
  Rank rank;
  LocalRank local_rank;
  std::int32_t stream = 1;  // 1 stdout, 2 stderr
  Bytes text;
  std::uint64_t dropped_line_count = 0;  // lines that were dropped before this text
};
struct WorkerReported {  // a worker's report over MUSTER_SOCKET
  Rank rank;
  ReportKind kind = ReportKind::kHeartbeat;  // only kinds that the agent passes on (is_for_launcher())
  std::int64_t step = 0;                     // with kProfile: the number of steps
  std::string text;
  std::int64_t busy_ns = 0;  // the step's time without waiting for other ranks; 0: not reported
  std::map<std::string, std::int64_t> parts_ns{};  // kProfile: the time of each part in these steps
  std::string group{};                             // kStep: the group that made the step; empty: all ranks
  std::string loss{};                              // kStep: the loss, as text; empty: not reported
  std::int64_t samples = 0;                        // kStep: samples on this rank; 0: not reported
  std::map<std::string, double> values{};          // kMetric: by name; can be NaN or infinite
};
struct Pong {
  std::int64_t sent_ns = 0;   // copied from the Ping
  std::int64_t at_ns = 0;     // when the agent answered
  bool output_waits = false;  // some rank waits until the launcher or a log file takes its output
  std::vector<RankUsage> usage{};
};
// How much of the attempt's input the agent has written to the worker's pipe, and how much of this the worker
// has read, in bytes. The agent sends this message when it has written some input, and before it reports the
// worker's end. If the worker has read more, the agent also sends this message after a Ping.
struct InputTaken {
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;
};
struct LogsElsewhere {  // this node keeps its logs in its own directory, and sends them as LogPiece
  std::string directory;
};
// The content of a rank's log file from `offset` on. The frame has the number of the attempt. If there are
// bytes between the last piece and this one, they were removed, to stay within --log-limit.
struct LogPiece {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t offset = 0;
  Bytes text;
  bool last = false;             // the file is complete
  std::uint64_t left_bytes = 0;  // bytes of all files of the node that are written, but not sent yet
};

// The order determines the frame types (frame.h), so append new messages at the end.
using ToAgent =
    std::variant<Welcome, PrepareAttempt, StartWorkers, StopWorkers, Leave, Ping, DumpStacks, Preempt,
                 SignalWorkers, StandBy, OutputTaken, Input, CheckHost, LogTaken, MpiTold>;
using ToLauncher =
    std::variant<Hello, AttemptPrepared, AttemptRefused, WorkersStarted, WorkerExited, WorkersGone, Output,
                 WorkerReported, Pong, WorkerStalled, WorkerStacks, AgentRemark, WorkerUnkillable,
                 LeftoversUnkillable, InputTaken, HostChecked, LogsElsewhere, LogPiece, MpiAsked>;

}  // namespace muster::wire
