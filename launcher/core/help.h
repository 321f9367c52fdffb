// What --help and `launch man` print.
//
// Made from the tables of commands and flags (commands.h, flags.h). Pure.
#pragma once

#include <string>

#include "launcher/core/commands.h"

namespace muster::launcher {

// `launch --help`: all commands, the flags of a launch, examples, exit codes.
std::string overview();
// `launch NAME --help`.
std::string help_of(const Command& command);
// The man page launch(1), in roff with the man macros.
std::string man_page(std::string_view version);

// What a flag does, or what becomes of it: a sentence.
std::string description_of(const Flag& flag);
// "-f, --follow", "--rank RANKS"
std::string spelling_of(const Flag& flag);

}  // namespace muster::launcher
