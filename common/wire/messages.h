// The messages between launcher and agent, as plain structs. docs/protocol.md describes the conversation.
//
// A message travels as the CBOR body of a frame whose type is its kind. Times are nanoseconds of the sender's
// monotonic clock. Unknown fields are ignored, and missing ones have their defaults (codec.cc lists those
// that are required). Launcher and agents of a job are of one version of Muster, which Hello says: kVersion
// counts changes of the frame, and of nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// Of the job's input, so much may be on its way to a worker that no InputTaken has answered.
constexpr std::size_t kInputWindowBytes = std::size_t{64} << 10;

// Words that stand before the command of some ranks.
struct Wrapper {
  Rank first;
  Rank last;
  std::vector<std::string> words;
};
// In a job's log directory, when it has agents on other hosts: holds JobSpec::log_nonce.
constexpr std::string_view kLogNonceFile = ".nonce";

// What all attempts of a job have in common.
struct JobSpec {
  std::string job_id;
  std::vector<std::string> command;                // argv; command[0] is looked up in PATH by the agent
  std::map<std::string, std::string> environment;  // on top of what the agent inherited
  // Of the launcher's own environment, for agents that did not inherit it: below `environment`, on top of the
  // agent's.
  std::map<std::string, std::string> inherited;
  std::string interface;  // NAME or CIDR, by which the nodes reach each other; empty: it is found out
  std::string working_directory;
  std::string log_directory;  // of this job; docs/reference/files.md lists its files
  // Who reads it in kLogNonceFile sees the launcher's log directory. Empty: nobody needs to find that out.
  std::string log_nonce;
  std::string checkpoint_directory;  // empty: none
  std::string role = "default";
  std::string run_id;  // TORCHELASTIC_RUN_ID; empty: job_id
  std::int32_t max_restarts = 0;
  bool use_gpus = false;                // give each worker its own CUDA_VISIBLE_DEVICES
  bool store_on_agent = true;           // false: rank 0 hosts the store (torch's own server)
  std::int32_t master_port = 0;         // of the store; 0: any free one for each attempt
  bool virtual_local_rank = false;      // LOCAL_RANK is 0 for each worker, which sees one GPU only
  std::vector<std::int32_t> redirects;  // by local rank: 1 stdout, 2 stderr, 3 both kept off the terminal
  // Lines with one of these texts go to LOG_DIRECTORY/attempt_A/filtered_stdout.log and ..._stderr.log as
  // well.
  std::vector<std::string> stdout_filters;
  std::vector<std::string> stderr_filters;
  JobLimits limits;
  Warm warm = Warm::kAuto;
  // So much of each stream's output may be on its way that no OutputTaken has answered. 0: any amount.
  std::int64_t output_window_bytes = 0;
  std::int32_t terminal_streams = 0;  // 1 stdout, 2 stderr, 3 both: of a terminal, which is not waited for
  std::optional<Rank> input_rank{};   // gets the job's input as its stdin; the others have /dev/null
  std::vector<Wrapper> wrappers{};    // those of one rank stand one behind the other
  bool trace = false;                 // ranks say what they do and when, in LogFile::kTrace
  Mpi mpi = Mpi::kNone;               // kAuto: each agent looks at the program
};

