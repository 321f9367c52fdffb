// The messages between launcher and agent, as plain structs. docs/protocol.md describes the conversation.
//
// A message travels as the CBOR body of a frame; the frame's type gives the kind of message. Times are
// nanoseconds of the sender's monotonic clock. Unknown fields are ignored, and missing ones get their
// defaults (codec.cc lists the required ones). Launcher and agents of a job have the same version of Muster,
// which Hello carries; kVersion only counts changes of the frame.
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

// How much of the job's input may be on its way to a worker before an InputTaken answers it.
constexpr std::size_t kInputWindowBytes = std::size_t{64} << 10;

// Words that precede the command of some ranks.
struct Wrapper {
  Rank first;
  Rank last;
  std::vector<std::string> words;
};
// The file in the log directory that holds JobSpec::log_nonce, for a job with agents on other hosts.
constexpr std::string_view kLogNonceFile = ".nonce";

// The parts of a job that are the same for all attempts.
struct JobSpec {
  std::string job_id;
  std::vector<std::string> command;                // argv; command[0] is looked up in PATH by the agent
  std::map<std::string, std::string> environment;  // on top of what the agent inherited
  // The launcher's environment, for agents that lack it: overrides the agent's own, but not `environment`.
  std::map<std::string, std::string> inherited;
  std::string interface;  // NAME or CIDR, on which the nodes reach each other; empty: the agent finds one
  std::string working_directory;
  std::string log_directory;  // of this job; docs/reference/files.md lists its files
  // An agent that can read this in kLogNonceFile sees the launcher's log directory. Empty: no check needed.
  std::string log_nonce;
  std::string checkpoint_directory;  // empty: none
  std::string role = "default";
  std::string run_id;  // TORCHELASTIC_RUN_ID; empty: job_id
  std::int32_t max_restarts = 0;
  bool use_gpus = false;                // give each worker its own CUDA_VISIBLE_DEVICES
  bool store_on_agent = true;           // false: rank 0 hosts the store (torch's own server)
  std::int32_t master_port = 0;         // of the store; 0: any free one for each attempt
  bool virtual_local_rank = false;      // LOCAL_RANK is 0 for each worker, which sees only one GPU
  std::vector<std::int32_t> redirects;  // by local rank: 1 stdout, 2 stderr, 3 both are kept off the terminal
  // Lines with one of these texts also go to LOG_DIRECTORY/attempt_A/filtered_stdout.log, ..._stderr.log.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  JobLimits limits;
  bool hang_limit_given = false;  // by the user
  Warm warm = Warm::kAuto;
  // How much of each stream's output may be on its way before an OutputTaken answers it. 0: unlimited.
  std::int64_t output_window_bytes = 0;
  std::int32_t terminal_streams = 0;  // go to a terminal, so workers do not wait: 1 stdout, 2 stderr, 3 both
  std::optional<Rank> input_rank{};   // the rank whose stdin is the job's input; the others have /dev/null
  std::vector<Wrapper> wrappers{};    // several for one rank are put one after the other
  bool trace = false;                 // ranks record what they do and when, in LogFile::kTrace
  Mpi mpi = Mpi::kNone;               // kAuto: each agent examines the program
};

