// What stands on a command line: the flags of a command, and the words after or between them.
//
// Flags are found in tables: `--`, `--name=value`, `-r3`, underscores and unambiguous prefixes are understood
// alike by all commands. Each error is one line that names the flag. What a value means is decided by who
// reads it. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/settings/commands.h"
#include "launcher/core/settings/flags.h"

namespace muster::launcher {

struct GivenFlag {
  const Flag* flag;
  std::string spelling;  // as typed, for messages
  std::optional<std::string> value;
};

// Takes apart the words of a command that starts a program: flags up to the first word that is none, then the
// program.
struct Arguments {
  std::vector<GivenFlag> flags;
  std::vector<std::string> program;
  std::vector<std::string> notices;
};
// Takes apart the words after the command's name; never looks past the program's.
Expected<Arguments> sort_arguments(const std::vector<std::string>& words);

// The same for any other command: flags and operands in any order.
struct CommandArguments {
  std::map<std::string, GivenFlag, std::less<>> flags;  // by name; the last one wins
  std::vector<std::string> operands;
  bool has(std::string_view name) const { return flags.contains(name); }
  // The flag's value, or "".
  std::string value(std::string_view name) const;
  // The same as a number of `what`, 0 or more; nothing if the flag was not given.
  Expected<std::optional<std::size_t>> count(std::string_view name, std::string_view what) const;
};
// Errors: also more operands than the command takes.
Expected<CommandArguments> read_command_arguments(const Command& command,
                                                  const std::vector<std::string>& words);

// "not a flag of launch", with the nearest that is one.
std::string unknown_flag_hint(std::string_view name);

}  // namespace muster::launcher
