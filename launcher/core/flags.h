// Every flag that `launch` knows, as data: its own (flags.cc) and torchrun's (torchrun_flags.cc).
//
// The command line, the environment and the configuration file are read by these tables, and --help is
// printed from them, so that a flag is described once. What a value means is decided in options.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster::launcher {

enum class Treatment {
  kOption,       // read by make_options() under its own name
  kAlias,        // another name of the option that `text` names
  kNoEffect,     // accepted; `text` says why nothing needs to be done
  kUnsupported,  // refused; `text` says what to use instead
};

struct Flag {
  std::string_view name;   // without its dashes; `_` for `-` is accepted too
  char letter;             // of its short form, or 0
  std::string_view value;  // what --help calls its value; empty: a switch
  Treatment treatment;
  std::string_view text;  // of an option: what --help says
};

std::span<const Flag> own_flags();
std::span<const Flag> torchrun_flags();

// The flag of this exact name (dashes, not underscores), or nullptr.
const Flag* find_flag(std::string_view name);
// The name under which the flag's value is kept: its own, or that of the option it is an alias of.
std::string_view option_name(const Flag& flag);
// "not a flag of launch", with the nearest that is one.
std::string unknown_flag_hint(std::string_view name);

// What stands on a command line: flags up to the first word that is none, then the program.
struct Arguments {
  struct Given {
    const Flag* flag;
    std::string spelling;  // as typed, for messages
    std::optional<std::string> value;
  };
  std::vector<Given> flags;
  std::vector<std::string> program;
  std::vector<std::string> notices;
};

// Takes apart the words after the program's own name: `--`, `--name=value`, `-r3`, underscores and
// unambiguous prefixes of flags are understood, never past the program's name. Each error is one line that
// names the flag.
Expected<Arguments> sort_arguments(const std::vector<std::string>& words);

}  // namespace muster::launcher
