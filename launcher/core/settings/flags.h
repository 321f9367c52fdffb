// Every flag that `launch` knows, as data: its own (flags.cc) and torchrun's (torchrun_flags.cc).
//
// The readers of the command line (arguments.h), the environment and the configuration file use these tables;
// --help, the man page and the shells' completions are generated from them. options.h decides what a value
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

// The flag with this exact name (dashes, not underscores), or nullptr.
const Flag* find_flag(std::string_view name);
// Whether all values of a repeated flag count, and not only the last.
bool may_be_repeated(const Flag& flag);
// The name under which Settings keeps the value: the flag's own, or for an alias that of its option.
std::string_view option_name(const Flag& flag);

}  // namespace muster::launcher
