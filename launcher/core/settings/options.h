// The wishes of the user, as values. Settings come from flags, the environment and a file. Options are made
// from the settings.
//
// If an option is set in several places, the first of these counts: the flag, the variable MUSTER_NAME, the
// variable PET_NAME (torchrun's own), the configuration file. If it is set in none, it has its default. Pure:
// make_plan() (plan.h) adds what the machine has. An error is one line. It names the flag, variable or key,
// its value, and what would be right.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/wire/job_limits.h"
#include "common/wire/words.h"
#include "launcher/core/settings/flags.h"
#include "launcher/core/settings/hosts.h"
#include "launcher/core/text/number_ranges.h"

namespace muster::launcher {

struct Setting {
  std::string source;  // for messages: "--nodes", "MUSTER_NODES", "nodes in job.yaml"
  std::vector<std::string> values;
};
// Settings by option name. Switches hold "1" or "0".
using Settings = std::map<std::string, Setting, std::less<>>;
using Environment = std::map<std::string, std::string, std::less<>>;

// Adds a value to the setting of the flag's option. Several flags can stand for one option: --nodes and its
// alias --nnodes both set the option `nodes`. It is an error if another flag has already set this option.
// `source` is the flag or variable as the user wrote it.
Status add_setting(Settings& settings, const Flag& flag, std::string source, std::string value);

// Returns the settings from environment variables. If this process is a worker of another job, the variables
// that were set for that worker are ignored. It is an error if a variable is that of an unsupported flag.
Expected<Settings> settings_from_environment(const Environment& environment);

enum class Device { kAuto, kCuda, kCpu };
// Says how the launcher talks to agents. If it is kAuto, the launcher chooses
// - an inherited socket, for an agent on this machine;
// - TCP, for another agent, if that agent can connect;
// - the host shell, for all other agents.
enum class Control { kAuto, kSocket, kTcp, kStdio };

struct WorkerCount {
  enum class Kind { kNumber, kAuto, kGpu, kCpu } kind = Kind::kNumber;
  std::int32_t number = 1;                 // for kNumber
  std::string source = "--gpus-per-node";  // for messages
  bool given = false;                      // the user gave it: wins over the hosts' slots
};

// Says how the job handles failures and the end of its time.
struct RecoveryOptions {
  Duration restart_window = std::chrono::hours(1);  // max_restarts counts within this time
  Duration restart_delay = std::chrono::seconds(1);
  std::int32_t no_progress_limit = 3;                    // zero: no limit
  Duration node_exclusion = std::chrono::seconds(600);   // zero: nodes are never excluded
  Duration preemption_grace = std::chrono::seconds(30);  // from the notice to TERM
  std::optional<Duration> time_limit;
  // When enough nodes have joined, the first attempt waits for more. It starts when no node has joined for
  // this long.
  Duration start_timeout = std::chrono::seconds(30);
};

// The rank that gets the launcher's stdin.
struct InputOption {
  std::string source;  // for messages
  std::int32_t rank = 0;
};

// A command that runs the programs of some ranks. It stands before the program.
struct WrapperOption {
  std::string source;    // for messages
  NumberRanges ranks{};  // empty: all ranks
  std::vector<std::string> words{};
};

struct Options {
  std::int32_t nodes = 1;                 // MAX in MIN:MAX
  std::optional<std::int32_t> min_nodes;  // MIN in MIN:MAX
  std::optional<std::int32_t> max_nodes;  // hosts may be added up to this; empty: `nodes`
  std::int32_t spare_nodes = 0;
  WorkerCount workers_per_node;
  Device device = Device::kAuto;
  std::int32_t max_restarts = 3;
  RecoveryOptions recovery;
  wire::JobLimits limits;
  bool hang_limit_given = false;
  wire::Warm warm = wire::Warm::kAuto;
  std::string log_directory;         // absolute
  std::string checkpoint_directory;  // absolute, or empty
  bool take_over = false;            // take the checkpoint directory from a launch that uses it
  std::string role = "default";
  std::string run_id;                        // --rdzv-id unchanged, or empty
  std::string job_name;                      // run_id made safe for a file name, or empty
  std::int32_t master_port = 0;              // of the workers' store; 0: any free one
  std::string master_port_source;            // for messages
  std::map<std::string, std::string> added;  // --env
  std::vector<std::string> program;          // as given, not empty
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool virtual_local_rank = false;
  bool share_gpus = false;
  std::optional<Duration> wait_for_gpus;  // until no process of another user fills them
  std::string redirects;                  // as given, checked
  std::string tee;
  std::vector<std::string> stdout_filters;  // --duplicate-stdout-filters
  std::vector<std::string> stderr_filters;
  std::optional<std::vector<std::int32_t>> shown_local_ranks;  // --local-ranks-filter
  Control control = Control::kAuto;
  std::vector<Host> hosts;  // by node number, spares after; empty: this machine
  RemoteOptions remote;
  bool store_on_agent = true;
  std::optional<InputOption> input;
  std::vector<WrapperOption> wrappers;
  bool trace = false;
  wire::Mpi mpi = wire::Mpi::kAuto;
  bool dry_run = false;
  bool json = false;
  bool quiet = false;
};

// Where the launcher was started.
struct Surroundings {
  Environment environment;
  std::string working_directory;
  std::string hostname;
  std::map<std::string, std::string> files = {};  // contents of files_of(), by path as given
};

// Returns the files of hosts and of variables that the caller must read before it calls make_options(). For
// each file, the first text is the name of the setting, for messages, and the second is the path.
std::vector<std::pair<std::string, std::string>> files_of(const Settings& settings);

Expected<Options> make_options(const Settings& settings, std::vector<std::string> program,
                               const Surroundings& here);

// Returns the number of nodes in the form that --nodes has: "2", or "1:4".
std::string nodes_text(const Options& options);
// Returns the absolute directory of the jobs' logs. Commands for existing jobs need no other setting.
Expected<std::string> log_directory_of(const Settings& settings, const Surroundings& here);

// Returns the value of -r or -t for one local rank. 0 stands for no stream, 1 for stdout, 2 for stderr, and 3
// for both.
std::int32_t streams_of(std::string_view text, std::int32_t local_rank);

}  // namespace muster::launcher
