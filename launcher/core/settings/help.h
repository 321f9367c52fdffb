// The texts of --help, `launch help` and `launch man`.
//
// The first page fits on one screen; the rest is sorted by topic. Generated from the tables of commands and
// flags (commands.h, flags.h). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/settings/commands.h"

namespace muster::launcher {

struct Topic {
  std::string_view name;
  std::string_view summary;
};
std::span<const Topic> topics();

// `launch --help`: usage, the most used flags, commands, topics.
std::string overview();
// `launch help NAME`: a topic, a command, or "all". Errors: the name is unknown.
Expected<std::string> help_on(std::string_view name);
// `launch NAME --help`.
std::string help_of(const Command& command);
// The man page launch(1), in roff with the man macros.
std::string man_page(std::string_view version);

// A sentence that says what the flag does, or why launch ignores or refuses it.
std::string description_of(const Flag& flag);
// Such as "-f, --follow" or "--rank RANKS".
std::string spelling_of(const Flag& flag);

}  // namespace muster::launcher