// Launcher to agent.
struct Welcome {
  NodeId node;
  JobSpec job;
};
struct PrepareAttempt {  // check that the program can be started, open logs, open the store; nothing is
                         // started yet
  std::int32_t restart_count = 0;  // attempts before this one, also those that were ended for added nodes
  std::int32_t node_count = 0;
  std::int32_t world_size = 0;
  Rank first_rank;
  std::int32_t local_world_size = 0;
  bool host_store = false;  // this agent serves the attempt's store, or keeps its port for rank 0
  std::string store_address;
  // Agents that share this machine's cores and GPUs in this attempt; this one is agent_on_host of them.
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
  // All addresses of the attempt's nodes; the store takes connections from these only. Empty: from any.
  std::vector<std::string> peers{};
  // The checkpoint directory must be the one in which the launcher has begun this attempt.
  bool same_checkpoints = false;
  // Where this agent is to listen for its neighbours (ToNeighbour); empty: it has none.
  std::string neighbour_address{};
  // Of an MPI job: the ranks of each of the attempt's nodes, in their order; else empty.
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
struct DumpStacks {};  // of all workers of the attempt; answered by a WorkerStacks for each
struct Preempt {       // pass the notice on to workers that can save and leave
  std::int64_t grace_ns = 0;
};
struct SignalWorkers {  // one signal of the user's for every worker that runs; nothing else changes
  std::int32_t signal = 0;
};
struct StandBy {  // takes no part in the attempt that runs, but may in the next: the program is loaded for it
  std::int32_t local_world_size = 0;  // these as PrepareAttempt will most likely have them
  std::int32_t agents_on_host = 1;
  std::int32_t agent_on_host = 0;
};
struct Leave {};  // the job is over: stop what still runs, and exit
struct Ping {
  std::int64_t sent_ns = 0;
  bool output_waits = false;  // of some rank of the job: what it holds up is no hang
  bool usage = false;         // the Pong is to say what the ranks use
};
// How much of the output that came over this connection has been taken by its reader, or thrown away. Said
// after each quarter of the window, and once a second while anything is taken at all.
struct OutputTaken {
  std::int32_t stream = 1;  // 1 stdout, 2 stderr
  std::int64_t bytes = 0;   // of text, since the connection began
};
// Of the job's input, for the stdin of the attempt's worker that gets it: what follows what was sent before.
struct Input {
  Bytes text;
  bool end = false;  // nothing follows: the worker's stdin is closed behind the text
};
// How much of a log file the launcher's copy has, after a LogPiece.
struct LogTaken {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t bytes = 0;  // from the file's beginning; they need not be sent again
  bool stopped = false;     // the copy cannot be written any more: no more of the file is to be sent
};

// Of `launch check`, before any Welcome; answered by HostChecked. Either what a job would find on the host,
// or, with addresses, whether they can be reached from it.
struct CheckHost {
  JobSpec job;
  std::string mark;                      // a file that the launcher has left in the checkpoint directory
  std::vector<std::string> addresses{};  // "10.77.0.11 40123", each with the port
};

// Agent to launcher.
struct Hello {
  NodeId node;
  std::int32_t pid = 0;
  std::string hostname;
  std::string version;  // of the program
  std::int32_t core_count = 0;
  Incarnation incarnation{1};
  // Of its host, of interfaces that are up, without loopback and link-local ones: "eth0 10.77.0.10/24". None
  // from agents on the launcher's host.
  std::vector<std::string> addresses{};
  // The same of agents that share cores and GPUs, under whatever names they were started; empty: not known.
  std::string machine{};
};
struct AttemptPrepared {
  std::int32_t store_port = 0;  // of the agent that hosts the store, else 0
  // How the checkpoint directory differs from the launcher's: "is not there". Empty: not, or unasked.
  std::string other_checkpoints{};
  std::int32_t neighbour_port = 0;  // where it listens for them; 0: it does not
  std::vector<Rank> held_ranks{};   // of which it holds something in memory
};
struct AttemptRefused {  // the attempt cannot be started on this node, and the next one could not either
  // 126 cannot execute, 127 not found, 2 a directory cannot be used, 125 anything else.
  std::int32_t exit_code = 125;
  std::string message;
  bool unreachable = false;  // the store cannot be reached where StartWorkers says
  bool no_answer = false;    // nothing came back in time, so that its host may be the one that is cut off
  std::string missing{};     // the working directory or program, if it is not there
};
struct WorkersStarted {
  std::vector<std::int32_t> pids;  // by local rank
  std::int32_t warm_count = 0;     // of them forked from the template
  std::string executed_because{};  // why the others were not, if they might have been
};
struct WorkerExited {
  Rank rank;
  LocalRank local_rank;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  std::int64_t at_ns = 0;               // when the agent saw it
  bool after_stop = false;              // the agent had already been told to stop the workers
  std::string error_file;               // what the worker left in TORCHELASTIC_ERROR_FILE, at most 64 KiB
  std::vector<std::string> last_lines;  // of stderr, or of stdout when stderr is empty
  std::int64_t oom_kill_count = 0;      // that the memory cgroup counted during this attempt; 0: none seen
  std::int64_t memory_limit_bytes = 0;  // of that cgroup
  std::int64_t peak_memory_bytes = 0;   // of the worker
  bool core_dumped = false;
  std::string gpu_fault;  // what NVML said of its GPU: "XID 79: GPU has fallen off the bus (GPU 3)"
  // What made it fail, by its agent's MPI server: "called MPI_Abort with 3". Empty: nothing.
  std::string mpi_fault{};
};
// A worker that lives and does not get on. `hard`: its limit has passed, and the attempt is to be stopped;
// else it is only worth telling.
struct WorkerStalled {
  Rank rank;
  bool stopped = false;  // its process is stopped or frozen (state T, or the freezer)
  bool hard = false;
  std::string what;           // one clause: "is stopped (SIGSTOP) for 3 s"
  std::string section;        // the innermost, or empty
  std::int64_t step = -1;     // the newest it reported
  std::int64_t since_ns = 0;  // when it last got on, by the agent's clock
};
struct WorkerStacks {
  Rank rank;
  std::string text;  // at most 64 KiB
};
struct AgentRemark {  // one line for the user
  std::string text;
  std::optional<std::uint64_t> saved_step{};  // what was held in memory of it is a checkpoint now
};
// It was killed, and still lives: WorkersGone follows its end, for which the launcher waits a while.
struct WorkerUnkillable {
  Rank rank;
  std::int32_t pid = 0;
  std::string what;  // one clause: "has not ended 3 s after SIGKILL"
};
// Processes that workers left were killed, and still live: WorkersGone follows without them. Empty: there was
// no telling what is left.
struct LeftoversUnkillable {
  std::vector<Leftover> left;
};
// Every process of the attempt on this node has ended, but for those that LeftoversUnkillable was about.
struct WorkersGone {};
struct Output {  // whole lines for the terminal
  Rank rank;
  LocalRank local_rank;
  std::int32_t stream = 1;  // 1 stdout, 2 stderr
  Bytes text;
  std::uint64_t dropped_line_count = 0;  // before this text, because the launcher did not keep up
};
struct WorkerReported {  // what a worker said over MUSTER_SOCKET
  Rank rank;
  ReportKind kind = ReportKind::kHeartbeat;  // none that is the agent's own business (section, idle, stacks)
  std::int64_t step = 0;                     // profile: how many
  std::string text;
  std::int64_t busy_ns = 0;  // of the step, without the waiting for other ranks; 0: not said
  std::map<std::string, std::int64_t> parts_ns{};  // profile: where the time of all these steps went
  std::string group{};                             // step: in which it was made; empty: the world
  std::string loss{};                              // of the step, as text; empty: not said
  std::int64_t samples = 0;                        // of the step, on this rank; 0: not said
};
struct Pong {
  std::int64_t sent_ns = 0;   // of the Ping
  std::int64_t at_ns = 0;     // when the agent answered
  bool output_waits = false;  // a rank's, for the launcher or a log file
  std::vector<RankUsage> usage{};
};
// How much of the attempt's input, in bytes since its beginning, the worker's pipe has taken, and how much of
// that the worker has read. Said whenever the pipe takes some, before the worker's end is told, and after a
// Ping if more was read since.
struct InputTaken {
  std::int64_t written_bytes = 0;
  std::int64_t read_bytes = 0;
};
struct LogsElsewhere {  // the ranks' logs of this node are kept on its host, and sent as LogPiece
  std::string directory;
};
// What a rank's log file, in the attempt of the frame, holds from `offset` on. What lies between the last
// piece and this one has been removed, to keep to --log-limit.
struct LogPiece {
  Rank rank;
  LogFile file = LogFile::kStdout;
  std::uint64_t offset = 0;
  Bytes text;
  bool last = false;             // the file is complete
  std::uint64_t left_bytes = 0;  // of all files of the node, that have been written and not been sent
};

// The order fixes the frame types: launcher to agent from 1, agent to launcher from 64.
using ToAgent =
    std::variant<Welcome, PrepareAttempt, StartWorkers, StopWorkers, Leave, Ping, DumpStacks, Preempt,
                 SignalWorkers, StandBy, OutputTaken, Input, CheckHost, LogTaken, MpiTold>;
using ToLauncher =
    std::variant<Hello, AttemptPrepared, AttemptRefused, WorkersStarted, WorkerExited, WorkersGone, Output,
                 WorkerReported, Pong, WorkerStalled, WorkerStacks, AgentRemark, WorkerUnkillable,
                 LeftoversUnkillable, InputTaken, HostChecked, LogsElsewhere, LogPiece, MpiAsked>;

}  // namespace muster::wire
