// Every command of `launch`, as data: what it takes, what it does, how it is used.
//
// The command line, --help, the man page and the shells' completions are made from this table and those of
// flags.h, so that nothing is described twice. Constants only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "launcher/core/settings/flags.h"

namespace muster::launcher {

enum class Operand {
  kProgram,  // a program with its arguments; the flags of a launch stand before it
  kJob,      // the name of a job, or the beginning of one
  kRunning,  // the same of one that runs
  kShell,    // the name of a shell
  kTopic,    // of the help
  kNone,
  kNodes,        // nothing or `add HOSTS`, then the name of a job that runs
  kSchedule,     // what is done with a pipeline schedule, then its name or file
  kCheckpoints,  // what is done with checkpoints, then their directory, then another one or a file
};

struct Example {
  std::string_view line;
  std::string_view meaning;
};

struct Command {
  std::string_view name;
  Operand operand;
  std::string_view summary;         // one sentence, for the list of commands
  std::string_view text;            // what else one must know; may be empty
  std::span<const Flag> own_flags;  // of a command that takes no program
  std::span<const Example> examples;
};

std::span<const Command> commands();
// The command of this exact name, or nullptr.
const Command* find_command(std::string_view name);
// Words that will be commands: a program of such a name is started as one that is named like a command.
std::span<const std::string_view> future_commands();
bool is_future_command(std::string_view name);

// What `launch ckpt` does, as its first word says.
inline constexpr std::string_view kCheckpointWords = "ls show verify diff prune pin unpin export import";

using FlagTables = std::vector<std::span<const Flag>>;
FlagTables flags_of(const Command& command);
// "[FLAGS] [JOB]"
std::string_view usage_of(Operand operand);

struct ExitCode {
  std::string_view code;
  std::string_view meaning;
};
std::span<const ExitCode> exit_codes();

}  // namespace muster::launcher