// Launcher to agent.
struct Welcome {
  NodeId node;
  JobSpec job;
};
struct PrepareAttempt {  // check that the program can start, open logs and the store; start nothing yet
  std::int32_t restart_count = 0;  // attempts before this one, including those that ended to add nodes
  std::int32_t node_count = 0;
  std::int32_t world_size = 0;
  Rank first_rank;
  std::int32_t local_world_size = 0;
  bool host_store = false;  // this agent serves the attempt's store, or reserves its port for rank 0
  std::string store_address;
  // The number of agents that share this machine's cores and GPUs in this attempt, and this one's place.
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
  // All addresses of the attempt's nodes; the store accepts connections only from these. Empty: from any.
  std::vector<std::string> peers{};
  // The checkpoint directory must be the one where the launcher began this attempt.
  bool same_checkpoints = false;
  // The address on which the agent listens for its neighbours (ToNeighbour); empty: it has none.
  std::string neighbour_address{};
  // For an MPI job: the number of ranks of each of the attempt's nodes, in their order; otherwise empty.
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
  std::int32_t signal = 15;   // sent first
  std::int64_t grace_ns = 0;  // then KILL; 0: KILL at once
};
struct DumpStacks {};  // for all workers of the attempt; the agent answers with one WorkerStacks for each
struct Preempt {       // pass the notice on to workers that can save and leave
  std::int64_t grace_ns = 0;
};
struct SignalWorkers {  // send a signal from the user to every running worker; nothing else changes
  std::int32_t signal = 0;
};
struct StandBy {  // the agent is not in the running attempt, but may be in the next: load the program for it
  std::int32_t local_world_size = 0;  // these three as PrepareAttempt will most likely have them
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
};
struct Leave {};  // the job is over: stop what still runs, and exit
struct Ping {
  std::int64_t sent_ns = 0;
  bool output_waits = false;  // some rank's output is held up: a rank that waits for its output does not hang
  bool usage = false;         // the Pong should report what the ranks use
};
// How much of the output on this connection its reader has taken or discarded. Sent after each quarter of the
// window, and once a second as long as the reader takes anything.
struct OutputTaken {
  std::int32_t stream = 1;  // 1 stdout, 2 stderr
  std::int64_t bytes = 0;   // of text, since the connection began
};
// The next part of the job's input, for the stdin of the worker that gets it.
struct Input {
  Bytes text;
  bool end = false;  // no more follows: close the worker's stdin after the text
};
// How much of a log file the launcher's copy has; answers a LogPiece.
struct LogTaken {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t bytes = 0;  // from the file's beginning; not to be sent again
  bool stopped = false;     // the copy cannot be written any more: send no more of this file
};

// A question of `launch check`, sent before any Welcome; HostChecked answers it. Asks what a job would find
// on the host or, with addresses, whether the host can connect to them.
struct CheckHost {
  JobSpec job;
  std::string mark;                      // a file that the launcher wrote into the checkpoint directory
  std::vector<std::string> addresses{};  // "10.77.0.11 40123", each with its port
};

