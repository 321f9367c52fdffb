// Every command of `launch`, as data: its operands, flags, help and examples.
//
// The command line, --help, the man page and the shells' completions are generated from this table and those
// of flags.h. Constants only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/settings/flags.h"

namespace muster::launcher {

enum class Operand {
  kProgram,  // a program with its arguments, after the flags of a launch
  kJob,      // the name of a job, or a prefix of it
  kRunning,  // the name of a running job, or a prefix of it
  kShell,    // the name of a shell
  kTopic,    // a topic of the help
  kNone,
  kNodes,        // nothing or `add HOSTS`, then a running job
  kSchedule,     // what to do with a pipeline schedule, then its name or file
  kSweep,        // what to do, then a program or the directory of a sweep
  kCheckpoints,  // what to do, then a checkpoint directory, then another directory or a file
};

struct Example {
  std::string_view line;
  std::string_view meaning;
};

struct Command {
  std::string_view name;
  Operand operand;
  std::string_view summary;         // one sentence, for the list of commands
  std::string_view text;            // details for the command's own help; may be empty
  std::span<const Flag> own_flags;  // only of commands that take no program
  std::span<const Example> examples;
};

std::span<const Command> commands();
// Returns the command with exactly this name, or nullptr.
const Command* find_command(std::string_view name);
// Returns names that are reserved for future commands. A program with such a name can be started with `launch
// run` or `launch --`.
std::span<const std::string_view> future_commands();
// Returns a message if the first word looks like a command, but is none. It may be a name that is reserved
// for the future, or a word with which other tools manage jobs. Returns nullopt for any other word, because
// it can be a program.
std::optional<std::string> refusal_of_word(std::string_view word);

// The names of JobEntry::State, in its order.
inline constexpr std::string_view kJobStates = "running|succeeded|failed|stopped|cancelled|lost|elsewhere";
// The first word after `launch ckpt`.
inline constexpr std::string_view kCheckpointWords = "ls show verify diff prune pin unpin export import";

// The first word after `launch sweep`.
inline constexpr std::string_view kSweepWords = "run preview status best show resume cancel ask tell importance plot import export";

using FlagTables = std::vector<std::span<const Flag>>;
FlagTables flags_of(const Command& command);
// Such as "[FLAGS] [JOB]".
std::string_view usage_of(Operand operand);

struct ExitCode {
  std::string_view code;
  std::string_view meaning;
};
std::span<const ExitCode> exit_codes();

}  // namespace muster::launcher
