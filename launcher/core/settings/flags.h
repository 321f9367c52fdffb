// Every flag that `launch` knows, as data: its own (flags.cc) and torchrun's (torchrun_flags.cc).
//
// The command line (arguments.h), the environment and the configuration file are read by these tables, and
// --help, the man page and the shells' completions are made from them, so that a flag is described once. What
// a value means is decided in options.h.
#pragma once

#include <span>
#include <string_view>

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
  std::string_view text;        // of an option: what --help says
  std::string_view topic = {};  // of `launch help`, where our own flags of a launch stand (help.h)
};

std::span<const Flag> own_flags();
std::span<const Flag> torchrun_flags();

// The flag of this exact name (dashes, not underscores), or nullptr.
const Flag* find_flag(std::string_view name);
// The name under which the flag's value is kept: its own, or that of the option it is an alias of.
std::string_view option_name(const Flag& flag);

}  // namespace muster::launcher