// Agent to launcher.
struct Hello {
  NodeId node;
  std::int32_t pid = 0;
  std::string hostname;
  std::string version;  // of the program
  std::int32_t core_count = 0;
  Incarnation incarnation{1};
  // "eth0 10.77.0.10/24", for each interface that is up; not loopback. Empty from the launcher's own host.
  std::vector<std::string> addresses{};
  // Equal for agents that share cores and GPUs, whatever host names they were started with; empty: unknown.
  std::string machine{};
};
struct AttemptPrepared {
  std::int32_t store_port = 0;  // of the agent that hosts the store, else 0
  // How this node's checkpoint directory differs from the launcher's, such as "is not there". Empty: it does
  // not differ, or was not checked.
  std::string other_checkpoints{};
  std::int32_t neighbour_port = 0;  // where the agent listens for neighbours; 0: nowhere
  std::vector<Rank> held_ranks{};   // the ranks whose checkpoints the agent holds in memory
};
struct AttemptRefused {  // the attempt cannot start on this node, and neither could the next one
  // 126 cannot execute, 127 not found, 2 a directory cannot be used, 125 any other reason.
  std::int32_t exit_code = 125;
  std::string message;
  bool unreachable = false;  // the store cannot be reached at the address in StartWorkers
  bool no_answer = false;    // no answer came in time, so the network of the store's host may be the cause
  std::string missing{};     // the working directory or program, if it does not exist
};
struct WorkersStarted {
  std::vector<std::int32_t> pids;  // by local rank
  std::int32_t warm_count = 0;     // the number of workers forked from the template
  std::string executed_because{};  // why the others were executed, if they might have been forked
};
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  std::int64_t at_ns = 0;               // when the agent noticed the end
  bool after_stop = false;              // the agent had already been told to stop the workers
  std::string error_file;               // the content of TORCHELASTIC_ERROR_FILE, at most 64 KiB
  std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  std::int64_t oom_kill_count = 0;      // counted by the memory cgroup during this attempt; 0: none seen
  std::int64_t memory_limit_bytes = 0;  // of that cgroup
  std::int64_t peak_memory_bytes = 0;   // of the worker
  bool core_dumped = false;
  std::string gpu_fault;  // NVML's report about its GPU: "XID 79: GPU has fallen off the bus (GPU 3)"
  // Why the rank failed, according to its agent's MPI server: "called MPI_Abort with 3". Empty: not known.
  std::string mpi_fault{};
  bool ran_last_line = false;  // of its Python script, and its interpreter then ended
};
// A worker lives but makes no progress. `hard`: it passed its limit, and the attempt should be stopped.
struct WorkerStalled {
  Rank rank;
  bool stopped = false;  // its process is stopped or frozen (state T, or the freezer)
  bool hard = false;
  std::string what;           // one clause: "is stopped (SIGSTOP) for 3 s"
  std::string section;        // the innermost one, or empty
  std::int64_t step = -1;     // the newest that the worker reported
  std::int64_t since_ns = 0;  // the last progress, by the agent's clock
  std::string frame{};        // it reports no steps, and its main thread stays in this frame; otherwise empty
  bool over = false;          // a rank that stayed in a frame has moved on
};
struct WorkerStacks {
  Rank rank;
  std::string text;  // at most 64 KiB
};
struct AgentRemark {  // one line for the user
  std::string text;
  std::optional<std::uint64_t> saved_step{};  // this step, held in memory before, is now a checkpoint
};
// The worker lives after SIGKILL. WorkersGone follows when it ends; the launcher waits for it a while.
struct WorkerUnkillable {
  Rank rank;
  std::int32_t pid = 0;
  std::string what;  // one clause: "has not ended 3 s after SIGKILL"
};
// Processes that workers left behind are still alive after SIGKILL; WorkersGone follows without waiting for
// them. Empty: the agent could not find out what is left.
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
  std::uint64_t dropped_line_count = 0;  // before this text, because the launcher could not keep up
};
struct WorkerReported {  // a worker's report over MUSTER_SOCKET
  Rank rank;
  ReportKind kind = ReportKind::kHeartbeat;  // never one that stays with the agent (worker_report.h)
  std::int64_t step = 0;                     // for a profile: the number of steps
  std::string text;
  std::int64_t busy_ns = 0;  // of the step, without waiting for other ranks; 0: not reported
  std::map<std::string, std::int64_t> parts_ns{};  // profile: the time of each part, over all these steps
  std::string group{};                             // step: the group that made the step; empty: the world
  std::string loss{};                              // of the step, as text; empty: not reported
  std::int64_t samples = 0;                        // of the step, on this rank; 0: not reported
  std::map<std::string, double> values{};          // metric: by name; may be NaN or infinite
};
struct Pong {
  std::int64_t sent_ns = 0;   // of the Ping
  std::int64_t at_ns = 0;     // when the agent answered
  bool output_waits = false;  // some rank's, for the launcher or a log file
  std::vector<RankUsage> usage{};
};
// How much of the attempt's input, in bytes since its beginning, the agent has written to the worker's pipe,
// and how much of that the worker has read. Sent whenever some was written, before the worker's end is
// reported, and after a Ping if the worker has read more.
struct InputTaken {
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;
};
struct LogsElsewhere {  // this node's ranks' logs are on its own host, and are sent as LogPiece
  std::string directory;
};
// The content of a rank's log file from `offset` on, for the attempt in the frame. Bytes between the last
// piece and this one were removed, to stay within --log-limit.
struct LogPiece {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t offset = 0;
  Bytes text;
  bool last = false;             // the file is complete
  std::uint64_t left_bytes = 0;  // of all files of the node: written, but not sent yet
};

// The order fixes the frame types: launcher to agent from 1, agent to launcher from 64. Append at the end.
using ToAgent =
    std::variant<Welcome, PrepareAttempt, StartWorkers, StopWorkers, Leave, Ping, DumpStacks, Preempt,
                 SignalWorkers, StandBy, OutputTaken, Input, CheckHost, LogTaken, MpiTold>;
using ToLauncher =
    std::variant<Hello, AttemptPrepared, AttemptRefused, WorkersStarted, WorkerExited, WorkersGone, Output,
                 WorkerReported, Pong, WorkerStalled, WorkerStacks, AgentRemark, WorkerUnkillable,
                 LeftoversUnkillable, InputTaken, HostChecked, LogsElsewhere, LogPiece, MpiAsked>;

}  // namespace muster::wire
