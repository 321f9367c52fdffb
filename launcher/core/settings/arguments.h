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

// The words of a command that starts a program. Flags come first, and then the program. The program begins at
// the first word that is not a flag.
struct Arguments {
  std::vector<GivenFlag> flags;
  std::vector<std::string> program;
  bool after_dashes = false;  // `--` stands before the program
  std::vector<std::string> notices;
};
// Sorts the words that follow the command's name into flags and the program. Arguments of the program are
// never read as flags. `more` are flags that the command has in addition to those of a job.
Expected<Arguments> sort_arguments(const std::vector<std::string>& words, std::span<const Flag> more = {});

// The words of a command that starts no program. Flags and operands can come in any order.
struct CommandArguments {
  std::map<std::string, GivenFlag, std::less<>> flags;  // by name
  std::vector<std::string> operands;
  bool has(std::string_view name) const { return flags.contains(name); }
  // The flag's value, or "".
  std::string value(std::string_view name) const;
  // Returns the value of the flag as a number that is `least` or more. Returns nullopt if the flag was not
  // given. `what` is the thing that is counted, for the error message.
  Expected<std::optional<std::size_t>> count(std::string_view name, std::string_view what,
                                             std::uint32_t least = 0) const;
};
// Reads the words that follow the command's name. Returns the same errors as sort_arguments(). It is also an
// error if a flag has two values, or if there are more operands than the command takes.
Expected<CommandArguments> read_command_arguments(const Command& command,
                                                  const std::vector<std::string>& words);

// Returns a hint such as "not a flag of launch". It suggests the flag with the most similar name.
std::string unknown_flag_hint(std::string_view name, std::span<const Flag> more = {});

}  // namespace muster::launcher
