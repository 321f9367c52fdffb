// Tables of all flags that `launch` knows. flags.cc has Muster's own flags, and torchrun_flags.cc has those
// of torchrun.
//
// The readers of the command line (arguments.h), the environment and the configuration file use these tables.
// --help, the man page and the completions of shells are made from them. options.h decides what a value
// means.
#pragma once

#include <span>
#include <string_view>

namespace muster::launcher {

enum class Treatment {
  kOption,       // read by make_options() under its own name
  kAlias,        // another name for the option that `text` names
  kNoEffect,     // accepted and ignored; `text` says why
  kUnsupported,  // refused; `text` says what to use instead
};

struct Flag {
  std::string_view name;   // without its dashes; users may write `_` for `-`
  char letter;             // the short form, or 0
  std::string_view value;  // name of the value in --help; empty for a switch
  Treatment treatment;
  std::string_view text;        // for kOption: the text in --help
  std::string_view topic = {};  // for Muster's own flags: their topic in `launch help` (help.h)
};

std::span<const Flag> own_flags();
std::span<const Flag> torchrun_flags();
// `launch sweep run` takes these too.
std::span<const Flag> sweep_run_flags();

// Returns the flag with exactly this name, or nullptr. The name has dashes and no underscores.
const Flag* find_flag(std::string_view name);
// Returns whether all values count if the flag is repeated. Otherwise only the last one counts.
bool may_be_repeated(const Flag& flag);
// Returns the name under which Settings keeps the flag's value. Usually this is the flag's own name. If the
// flag is an alias, it is the name of the flag that it stands for.
std::string_view option_name(const Flag& flag);

}  // namespace muster::launcher
