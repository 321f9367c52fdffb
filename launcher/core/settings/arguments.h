// Splits a command line into the flags of a command and its other words.
//
// Flags come from tables. All commands accept `--`, `--name=value`, `-r3`, underscores and unambiguous
// prefixes. Each error is one line that names the flag. The callers decide what a value means. Pure.
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

// The words of a command that starts a program: flags, then the program. The first word that is not a flag
// begins the program.
struct Arguments {
  std::vector<GivenFlag> flags;
  std::vector<std::string> program;
  bool after_dashes = false;  // `--` stands before the program
  std::vector<std::string> notices;
};
// Splits the words after the command's name. Never reads the program's arguments as flags. `more`: flags that
// the command has in addition to those of a job.
Expected<Arguments> sort_arguments(const std::vector<std::string>& words, std::span<const Flag> more = {});

// The words of any other command: flags and operands in any order.
struct CommandArguments {
  std::map<std::string, GivenFlag, std::less<>> flags;  // by name
  std::vector<std::string> operands;
  bool has(std::string_view name) const { return flags.contains(name); }
  // The flag's value, or "".
  std::string value(std::string_view name) const;
  // The flag's value as a number of `what`, 0 or more; nullopt if the flag was not given.
  Expected<std::optional<std::size_t>> count(std::string_view name, std::string_view what) const;
};
// Errors: as for sort_arguments(), a flag with two values, and more operands than the command takes.
Expected<CommandArguments> read_command_arguments(const Command& command,
                                                  const std::vector<std::string>& words);

// "not a flag of launch", with the nearest flag as a suggestion.
std::string unknown_flag_hint(std::string_view name, std::span<const Flag> more = {});

}  // namespace muster::launcher
